// The compiler's front door: ONNX models in, one plan out.
//
//   CompileOptions options;
//   options.models = {{"prefill", "prefill64.onnx"}, {"decode", "decode.onnx"}};
//   Result<CompileReport> report = Compile(options, "pycoder.rondo");
//
// Compiling the same models with the same options gives the same bytes. Everything here is plain values. A
// call keeps no state, so calls from different threads are independent. Memory-mapped weights are read during
// the call: the files must not change meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/choose_libraries.h"
#include "compiler/codegen/emitted_plan.h"
#include "compiler/codegen/kernel_profile.h"
#include "compiler/import/bound_value.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/ir/view.h"
#include "compiler/schedule/overlap.h"
#include "compiler/slow_kernels.h"
#include "compiler/targets.h"
#include "core/custom_op.h"
#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/bucket_note.h"

namespace rondo {

// One model and the program it becomes. Names must differ.
struct ModelSource {
  std::string program;  // "main" by convention when there is only one
  std::string path;     // of the .onnx file; "{rank}" stands for the device's index: one file a device
  // Like the fields of CompileOptions, but for this model only; these come first.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  BoundValues bound_inputs = {};
  std::map<std::string, std::vector<int64_t>> lengths = {};
  // Above 1: with sample_logits, a run draws up to so many tokens of each text, one after the other
  // (passes::TokenLoop). kInvalidArgument for a program that does not read the token that it draws.
  int64_t token_rounds = 1;
  // For a bucket (compiler/buckets.h) of a model with several lengths: the family `bucket_of`, the program's
  // upper bound for each length, and whether it is the largest bucket.
  std::string bucket_of = {};
  std::vector<BucketLength> rooms = {};
  bool is_largest = false;
};

// `path` with "{rank}" replaced by the device's index.
std::string ModelPathOn(const std::string& path, uint32_t device);

// An input and an output of the model that are one persistent buffer: `--state k_cache:k_cache_out`.
struct StateName {
  std::string input, output;
};

// The type in which f32 matmuls, convolutions and attention of the models compute. kTf32: f32, with inputs
// that may be rounded to tf32 where the target has instructions for it. kF16, kBF16: that type, with sums in
// f32 (compiler/passes/lower_precision.cc); states get that type too, other inputs and outputs keep theirs.
enum class Precision : uint8_t { kF32, kTf32, kF16, kBF16 };
// "f32", "tf32", "f16", "bf16"; no value for other texts.
std::optional<Precision> ParsePrecision(std::string_view text);

// Rounds weights of matmuls to fewer bits (compiler/passes/quantize_weights.cc): "int4:32", "int8", "fp8".
struct WeightBits {
  PackedType type = PackedType::kNone;
  int64_t block = 0;  // numbers that share a scale; 0: a whole column
};
// No value for other texts. Blocks are powers of two from 16 to 256.
std::optional<WeightBits> ParseWeightBits(std::string_view text);

// How `tensor_parallel` devices use the weights of a whole model. kDivide: each device does the share of the
// work that belongs to its share of the weights. kGather: every device does all of the work, stores its share
// of each weight, and gathers the whole weight just before its use (compiler/schedule/gather_weights.h);
// results are bit-identical to those of one device.
enum class Weights : uint8_t { kDivide, kGather };

// Schedules of one program (compiler/variants.h). kFastest: as without variants. kSmallest: in the smallest
// arena that is found, in more time.
enum class Variant : uint8_t { kFastest, kSmallest };

struct CompileOptions {
  // The plan's producer (PlanData::producer); empty: this release of Rondo. Part of the plan's bytes.
  std::string producer;
  std::vector<ModelSource> models;
  Targets targets;                   // the host, if nothing else is said
  Matmuls matmuls = Matmuls::kAuto;  // on GPUs: by a vendor library, or generated
  std::string library_path;          // folders, separated by ':', searched first for vendor compilers
  // Measurements on the target (rondo tune, rondo profile); and how many other variants of each matmul the
  // plan records, to be measured.
  KernelProfile profile;
  int64_t alternatives = 0;
  // The folder that caches machine code of compiled kernels (codegen/cuda/kernel_cache.h); empty: none. Never
  // changes the result.
  std::string kernel_cache;
  // Number of devices, 0 to 64. Each runs every program: with its share of the weights if the model says so
  // (compiler/import/shard.h) or has a file for each device, and with the model's collectives. 0: one device,
  // and models with collectives are refused.
  uint32_t devices = 0;
  // Splits a whole model over this many devices (compiler/shard/shard_graph.h), 0 to 64; 0 and 1: no split.
  // Excludes `devices`. The report of the pass `shard` states collectives and bytes of each program, and what
  // was not split and why.
  uint32_t tensor_parallel = 0;
  Weights weights = Weights::kDivide;
  // Cuts a whole model into this many consecutive stages (compiler/shard/stages.h), each for one device or
  // for `tensor_parallel` devices; at most 64 devices. 0 and 1: no stages. Results are bit-identical to those
  // of one device if there is no `tensor_parallel`, or weights are gathered.
  uint32_t pipeline_parallel = 0;
  // The dimensions of an input whose shape the model leaves open, or a value for a symbolic dimension, by
  // name: `--shape tokens=1,64`, `--shape batch=4`. Applies to every model that has the name. Several values
  // for a symbolic dimension, `--shape batch=1,4,16`, make one program for each: a bucket, which runs
  // anything up to its value. Several such dimensions make one for each combination.
  std::map<std::string, std::vector<int64_t>> shapes;
  // Ranges, for symbolic dimensions only: `--shape sequence=16..64` is 16, 32, 64.
  std::map<std::string, std::vector<int64_t>> lengths;
  // Inputs whose values become part of the plan: conditions of branches, axes, sizes. Applies to every model
  // that has the name; ModelSource::bound_inputs comes first.
  BoundValues bound_inputs;
  // The same, but only for inputs whose values the compiler needs (ProgramReport::frozen).
  BoundValues values_at_hand;
  // Upper bounds where data decide: the rounds of a Loop, or the boxes of a class of a NonMaxSuppression, by
  // the node's name or the name of one of its outputs. A run that exceeds the bound fails. Applies to every
  // model that has the node.
  std::map<std::string, int64_t> bounds;
  std::vector<StateName> states;  // applied to every model that has both names
  // The same as texts "INPUT:OUTPUT", whose names may contain ':' (compiler/given_ports.h): each model splits
  // them where both sides are names it has.
  std::vector<std::string> state_texts;
  bool auto_state = true;  // also pair inputs and outputs by naming conventions
  // Inputs whose memory the caller gives away in each run. An output of the same shape and type is computed
  // in it if all readers of the input can run before; otherwise temporaries may use it. For every model that
  // has the name, in plans for one device.
  std::vector<std::string> donations;
  // Not 0: caches that grow by the positions of a run become caches of this many positions, updated in place
  // (ImportWithFixedCaches). kInvalidArgument if no model has such a cache.
  int64_t cache_length = 0;
  // With cache_length: the inputs that are masks over all positions, in every model that has the name. No
  // other input counts as one unless its length shows it (ImportOptions::position_masks). kInvalidArgument if
  // no model has one; "none" means no input.
  std::vector<std::string> position_masks;
  // Not empty: programs with this output draw each text's next token from it on the device
  // (passes::AppendSampling). `sample_tokens`: the token input, if several are possible. `sample_text`: both,
  // "LOGITS[:TOKENS]", split like state_texts.
  std::string sample_logits, sample_tokens, sample_text;
  // Folders that symbolic links to the models' external data may lead to, besides the model's own and its
  // repository's in Hugging Face's cache (formats/onnx/external_data.h).
  std::vector<std::string> external_data;
  // Weights whose external file is missing become synthetic with this seed; no value: an error.
  std::optional<uint64_t> synthetic_seed;
  // Weights stay replaceable: no pass reads their values or merges, folds or packs them, so that
  // formats/plan/live_weights.h can replace them in the plan.
  bool live_weights = false;
  Precision precision = Precision::kF32;
  WeightBits quantize;
  int64_t longest_unrolled = 16;  // rounds up to which recurrent operators are unrolled, not loops
  // Custom ops that the models may call. May be null; must outlive the call. The order and the folders of
  // libraries do not affect the plan.
  const OpRegistry* ops = nullptr;
  // The fraction by which a device's arena may grow so that collectives run beside compute
  // (compiler/schedule/overlap.h).
  double overlap_budget = 0.1;
  // Each program also gets a variant with this schedule, of which a session chooses by the memory that is
  // free; a program keeps it only if its arena is smaller. kFastest: none.
  Variant variant = Variant::kFastest;
  // The number of row chunks into which collectives between devices, and the row-wise work around them, are
  // cut (compiler/chunk_collectives.cc): 2 to 64; 1: not cut; 0: for each
  // collective the number with the shortest estimated run.
  uint32_t chunks = 0;
  // Annotations of the models' nodes. "fuse": "off" (a kernel of its own); "graph": "off" (in no graph with
  // others); "region": a name (compiler/ir/region.h); "keep": "together" (with the nodes it exchanges values
  // with: compiler/import/kept_regions.h); "stream": 0 to 63 (compiler/schedule/streams.h); "after" and
  // "needs": names of nodes (compiler/import/control_edges.h). Metadata of a model's nodes can say the same.
  std::vector<NodeAnnotation> annotations;
  std::vector<std::string> break_before;  // ONNX node names: a partition ends before each
  // Names of optional passes of the table (pipeline.h) to leave out. For tests and for finding faults.
  std::vector<std::string> skip_passes;
  // After every pass, checks everything that the table (pipeline.h) promises for it, and names the pass that
  // breaks a promise. Takes time; does not affect the plan.
#ifdef NDEBUG
  bool check_passes = false;
#else
  bool check_passes = true;
#endif
  // Calls `dump` with the printed program after each pass named here.
  std::vector<std::string> dump_after;
  std::function<void(const std::string& program, const std::string& pass, const std::string& text)> dump;
  // Called when a pass begins, to show progress. `program` is "" for passes over all programs.
  std::function<void(const std::string& program, const std::string& pass)> progress;
  // The base name of a separate weights file, written beside the plan; empty: weights go into the plan.
  std::string weights_file;
  int threads = 0;  // for parallel work; 0: one for each core. Never changes the result
  // Matmuls on GPUs are generated, whatever a profile says about libraries, whose ranking of algorithms may
  // change with their version. Generated kernels add in a fixed order, without atomics on data. kAuto then
  // means kGenerated, and kLibrary is refused. Collectives between GPUs add in the order that NCCL chooses
  // for the machine.
  bool deterministic = false;
};

// The share of a state that one device holds, if a whole model is split.
struct StateShare {
  std::string program, input, output;  // names in the model
  uint32_t device = 0;
  Shape whole;     // of the whole state
  ir::View share;  // within dense storage of that shape
  // The place of the share in the device's memory, which is dense unless heads were padded; padding is
  // unused.
  ir::View held;
};

struct PassReport {
  std::string program;  // "" for passes over all programs; "NAME@D" on device D of several
  std::string pass;
  double seconds = 0;
  std::string text;  // what it did, one or more lines without a final newline; may be empty
};

struct PartitionReport {
  uint32_t first_step = 0, num_steps = 0;
  BreakReason reason = BreakReason::kProgramEnd;
  std::string detail;  // a sentence
};

struct ProgramReport {
  std::string program;
  std::string variant_of;  // the program that it is a variant of; empty: none
  uint32_t steps = 0;
  std::vector<PartitionReport> partitions;
  uint64_t peak_before = 0, peak_after = 0;  // live bytes in the model's own order, in the chosen one
  uint64_t peak_least = 0;  // lower bound over all orders; if equal to peak_after, the order is optimal
  std::string order;        // how the order was found, as a sentence
  uint64_t arena_bytes = 0;
  uint64_t arena_lower_bound = 0;   // equal to arena_bytes: the memory plan is optimal for its order
  std::string fusions;              // what is known about the memory of other fusions
  OverlapReport overlap;            // of its collectives; empty without any
  std::vector<std::string> frozen;  // inputs bound to CompileOptions::values_at_hand
};

struct CompileReport {
  std::vector<PassReport> passes;  // in the order they ran
  std::vector<ProgramReport> programs;
  std::vector<StateShare> state_shares;  // with tensor_parallel or pipeline_parallel; else none
  uint64_t weights_bytes = 0;            // stored as bytes
  uint64_t synthetic_bytes = 0;          // generated instead of stored
  uint64_t state_bytes = 0;
  uint64_t arena_bytes = 0;  // the largest of the programs'
  uint32_t kernels = 0;
  ProfileUse profile;
  std::vector<SlowKernel> slow_kernels;  // slowest first
  std::string estimates;                 // the origin of estimated times, as a sentence
  double seconds = 0;
};

// A compiled plan in memory, verified and checked. Movable; owns everything that `plan` points to.
struct CompiledPlan : EmittedPlan {
  CompileReport report;
};

// Compiles without writing anything. Errors are sentences with the ONNX nodes they come from:
// kInvalidArgument for options with unknown names, kUnsupported for models that need what Rondo lacks (lists
// every missing operator), kNotFound, kIo and kCorrupt for model files, kInternal when the result cannot be
// proven correct.
Result<CompiledPlan> CompileToMemory(const CompileOptions& options);

// Compiles, and returns the bytes of the plan's file. kInvalidArgument with options.weights_file.
Result<std::vector<uint8_t>> CompileToBytes(const CompileOptions& options);

// Compiles and writes the plan to `plan_path` (and options.weights_file beside it). Nothing is written unless
// the verifier and the checker pass; a file is replaced only when the new one is complete.
Result<CompileReport> Compile(const CompileOptions& options, const std::string& plan_path);

// Writes the missing external-data file of the model at `model_path` to `path`, with the weights of a
// synthetic compile with `seed`, at the offsets that the model states. kInvalidArgument when the model has no
// missing file, or more than one.
Status WriteSynthetic(const std::string& model_path, uint64_t seed, const std::string& path);

}  // namespace rondo
