// The state shared by the stages of fusion: the prepared graph, the place of each node's result, and the
// groups. Internal to compiler/fusion.
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
#include "compiler/fusion/in_place/place.h"
#include "compiler/fusion/lowered.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/node_annotation.h"

namespace rondo::fusion {

using ir::Graph, ir::kNoNode, ir::Node, ir::NodeId, ir::Op, ir::View;

// The place of a node's result: its dense index space, mapped by `placement` into the memory of a value.
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
  std::vector<NodeId> prologue;  // members computed at the points of a matmul's lhs
  NodeId sink = ir::kNoNode;     // the node whose value leaves the part; its shape is the domain
  std::vector<NodeId> beside;    // members of that shape that depend on it and are stored as well
  // kReduction: the shape of the reduced tensor and of the rows (reduced dims 1), and which members are
  // computed per element and which per row. Other members are computed wherever they are read.
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
      readers;                       // compute nodes and concats that read a node, directly or through views
  std::vector<Home> homes;           // by node; value < 0: not yet named (temporaries) or not in memory
  std::vector<ir::View> placements;  // by node: the order of its elements, if it gets memory of its own
  std::vector<char> stored;          // by node: must be in memory whatever reads it
  std::vector<Needed> needed;        // by node; empty: everything is always needed
  std::vector<Place> places;         // by node: whose memory holds it, where, and why (in_place/)
  std::vector<NodeId> donated;       // outputs that are computed in the memory of donated inputs
  // By node: if it is a state's new value, its kernel cannot write it into the state (constraints.h).
  std::vector<char> through_copy;
  std::vector<char> alone;  // by node: must not share a part with others (constraints.h)
  // Matmuls with an operand that was copied so that both have the same order along K.
  std::set<NodeId> in_one_order;
  // By node: an image between convolutions and pools (channels_last.cc); GPUs only.
  std::vector<char> pictures;
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
  // Whether `id` must not share a part with any other node: found out, or annotated.
  bool FusionOff(NodeId id) const {
    if (alone[static_cast<size_t>(id)] != 0) return true;
    const auto& said = node(id).annotations;
    return said.count("fuse") != 0 && said.count(kOwnerKey) == 0;
  }
  // Whether the factors of a matmul or convolution may be rounded to tf32.
  bool MayRoundToTf32(const ir::Node& contraction) const {
    const auto said = contraction.annotations.find("precision");
    const bool on = said == contraction.annotations.end() ? options.tf32 : said->second == "tf32";
    return on && contraction.dtype == DType::kF32;
  }
  // Whether one part may compute both. With `fuse: off`, the pieces of an ONNX node only share parts with one
  // another. Nodes annotated for different streams are separate. An expensive node is not computed where it
  // is not needed just because another one is.
  bool SamePlace(NodeId a, NodeId b) const {
    return ir::MayShareKernel(node(a), node(b)) && StaysConditional(a, b) && StaysConditional(b, a);
  }
  // Whether computing `a` wherever `a` or `b` is needed wastes no expensive work.
  bool StaysConditional(NodeId a, NodeId b) const {
    if (needed.empty() || !needed[static_cast<size_t>(a)].expensive) return true;
    const Conditions& own = needed[static_cast<size_t>(a)].where;
    return Common(own, needed[static_cast<size_t>(b)].where).size() == own.size();
  }
  // The concatenation or collective in whose memory `id` is a part; kNoNode if there is none.
  NodeId PartOf(NodeId id) const { return places[id].how == Place::How::kPart ? places[id].in : kNoNode; }
  // The oldest of the versions to which `id` belongs, which owns their memory; `id` if it is not a version.
  NodeId StorageOf(NodeId id) const { return places[id].IsVersion() ? places[id].in : id; }
  // Whether the kernel of `id` reads the memory of `storage`.
  bool ReadsStorage(NodeId id, NodeId storage) const {
    const ir::Node& n = node(id);
    for (size_t k = n.op == ir::Op::kIndexedWrite ? 1 : 0; k < n.inputs.size(); ++k) {
      if (StorageOf(base(n.inputs[k])) == storage) return true;
    }
    return false;
  }
  bool InGroup(NodeId id, int group) const { return group_of[id] == group; }
};

// The reason why a part could not be emitted, from which constraints are made.
struct Obstacle {
  bool found = false;
  NodeId reader = ir::kNoNode;  // node whose read of input `slot` does not have plain strides
  int slot = -1;                // -1: the reader itself must be kept out of larger parts
  std::string what;
  int group = -1;                // the group of the part
  NodeId written = ir::kNoNode;  // a state's new value, whose part reads the old value at other points
  bool copies_at_once = false;   // copy the input at once, without first taking the part apart
};

// A node that copies `x` (any node, usually a view) to dense memory of its own.
NodeId InsertCopy(ir::Graph* graph, NodeId x);

// `input "x"`, `state "k_cache"`, `constant "w"`, `Add "layers.3.add"`: the name of what `id` shows, for
// reasons and messages.
std::string NameOf(const ir::Graph& graph, NodeId id);

// Gives each reader of a widened 16-bit value its own cast (widen_at_readers.cc).
void WidenAtReaders(ir::Graph* graph);
// Whether `id` is such a cast.
bool Widens(const ir::Graph& graph, NodeId id);
// The steps from bytes to floats up to `id`, the last first: a scale, a zero point (each a single number),
// and the cast from 8 bits. Empty if `id` is something else.
std::vector<NodeId> StepsFromBytes(const ir::Graph& graph, NodeId id);
// On the host: reductions of such floats widen the bytes themselves if other kernels also read them, so that
// only the bytes are in memory.
void WidenBytesForReductions(ir::Graph* graph);
// Whether it widens a value that was rounded from a wider type to 16 bits.
bool WidensWhatWasRounded(const ir::Graph& graph, NodeId id);

// Changes context->graph so that every node that needs memory has some, by inserting copies. Fills in order,
// readers, stored and places (in_place/preparation.h). Called again after changes of the graph, it only adds
// what they need.
Status Prepare(Context* context);

// Fills in context->pictures; call it after Prepare's other work (channels_last.cc).
void FindPictures(Context* context);
// Types of 16 and 8 bits that tensor cores multiply.
bool IsNarrow(DType dtype);
// Whether a tensor [n, c, spatial...] is stored with channels last on a GPU: 16-bit images.
bool TensorCoresWantChannelsLast(const Context& context, NodeId id);
// Whether a tensor [n, spatial..., c] that convolutions read as an image keeps its own order: on a GPU, with
// 16 bits.
bool TensorCoresWantOwnOrder(const Context& context, NodeId id);
// [n, c, spatial...] as a view of memory with [n, spatial..., c].
ir::View ChannelsLast(const Shape& shape);
// Whether a collective that reads `input`, and so needs dense memory, finds it dense if the base is stored
// with channels last.
bool SentChannelsLast(const Context& context, NodeId input);

// Call it after groups are formed: places ports, states and constants in memory, and decides the element
// order of all others (place_values.cc). Resets context->program.
void PlaceValues(Context* context);
// The element order of a node in memory of its own (element_order.cc).
ir::View PlacementFor(const Context& context, NodeId id);
// The node whose memory holds this version (`id` itself if it is not a version).
NodeId FirstVersion(const ir::Graph& graph, NodeId id);
// The alignment that calls of custom ops and collectives may rely on for everything they touch.
inline constexpr int64_t kRunAlignment = 64;  // bytes
// The byte from which `view` shows contiguous elements of `dtype`; no value if they are not contiguous, or
// not so aligned.
std::optional<uint64_t> RunOffset(const ir::View& view, DType dtype);
// The home of a node that is in memory; creates a temporary if it has none yet.
const Home& HomeOf(Context* context, NodeId id);

// The node of result `output` of kLoop `loop`; kNoNode if nothing needs it (emit_loop.cc).
NodeId LoopResultOf(const Context& context, NodeId loop, size_t output);
// Fuses the body of a loop.
Result<std::shared_ptr<const LoweredLoop>> LowerLoop(const std::shared_ptr<const ir::LoopInfo>& info,
                                                     const FuseOptions& options);

// Forms all groups anew (groups.cc).
void FormGroups(Context* context);

// Turns every group into an op of context->program (emit_groups.cc), or reports the obstacles of the groups.
Status EmitGroups(Context* context, std::vector<Obstacle>* obstacles);

// Merges independent single-part ops (sibling_fusion.cc).
void FuseSiblings(LoweredProgram* program);

// "MatMul \"a\", Add \"b\"" for messages.
std::string SourcesOf(const ir::Node& node);

}  // namespace rondo::fusion
