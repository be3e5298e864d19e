// Import: an ONNX model becomes an IR graph.
//
// Each ONNX operator is decomposed into the IR's few primitives. Movement becomes views. Values that depend
// on constants alone are evaluated at once, so shape arithmetic leaves no nodes. All shapes are static:
// symbolic dims get their values from the options. Growing caches are followed as sizes that a run decides
// (compiler/ir/sizes.h). Model functions are inlined, an If with a constant condition becomes its branch, and
// Loop and Scan with a constant trip count are unrolled.
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

// Models of older and newer opsets are accepted if possible (opset_range.cc).
inline constexpr int64_t kOldestOpset = 6;
inline constexpr int64_t kNewestOpset = 28;

struct ImportOptions {
  // Values of symbolic dims by name ("batch" -> 1).
  std::map<std::string, ir::Size> symbols;
  // Whole shapes of inputs by input name. They replace the model's shapes.
  std::map<std::string, ir::Dims> input_shapes;
  // Inputs that become constants with this value ("use_cache_branch" -> 1), and are no longer inputs.
  BoundValues bound_inputs;
  // Values of inputs in the caller's runs. ImportModel binds those inputs whose value it must know, and lists
  // them in ImportReport::frozen.
  BoundValues values_at_hand;
  // By node (its name, or one of its outputs): the limit on a number that data decide, such as the rounds of
  // a Loop or the boxes of a class. A run that needs more is a fault.
  std::map<std::string, int64_t> bounds;
  // Weights whose external file does not exist become synthetic (core/synthetic.h) instead of an error.
  bool allow_synthetic = false;
  uint64_t synthetic_seed = 0;
  // Live weights (formats/plan/live_weights.h) become synthetic, so that nobody knows their values.
  bool live_weights = false;
  // The program is for device `rank` of `devices`: weights marked with `rondo.shard` are sliced, and
  // collectives join all devices. 0: a single device, and collectives are refused.
  uint32_t devices = 0;
  uint32_t rank = 0;
  // The number of devices over which the whole model will be sharded. The model's own hints for this number
  // are read (device_hints.h).
  uint32_t shared_over = 0;
  // Custom ops: a node with the name of one becomes a call of it, even if the importer knows that name. May
  // be null; must outlive the call of ImportModel.
  const OpRegistry* ops = nullptr;
  // If not empty: the reason why no graph may contain a call of a custom op that cannot be enqueued on a GPU.
  std::string_view calls_outside_graphs;
  // Recurrent operators, Loop and Scan of up to this many rounds are unrolled. Longer ones become loops
  // (compiler/ir/loop.h) if their bodies are the same in every round.
  int64_t longest_unrolled = 16;
  // Annotations in addition to those in the model's nodes. They win over those.
  std::vector<NodeAnnotation> annotations;
  // Inputs that are growing caches, and the number of positions that a run adds to them. Operators that write
  // into them (GroupQueryAttention) give longer ones.
  std::set<std::string> growing;
  int64_t rows_of_run = 0;
  // Names of inputs that are masks over all positions (the cached ones and the run's), in addition to masks
  // whose last dimension has that number's name. If empty, the import also looks for masks whose last
  // dimension has a name that only masks have: "attention_mask" is taken for a mask over positions, and any
  // other one if it masks caches. If not empty, it does not look for any ("none": there are none).
  std::vector<std::string> position_masks;
  // A hint for messages about open dims, after "--shape NAME=VALUE". None: the hint for growing caches.
  std::optional<std::string> open_dims_hint;
  // Report which attributes handlers read (ImportReport::attributes).
  bool list_attributes = false;
  // Only shapes are needed: weights that the import itself computes have no bytes.
  bool shapes_only = false;
  // The limit on the model's IR nodes, before its file and weights raise it (allowance.h).
  int64_t max_nodes = 1 << 17;
};

// An operator's handler has read an attribute of a node.
struct AttributeRead {
  enum Kind {
    kPresence,  // only whether the node has it
    kWhole,     // a tensor or graph, or whatever it holds
    kValue,     // numbers or texts, which have a default
  };
  std::string domain, op;  // of the model's node, even if its handler calls others
  std::string name;
  Kind kind = kValue;
  bool is_other = false;  // kValue: the value is not the default; otherwise: the node has the attribute
  int line = 0;           // of the read, in the handler's file
};

// One annotation holds for an ONNX node (annotations.h).
struct BoundNode {
  std::string node;  // `MatMul "a"`, as in provenance
  std::string key, value;
  std::string by;      // the annotation's origin: `--annotate a:fuse=off`
  bool needed = true;  // some output needs the node
  int owner = 0;       // for `fuse`: the number of the annotated ONNX node, kOwnerKey of its IR nodes
  // While passes run (compiler/bound_nodes.h): whether an IR node of it still runs, and otherwise what it
  // became.
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
  std::vector<std::string> remarks;        // sentences for the user
  std::vector<NamedValue> values;          // of the main graph's nodes
  std::vector<std::string> unneeded;       // nodes of the main graph that no output needs: `Op "node"`
  std::vector<AttributeRead> attributes;   // in order, if asked for
  DeviceHints hints;                       // read if options.shared_over is above 1
  std::vector<bool> annotated;             // by annotation of the options: some node has it
  std::vector<NamedValue> asserted;        // by the number of the assertion (ir::IsAssertion)
  std::vector<BoundNode> bound;            // in order; a node of a loop's rounds again for each
  // By owner: the provenance of itself, of the nodes inside it, and of the calls that contain it.
  std::map<int, std::set<std::string>> sources_of;
  // By a region's name ("layer/attention"): the provenance of its nodes, and of the calls that contain these.
  std::map<std::string, std::set<std::string>> sources_in;
};

// The model as an IR graph, with inputs and outputs in the model's order. An input with a default value in
// the model (an initializer of its name) keeps that value. It is an input of the graph only if the options
// have its shape, a number for it, or, if the default has no elements, all of its dims. Constants may point
// into the model and its mapped files, and keep them alive. Errors: kUnsupported for operators or modes that
// Rondo does not have (all unknown operators are listed at once, with the nodes that use them),
// kInvalidArgument for shapes missing from the options, kCorrupt for models that contradict themselves. Each
// names the ONNX node. `report` may be null.
Result<ir::Graph> ImportModel(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                              ImportReport* report);

// The caches of a model that got a fixed length.
struct FixedCaches {
  std::vector<std::string> inputs;
  std::string
      states_to_try;  // "--state INPUT:OUTPUT" of inputs that look like caches and are named otherwise
};

// The same for a model with growing caches, which become inputs of `length` positions. The outputs are these
// caches with the run's rows written at the first free position. The last nonzero element of the mask (which
// has `length` elements) gives the number of cached positions. Without a mask, the input seqlens_k of
// GroupQueryAttention gives it; without either, a new input past_sequence_length, i64 [1]. `states` names
// pairs in addition to those with the names of ir/port_names.h. Without growing caches: the graph of
// ImportModel. kUnsupported, with the node, if the model uses the number of cached positions in a way that
// Rondo cannot follow. Other outputs with an element for every position have `length` elements, with 0 after
// the last real one.
Result<ir::Graph> ImportWithFixedCaches(const std::shared_ptr<onnx::Model>& model,
                                        const ImportOptions& options, int64_t length,
                                        const std::vector<std::pair<std::string, std::string>>& states,
                                        ImportReport* report, FixedCaches* caches);

// The same for a bucket, a graph with room for a range of lengths. `note` lists the lengths (symbolic dims)
// and the room of each; a run gives each length a value from 1 to its room. The caller sets the note's
// family. Inputs must have 0 in their padding. A length on which some result depends becomes an input `length
// of NAME`, i64 [], after the model's inputs. Within a run's sizes, the outputs equal those of a program for
// exactly these sizes, up to rounding. Fills in the rest of `note` and makes it the provenance of the first
// input. kUnsupported, with the node, if padding would change a result. `check_extents`: imports the model
// once more with different room, and refuses it if an operator uses the room in place of the length; one of a
// model's buckets needs this check.
Result<ir::Graph> ImportForBucket(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                                  bool check_extents, BucketNote* note, ImportReport* report);

// A note for the user if `graph`, imported from `model`, has growing caches: it is for one number of cached
// positions. "" if no cache grows.
std::string NoteOnGrowingCaches(const onnx::Model& model, const ir::Graph& graph);

// All operators that the importer knows, as "domain::op", sorted ("" is ai.onnx).
std::vector<std::string> ImportableOperators();

}  // namespace rondo
