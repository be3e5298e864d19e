// The compiler's front door: ONNX models in, one plan out.
//
//   CompileOptions options;
//   options.models = {{"prefill", "prefill64.onnx"}, {"decode", "decode.onnx"}};
//   Result<CompileReport> report = Compile(options, "pycoder.rondo");
//
// Compiling the same models with the same options gives the same bytes. Everything here is plain values; a
// call keeps no state behind, so calls from different threads are independent. Memory-mapped weights are
// read while the call runs: the files must not change meanwhile.
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
#include "compiler/targets.h"
#include "core/custom_op.h"
#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/bucket_note.h"

namespace rondo {

// One model and the program it becomes. Names must differ.
struct ModelSource {
  std::string program;  // "main" by convention when there is only one
  std::string path;     // of the .onnx file; "{rank}" in it stands for the device's number: one file a device
  // Like CompileOptions' own, for this model only, and before those.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  BoundValues bound_inputs = {};
  std::map<std::string, std::vector<int64_t>> lengths = {};
  // What is made of a model with several lengths (compiler/buckets.h): the program is one of the buckets of
  // `bucket_of`, with room for so much of each length, perhaps the one with the most.
  std::string bucket_of = {};
  std::vector<BucketLength> rooms = {};
  bool is_largest = false;
};

// `path` with the number of the device for its "{rank}".
std::string ModelPathOn(const std::string& path, uint32_t device);

// An input and an output of the model that are one persistent buffer: `--state k_cache:k_cache_out`.
struct StateName {
  std::string input, output;
};

// What f32 matmuls, convolutions and attention of the models compute in. kTf32: in f32, with factors that
// may be rounded to tf32 where the target has instructions for it. kF16, kBF16: in that type, with sums in
// f32 (compiler/passes/lower_precision.cc); states are of that type, other inputs and outputs stay as they
// are.
enum class Precision : uint8_t { kF32, kTf32, kF16, kBF16 };
// "f32", "tf32", "f16", "bf16"; none if the text is none of them.
std::optional<Precision> ParsePrecision(std::string_view text);

// Weights of matmuls rounded to fewer bits (compiler/passes/quantize_weights.cc): "int4:32", "int8", "fp8".
struct WeightBits {
  PackedType type = PackedType::kNone;
  int64_t block = 0;  // numbers that share a scale; 0: a column's
};
// Of text; none if it is no such thing. Blocks are powers of two from 16 to 256.
std::optional<WeightBits> ParseWeightBits(std::string_view text);

// What becomes of the weights of a whole model that `tensor_parallel` devices run. kDivide: the work follows
// them, each device does its share. kGather: every device does all of the work, keeps its share of each
// weight and brings the whole of it together just before its use (compiler/schedule/gather_weights.h);
// results are those of one device, to the bit.
enum class Weights : uint8_t { kDivide, kGather };

struct CompileOptions {
  // What the plan says made it (PlanData::producer); empty: this release of Rondo. It is part of the plan's
  // bytes.
  std::string producer;
  std::vector<ModelSource> models;
  Targets targets;                   // the host, if nothing else is said
  Matmuls matmuls = Matmuls::kAuto;  // of GPUs: by a vendor library, or generated
  std::string library_path;  // folders, separated by ':', in which vendor compilers are looked for first
  // What was measured on the target (rondo tune, rondo profile); and how many other ways to compute each
  // matmul go into the plan, to be measured.
  KernelProfile profile;
  int64_t alternatives = 0;
  // The folder that keeps machine code of kernels compiled before (codegen/cuda/kernel_cache.h); empty: none.
  // Never changes the result.
  std::string kernel_cache;
  // Devices that the plan is for, 0 to 64. Each runs every program, over its own share of the weights where
  // the model says so (compiler/import/shard.h) or has a file a device, and exchanges what the model's
  // collectives say. 0: one device, and a model with collectives is refused.
  uint32_t devices = 0;
  // Devices that a whole model is shared out over (compiler/shard/shard_graph.h), 0 to 64; 0 and 1: none. Not
  // with `devices`. What the report of the pass `shard` says of each program: collectives, bytes, and what is
  // not shared out with the reason.
  uint32_t tensor_parallel = 0;
  Weights weights = Weights::kDivide;
  // Stages that a whole model is cut into, one behind the other (compiler/shard/stages.h), each for a device,
  // or for `tensor_parallel` of them: 64 devices at most. 0 and 1: none. Results are those of one device, to
  // the bit, where `tensor_parallel` is none or weights are gathered.
  uint32_t pipeline_parallel = 0;
  // The dims of an input whose shape the model leaves open, or of a symbolic dimension (one value), by its
  // name: `--shape tokens=1,64`, `--shape batch=4`. Applies to every model that has the name. Several values
  // of a symbolic dimension, `--shape batch=1,4,16`, make a program for each: a bucket, which runs with
  // anything up to its value; of several such dimensions, for each combination.
  std::map<std::string, std::vector<int64_t>> shapes;
  // The same of symbolic dimensions alone: `--shape sequence=16..64` is 16, 32, 64.
  std::map<std::string, std::vector<int64_t>> lengths;
  // Inputs whose value is part of the plan from now on: what a branch depends on, axes, sizes. Applies to
  // every model that has the name; ModelSource::bound_inputs comes first.
  BoundValues bound_inputs;
  // The same of inputs that the compiler must know, and of no others (ProgramReport::frozen).
  BoundValues values_at_hand;
  // The most rounds of a Loop, or boxes of a class of a NonMaxSuppression, where data decide how many there
  // are, by its name or the name of an output of it. A run that has more fails. Applies to every model that
  // has the node.
  std::map<std::string, int64_t> bounds;
  std::vector<StateName> states;  // applied to every model that has both names
  // The same as texts "INPUT:OUTPUT" whose names may hold ':' (compiler/given_ports.h): each model parts them
  // where both sides are names of its own.
  std::vector<std::string> state_texts;
  bool auto_state = true;  // also pair inputs and outputs by naming conventions
  // Inputs whose memory the caller gives away with each run: an output of the same shape and type is computed
  // there, where all that reads the input can run before; else temporaries may lie there. Of every model that
  // has the name. For plans of one device.
  std::vector<std::string> donations;
  // Not 0: caches that grow by the positions of a run become caches of so many positions, changed in place
  // (ImportWithFixedCaches). kInvalidArgument if no model has such a cache.
  int64_t cache_length = 0;
  // With that: inputs that are masks over all positions, of every model that has the name, and no others
  // whose length does not say so itself (ImportOptions::position_masks). kInvalidArgument if no model has
  // one; "none" is no input.
  std::vector<std::string> position_masks;
  // Not empty: programs that have this output draw the next token of each text from it, on the device
  // (passes::AppendSampling). `sample_tokens`: the input that has tokens, where several could be it.
  // `sample_text`: both, "LOGITS[:TOKENS]", parted as state_texts are.
  std::string sample_logits, sample_tokens, sample_text;
  // Folders that symbolic links to the models' external data may lead to, beside the model's own and its
  // repository's in Hugging Face's cache (formats/onnx/external_data.h).
  std::vector<std::string> external_data;
  // Weights whose external file is missing become synthetic with this seed; none: that is an error.
  std::optional<uint64_t> synthetic_seed;
  // Weights stay open: no pass looks at their values or merges, folds or packs them, so that
  // formats/plan/live_weights.h may give them others in the plan.
  bool live_weights = false;
  Precision precision = Precision::kF32;
  WeightBits quantize;
  int64_t longest_unrolled = 16;  // rounds of recurrent operators that become straight steps, not a loop
  // Custom ops that the models may call. May be null; must outlive the call. Libraries loaded in another
  // order or from another folder make no difference to the plan.
  const OpRegistry* ops = nullptr;
  // By how much of its bytes a device's arena may grow so that collectives run beside compute
  // (compiler/schedule/overlap.h).
  double overlap_budget = 0.1;
  // Into how many chunks of rows collectives between devices, and what works row by row around them, are cut
  // (compiler/chunk_collectives.cc): 2 to 64; 1: none is; 0: as the run ends first by estimate.
  uint32_t chunks = 1;
  // Of nodes of the models: "fuse" is "off" (a kernel of its own), "graph" is "off" (in no graph with
  // others), "keep" is "together" (with those that it exchanges values with: compiler/import/kept_regions.h),
  // "stream" is 0 to 63 (compiler/schedule/streams.h), "after" and "needs" are names of nodes
  // (compiler/import/control_edges.h). Models say the same by metadata of their nodes.
  std::vector<NodeAnnotation> annotations;
  std::vector<std::string> break_before;  // ONNX node names: a partition ends before each
  // Names of optional passes of the table (pipeline.h) to leave out. For tests and for finding faults.
  std::vector<std::string> skip_passes;
  // After every pass, all that the table (pipeline.h) says holds then is checked: a pass that breaks it is
  // named. Takes time; costs nothing of the plan.
#ifdef NDEBUG
  bool check_passes = false;
#else
  bool check_passes = true;
#endif
  // Calls `dump` with the printed program after each pass of these names.
  std::vector<std::string> dump_after;
  std::function<void(const std::string& program, const std::string& pass, const std::string& text)> dump;
  // Called when a pass begins: for progress on a terminal. `program` is "" for passes over all programs.
  std::function<void(const std::string& program, const std::string& pass)> progress;
  // The base name of a separate weights file, written beside the plan; empty: weights go into the plan.
  std::string weights_file;
  int threads = 0;  // for work that can be spread; 0: one a core. Never changes the result
  // Matmuls on GPUs are generated, whatever a profile says of libraries, whose ranking of algorithms may
  // change with their version (generated kernels add in one order, with no atomics on data): kAuto means
  // kGenerated, and kLibrary is refused. Collectives between GPUs add in the order that NCCL chooses for the
  // machine.
  bool deterministic = false;
};

// What one device holds of a state, where a whole model is shared out.
struct StateShare {
  std::string program, input, output;  // names in the model
  uint32_t device = 0;
  Shape whole;     // of all of it
  ir::View share;  // of dense storage of that shape
  // Where that lies in what the device has, the rest of which is nobody's: dense, unless heads were padded.
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
  uint32_t steps = 0;
  std::vector<PartitionReport> partitions;
  uint64_t peak_before = 0, peak_after = 0;  // live bytes in the model's own order, in the chosen one
  uint64_t peak_least = 0;                   // that no order gets below: at peak_after, that is proven least
  std::string order;                         // how the order was found, in a sentence
  uint64_t arena_bytes = 0;
  uint64_t arena_lower_bound = 0;   // equal to arena_bytes: the memory plan is optimal for its order
  std::string fusions;              // what is known of the memory that other fusions would take
  OverlapReport overlap;            // of its collectives; without any, empty
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
  std::string estimates;  // where times of steps and collectives come from, in a sentence
  double seconds = 0;
};

// A compiled plan in memory, verified and checked. Movable; owns all that `plan` points to.
struct CompiledPlan : EmittedPlan {
  CompileReport report;
};

// Compiles without writing anything. Errors are sentences with the ONNX nodes they come from:
// kInvalidArgument for options that name nothing, kUnsupported for models that need what Rondo lacks (every
// operator it does not have is listed), kNotFound, kIo and kCorrupt for model files, kInternal when the
// result cannot be proven correct.
Result<CompiledPlan> CompileToMemory(const CompileOptions& options);

// Compiles; the bytes of the plan's file. kInvalidArgument with options.weights_file.
Result<std::vector<uint8_t>> CompileToBytes(const CompileOptions& options);

// Compiles and writes the plan to `plan_path` (and options.weights_file beside it). Nothing is written unless
// verifier and checker have passed; a file is replaced only once it is complete.
Result<CompileReport> Compile(const CompileOptions& options, const std::string& plan_path);

// Writes the external-data file that the model at `model_path` names and that does not exist, with the
// weights a synthetic compile with `seed` uses, at the offsets the model states, to `path`. kInvalidArgument
// when the model has no missing file, or more than one.
Status WriteSynthetic(const std::string& model_path, uint64_t seed, const std::string& path);

}  // namespace rondo
