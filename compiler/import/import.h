// Import: an ONNX model becomes an IR graph.
//
// Every ONNX operator is decomposed into the IR's few primitives as it is met; movement becomes views, and
// whatever depends on constants alone is evaluated at once, so that shape arithmetic leaves no trace. All
// shapes are static: symbolic dims get their values from the options. Caches that grow are followed as sizes
// that a run decides (compiler/ir/sizes.h). Model functions are inlined, If with
// a constant condition takes its branch, Loop and Scan with a constant trip count are unrolled.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/bound_value.h"
#include "compiler/ir/device_hints.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/named_value.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/ir/size.h"
#include "core/custom_op.h"
#include "core/status.h"
#include "formats/onnx/reader.h"
#include "formats/plan/bucket_note.h"

namespace rondo {

// Older and newer ones are taken where that can be done (opset_range.cc).
inline constexpr int64_t kOldestOpset = 6;
inline constexpr int64_t kNewestOpset = 28;

struct ImportOptions {
  // Values of symbolic dims by name ("batch" -> 1).
  std::map<std::string, ir::Size> symbols;
  // Whole shapes of inputs by input name; they replace what the model says.
  std::map<std::string, ir::Dims> input_shapes;
  // Inputs whose value is known from now on ("use_cache_branch" -> 1), and that are no longer inputs.
  BoundValues bound_inputs;
  // Values that inputs have in the runs that matter: ImportModel binds those inputs whose value it must know,
  // and lists them in ImportReport::frozen.
  BoundValues values_at_hand;
  // By node (its name, or an output of it): the most rounds of a Loop, or boxes of a class, that data decide.
  // A run that has more is a fault.
  std::map<std::string, int64_t> bounds;
  // Weights whose external file does not exist become synthetic (core/synthetic.h) instead of an error.
  bool allow_synthetic = false;
  uint64_t synthetic_seed = 0;
  // Live weights (formats/plan/live_weights.h) become synthetic, so that nobody knows their values.
  bool live_weights = false;
  // The program is for device `rank` of `devices`: weights marked with `rondo.shard` are sliced, collectives
  // join all devices. 0 devices: one, and collectives are refused.
  uint32_t devices = 0;
  uint32_t rank = 0;
  // Devices that the whole model will be shared out over: its own hints for as many are read
  // (device_hints.h).
  uint32_t shared_over = 0;
  // Custom ops: a node that one of them is named after becomes a call of it, whatever else knows its name.
  // May be null; must outlive the call of ImportModel.
  const OpRegistry* ops = nullptr;
  // Not empty: no graph may contain a call of a custom op that cannot be enqueued on a GPU, for this reason.
  std::string_view calls_outside_graphs;
  // Recurrent operators, Loop and Scan of up to so many rounds are written out; longer ones become loops
  // (compiler/ir/loop.h), if their bodies are the same in every round.
  int64_t longest_unrolled = 16;
  // Beside those that the model's nodes have themselves, and before them.
  std::vector<NodeAnnotation> annotations;
  // Inputs that are caches which grow by what a run adds, and how many positions that is: operators that
  // write into them (GroupQueryAttention) give longer ones.
  std::set<std::string> growing;
  int64_t rows_of_run = 0;
  // Inputs that are masks over all positions, of those and of this run, beside those whose last dimension is
  // named for that number. Not empty: no other input is, whatever its name ("none": none). Empty: an input
  // "attention_mask" of a length of its own is, and another mask of such a length where it masks caches.
  std::vector<std::string> position_masks;
  // What else a caller can do about dims that the model leaves open, behind "--shape NAME=VALUE"; none: what
  // fits caches that grow.
  std::optional<std::string> open_dims_hint;
  // Report what handlers read of attributes (ImportReport::attributes).
  bool list_attributes = false;
  // Only shapes are of interest: weights that import itself works out have no bytes.
  bool shapes_only = false;
  // The most IR nodes that a model may become, before its file and weights raise that (allowance.h).
  int64_t max_nodes = 1 << 17;
};

// That the handler of an operator asked for an attribute of a node.
struct AttributeRead {
  enum Kind {
    kPresence,  // only whether the node has it
    kWhole,     // a tensor or graph, or whatever it holds
    kValue,     // numbers or texts, which have a default
  };
  std::string domain, op;  // of the model's node, whatever other handlers its own calls
  std::string name;
  Kind kind = kValue;
  bool is_other = false;  // kValue: the node says something else than the default; else: it has the attribute
  int line = 0;           // of the handler's file, where it asks
};

// That one annotation binds an ONNX node (annotations.h).
struct BoundNode {
  std::string node;  // `MatMul "a"`, as provenance has it
  std::string key, value;
  std::string by;      // who says so: `--annotate a:fuse=off`
  bool needed = true;  // some output needs the node
  int owner = 0;       // of `fuse`: the number of the ONNX node that it is said of, kOwnerKey of its IR nodes
  // While passes run (compiler/bound_nodes.h): whether some IR node that runs is of it, and what it became
  // if none is any more.
  bool runs = false;
  std::string became = {};
};

struct ImportReport {
  int64_t onnx_nodes = 0;                  // imported, after inlining and unrolling
  int64_t skipped_nodes = 0;               // of the main graph, that no output needs
  std::vector<std::string> synthetic;      // names of the weights made synthetic
  std::vector<std::string> unused_inputs;  // model inputs that no output depends on
  std::vector<std::string> empty_outputs;  // left out: they have no elements (with bound inputs only)
  std::vector<std::string> frozen;         // inputs bound to ImportOptions::values_at_hand
  std::set<std::string> bounds_used;       // of ImportOptions::bounds
  std::vector<std::string> remarks;        // sentences that people should read
  std::vector<NamedValue> values;          // of the main graph's nodes
  std::vector<std::string> unneeded;       // nodes of the main graph that no output needs: `Op "node"`
  std::vector<AttributeRead> attributes;   // in order, if asked for
  DeviceHints hints;                       // read if options.shared_over is above 1
  std::vector<bool> annotated;             // by annotation of the options: some node has it
  std::vector<NamedValue> asserted;        // by the number of the assertion (ir::IsAssertion)
  std::vector<BoundNode> bound;            // in order; a node of a loop's rounds again for each
  // Of owners: themselves, what lies in them, and the calls that they lie in, as provenance has those.
  std::map<int, std::set<std::string>> sources_of;
  // Of regions, by their names ("layer/attention"): what lies in them, and the calls that that lies in.
  std::map<std::string, std::set<std::string>> sources_in;
};

// The model as an IR graph: inputs and outputs in the model's order. Inputs that the model has a value of (an
// initializer of their name) have that value, and are inputs only where the options have their shape, a
// number for them, or, of a value without elements, all of their dims. Constants may point into the model and
// its mapped files and keep them alive. Errors: kUnsupported for operators or modes Rondo has not (unknown
// operators are listed all at once, with the nodes that use them), kInvalidArgument for shapes missing from
// the options, kCorrupt for models that contradict themselves; each names the ONNX node. `report` may be
// null.
Result<ir::Graph> ImportModel(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                              ImportReport* report);

// The caches of a model that were made ones of a fixed length.
struct FixedCaches {
  std::vector<std::string> inputs;
  std::string
      states_to_try;  // "--state INPUT:OUTPUT" of inputs that look like caches and are named otherwise
};

// The same for a model whose caches grow by what a run adds: they are inputs of `length` positions instead,
// and the outputs are the same with this run's rows written in at the first free one. How many are cached
// already is the last nonzero element of the mask (which has `length` elements), or a new input
// past_sequence_length [1] of i64 where the model has neither that nor the input seqlens_k of
// GroupQueryAttention. `states` names pairs besides those that ir/port_names.h says. Without growing caches:
// the graph of ImportModel. kUnsupported, with the node, where the model does something along the cached
// positions that depends on their number in another way than rondo can follow. Other outputs with an element
// for every position have `length` of them, 0 behind the last real one.
Result<ir::Graph> ImportWithFixedCaches(const std::shared_ptr<onnx::Model>& model,
                                        const ImportOptions& options, int64_t length,
                                        const std::vector<std::pair<std::string, std::string>>& states,
                                        ImportReport* report, FixedCaches* caches);

// The same for a bucket: `note` says of which symbolic dims (lengths) there is room for how much, where a run
// gives 1 to so many; its family is the caller's. Inputs are given with 0 in their padding; lengths that some
// result depends on are inputs `length of NAME`, i64 [], after the model's. Of the outputs the elements that
// a run has are those of a program of its own sizes, to rounding. Fills in the rest of `note`, and makes it
// the provenance of the first input. kUnsupported, with the node, where padding would change a result; that
// no operator takes a length to be all that there is room for is known where `check_extents` was asked for in
// one of a model's buckets: by importing it once more, with other room.
Result<ir::Graph> ImportForBucket(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                                  bool check_extents, BucketNote* note, ImportReport* report);

// What people should know of the caches of `graph`, imported from `model` with caches that grow: that it is
// for one number of cached positions. "" if nothing grows.
std::string NoteOnGrowingCaches(const onnx::Model& model, const ir::Graph& graph);

// Every operator the importer knows, as "domain::op", sorted ("" is ai.onnx).
std::vector<std::string> ImportableOperators();

}  // namespace rondo
