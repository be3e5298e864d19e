// What the stages of fusion share: the prepared graph, where each node's result lives, and the groups.
// Internal to compiler/fusion.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/fusion/conditions.h"
#include "compiler/fusion/fuse.h"
#include "compiler/fusion/lowered.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/node_annotation.h"

namespace rondo::fusion {

using ir::Graph, ir::kNoNode, ir::Node, ir::NodeId, ir::Op, ir::View;

// Where a node's result lies: its dense index space shown by `placement` in the memory of a value.
struct Home {
  int value = -1;
  ir::View placement;
};

// The nodes that one part computes.
struct Group {
  int id = 0;
  Skeleton skeleton = Skeleton::kMap;
  bool collective = false;      // no part: a kCollective node of its own
  bool call = false;            // no part: a kCall and its kCallResults
  bool loop = false;            // no part: a kLoop and its kLoopResults
  std::vector<NodeId> anchors;  // matmuls with one lhs, convolutions of one input; otherwise at most one node
  std::vector<NodeId> nodes;    // members, anchors included
  std::vector<NodeId> prologue;  // members computed at the points of a matmul's left side
  NodeId sink = ir::kNoNode;     // the node whose value leaves the part; its shape is the domain
  std::vector<NodeId> beside;    // members of that shape that are made of it and leave as well
  // kReduction: the shape of what is reduced and of the rows (reduced dims 1), and which members are computed
  // once an element and which once a row. Other members are computed wherever they are read.
  Shape domain, reduced;
  std::vector<NodeId> elements, rows;
};

using LoweredLoops = std::map<const ir::LoopInfo*, std::shared_ptr<const LoweredLoop>>;

struct Context {
  FuseOptions options;
  const LoweredLoops* loops = nullptr;  // of the graph's loops
  ir::Graph graph;
  LoweredProgram program;
  std::vector<NodeId> order;  // live nodes, topological
  std::vector<int> position;  // in `order`, by node
  std::vector<std::vector<NodeId>>
      readers;                       // compute nodes and concats that read a node, views looked through
  std::vector<Home> homes;           // by node; value < 0: not yet named (temporaries) or not in memory
  std::vector<ir::View> placements;  // by node: the order of its elements, if it gets memory of its own
  std::vector<char> stored;          // by node: must be in memory whoever reads it
  std::vector<Needed> needed;        // by node; empty: everything is needed always
  // By node: the concatenation whose memory holds it, or the collective that gathers it there; or kNoNode.
  std::vector<NodeId> concat_of;
  std::vector<char> own_order;  // by node: its elements lie in their own order, for who counts on that
  std::unordered_map<NodeId, ir::View> concat_places;  // of those: where in it
  std::vector<NodeId>
      storage_of;          // by node: the state input whose memory this version of it lies in, or kNoNode
  std::vector<char> made;  // by node: a copy that preparing made
  std::unordered_map<NodeId, std::string> copied_because;  // of copies: why there must be one
  // Of donated inputs that are no output's (donated_memory.cc): why none is computed in their memory; "": one
  // is, or what changes them is no output. And by output: the input in whose memory it is.
  std::unordered_map<NodeId, std::string> given_away;
  std::map<int, NodeId> taken_by;
  std::set<NodeId> changed_inputs;  // donated ones that are written where they lie, for no output
  // By node: where it is a state's new value, its kernel cannot write it into the state (constraints.h).
  std::vector<char> through_copy;
  // Copies that bring elements of a state to lower places in it: their parts walk the memory upwards, so that
  // each is read before it is written over (output_memory.cc).
  std::set<NodeId> upwards;
  std::vector<char> alone;  // by node: no part computes it together with others (constraints.h)
  // Matmuls of which an operand has been copied so that both lie in one order along what is summed up.
  std::set<NodeId> in_one_order;
  std::vector<char> pictures;  // by node: lies between convolutions and pools (channels_last.cc); GPUs only
  std::vector<Group> groups;
  std::vector<int> group_of;  // by node, -1: none

  const ir::Node& node(NodeId id) const { return graph.node(id); }
  NodeId base(NodeId id) const { return graph.BaseOf(id); }
  bool IsLeaf(NodeId id) const { return node(id).op == ir::Op::kInput || node(id).op == ir::Op::kConstant; }
  // Pointwise work that can be computed wherever it is read.
  bool IsInlinable(NodeId id) const {
    ir::Op op = node(id).op;
    return (op == ir::Op::kPointwise || op == ir::Op::kIndexedRead) && !FusionOff(id);
  }
  // Whether a part must not compute `id` together with any other node: found out, or annotated so.
  bool FusionOff(NodeId id) const {
    if (alone[static_cast<size_t>(id)] != 0) return true;
    const auto& said = node(id).annotations;
    return said.count("fuse") != 0 && said.count(kOwnerKey) == 0;
  }
  // Whether one part may compute both: the pieces of an ONNX node with `fuse: off` share parts with one
  // another alone, what is annotated for one stream is not computed on another, and what is expensive is not
  // computed where it is not needed because something else is.
  bool SamePlace(NodeId a, NodeId b) const {
    return ir::BoundAlike(node(a), node(b)) && StaysConditional(a, b) && StaysConditional(b, a);
  }
  // Whether `a` can be computed wherever both are needed, or one of them.
  bool StaysConditional(NodeId a, NodeId b) const {
    if (needed.empty() || !needed[static_cast<size_t>(a)].expensive) return true;
    const Conditions& own = needed[static_cast<size_t>(a)].where;
    return Common(own, needed[static_cast<size_t>(b)].where).size() == own.size();
  }
  // Whether a kernel that computes `id` reads the memory of the state input `storage`.
  bool ReadsStorage(NodeId id, NodeId storage) const {
    const ir::Node& n = node(id);
    for (size_t k = n.op == ir::Op::kIndexedWrite ? 1 : 0; k < n.inputs.size(); ++k) {
      if (storage_of[base(n.inputs[k])] == storage) return true;
    }
    return false;
  }
  bool InGroup(NodeId id, int group) const { return group_of[id] == group; }
};

// What kept a part from being emitted: what constraints are made of.
struct Obstacle {
  bool found = false;
  NodeId reader = ir::kNoNode;  // node whose read of input `slot` has no plain strides
  int slot = -1;                // -1: the reader itself must be kept out of larger parts
  std::string what;
  int group = -1;                // whose part it was
  NodeId written = ir::kNoNode;  // a state's new value, which the part reads as it was at other points
  bool copies_at_once = false;   // what is read is copied without taking the part apart before
};

// A node that copies `x` (any node, usually a view) to dense memory of its own.
NodeId InsertCopy(ir::Graph* graph, NodeId x);

// `input "x"`, `state "k_cache"`, `constant "w"`, `Add "layers.3.add"`: what `id` shows, for reasons and
// messages.
std::string NameOf(const ir::Graph& graph, NodeId id);

// Gives each reader of a value of 16 bits that is widened a widening of its own
// (widen_at_readers.cc).
void WidenAtReaders(ir::Graph* graph);
// Whether `id` widens such a value.
bool Widens(const ir::Graph& graph, NodeId id);
// What makes floats of bytes up to `id`, the last first: a scale, a zero point, both one number, and the cast
// of what is of 8 bits. Empty if `id` is something else.
std::vector<NodeId> StepsFromBytes(const ir::Graph& graph, NodeId id);
// On the host, reductions of such floats widen the bytes themselves where others read them in other kernels:
// what lies in memory is the bytes.
void WidenBytesForReductions(ir::Graph* graph);
// Whether it widens a value that was wider before it was rounded to 16 bits.
bool WidensWhatWasRounded(const ir::Graph& graph, NodeId id);

// Changes context->graph so that what needs memory has some, by inserting copies, and fills order, readers,
// stored and concatenations. Again after the graph has changed: then it only adds what the change needs.
Status Prepare(Context* context);

// Fills context->pictures; after what else Prepare fills (channels_last.cc).
void FindPictures(Context* context);
// Types of 16 and 8 bits that tensor cores multiply.
bool IsNarrow(DType dtype);
// Whether a tensor [n, c, spatial...] lies with its channels last on a GPU: 16-bit pictures.
bool TensorCoresWantChannelsLast(const Context& context, NodeId id);
// Whether a tensor [n, spatial..., c] that convolutions read as a picture stays in its own order: on a GPU,
// of 16 bits.
bool TensorCoresWantOwnOrder(const Context& context, NodeId id);
// [n, c, spatial...] shown in memory that holds [n, spatial..., c].
ir::View ChannelsLast(const Shape& shape);
// Whether a collective that reads `input`, which needs dense memory, finds it so where the base lies with its
// channels last.
bool SentChannelsLast(const Context& context, NodeId input);

// Once groups exist: the memory of ports, states and constants, and the placements of all others
// (place_values.cc). Begins context->program anew.
void PlaceValues(Context* context);
// Where the elements of a node lie in memory of its own (placement.cc).
ir::View PlacementFor(const Context& context, NodeId id);
// The node whose memory a version of it lies in (`id` itself if it is no version of anything).
NodeId FirstVersion(const ir::Graph& graph, NodeId id);
// What calls of custom ops and collectives may count on, as of every buffer: the alignment of what they
// touch.
inline constexpr int64_t kRunAlignment = 64;  // bytes
// From which byte on `view` shows elements of `dtype` one after another; none if it does not, or not aligned
// so.
std::optional<uint64_t> RunOffset(const ir::View& view, DType dtype);
// The home of a node that is in memory; makes a temporary for one that has none yet.
const Home& HomeOf(Context* context, NodeId id);

// The node that result `output` of kLoop `loop` is; kNoNode if nothing needs it (emit_loop.cc).
NodeId LoopResultOf(const Context& context, NodeId loop, size_t output);
// Fuses the body of a loop.
Result<std::shared_ptr<const LoweredLoop>> LowerLoop(const std::shared_ptr<const ir::LoopInfo>& info,
                                                     const FuseOptions& options);

// Forms groups, all anew (groups.cc).
void FormGroups(Context* context);

// Turns every group into an op of context->program (emit_groups.cc), or says what stands in the way of which.
Status EmitGroups(Context* context, std::vector<Obstacle>* obstacles);

// Merges independent single-part ops (sibling_fusion.cc).
void FuseSiblings(LoweredProgram* program);

// "MatMul \"a\", Add \"b\"" for messages.
std::string SourcesOf(const ir::Node& node);

}  // namespace rondo::fusion
