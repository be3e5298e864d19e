// The compiler's intermediate representation: an SSA graph of tensors.
//
// A node is one operation and the one tensor it defines. Movement (reshape, transpose, slice, broadcast) is
// a kView node directly over a node that is not a view: views compose when they are made. Scalar arithmetic
// is a kPointwise node whose inputs all have its own shape (views broadcast). ONNX operators are decomposed
// into these when they are imported.
//
// A Graph owns its nodes; NodeIds are indices and stay valid (nodes are marked dead, never erased, until
// Compact). Not thread-safe; different graphs are independent. Nodes are in topological order of data and
// control edges except between passes that say so.
//
// Edges of a node that Replace or RemoveDead may have seen are added by SetInput, RunAfter and SetOutput: so
// the graph knows who names a node without looking at all others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/ir/call_info.h"
#include "compiler/ir/chunked.h"
#include "compiler/ir/view.h"
#include "core/dtype.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "core/shape.h"

namespace rondo::ir {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

enum class Op : uint8_t {
  kInput,      // InputAttrs
  kConstant,   // ConstantAttrs
  kView,       // ViewAttrs; input 0 is never itself a view
  kPointwise,  // PointwiseAttrs; inputs have this node's shape
  kIota,       // IotaAttrs; i64, no inputs: the coordinate along one axis
  kReduce,     // ReduceAttrs; reduced dims stay, with extent 1
  kMatMul,     // [b..., m, k] x [b..., k, n] -> [b..., m, n]; equal batch dims (views broadcast). Of 8-bit
               // integers, i8 or u8 each, the exact sums as i32; so does kConv. With PackedAttrs: by weights
               // in fewer bits (packed.h)
  kConv,       // ConvAttrs; x [n, c, spatial...], w [o, c / groups, kernel...] -> [n, o, out...]
  kPool,       // PoolAttrs; x [n, c, spatial...] -> [n, c, out...]
  kIndexedRead,   // IndexedAttrs; data, index... -> shape of the indices
  kIndexedWrite,  // IndexedAttrs; data, updates, index... -> data with some elements replaced
  kConcat,        // ConcatAttrs; inputs along one axis
  kAttention,     // AttentionAttrs; q, k, v, [mask], [limit], [sink] -> [b, h, q, v features]
  kCollective,    // CollectiveAttrs; x -> what the devices make of theirs together
  kCall,          // CallAttrs; inputs of a custom op -> its output 0
  kCallResult,    // CallAttrs; a kCall -> another of its outputs
  kLoop,          // LoopAttrs; first values, rows and whole tensors -> the bytes of all results (loop.h)
  kLoopResult,    // LoopAttrs; a kLoop -> one of its results
};

struct PackedMatrix;  // packed.h

// The bytes of a constant, or how to make them. Immutable and shared.
struct ConstantData {
  DType dtype = DType::kF32;
  Shape shape;
  // Little-endian, dense, row-major; empty if synthetic. `keep` owns the memory (a vector, a file mapping).
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> keep;
  bool synthetic = false;
  uint64_t synthetic_key = 0;
  float synthetic_scale = 0;
  // A part of a synthetic weight: element i is the weight's (i / run) * step + i % run. Run 0: element i.
  int64_t synthetic_run = 0, synthetic_step = 0;
  // The numbers, in fewer bits (packed.h); `synthetic` is then set, and synthetic_scale bounds them.
  std::shared_ptr<const PackedMatrix> packed = {};
  // Of one device's share: all of the weight, by whose numbers the devices decide alike.
  std::shared_ptr<const ConstantData> part_of = {};
  std::string name;  // of the ONNX initializer, if it is one

  int64_t byte_size() const { return shape.elements() * ByteSize(dtype); }
  // Owns a copy of `bytes`.
  static std::shared_ptr<const ConstantData> Own(DType dtype, const Shape& shape, std::vector<uint8_t> bytes);
};

// The same with its bytes, if it is synthetic or packed.
std::shared_ptr<const ConstantData> WithBytes(const std::shared_ptr<const ConstantData>& data);

struct InputAttrs {
  int index = 0;  // into Graph::inputs
};
struct ConstantAttrs {
  std::shared_ptr<const ConstantData> data;
};
struct ViewAttrs {
  View view;
};
// `op` is one of the unary, binary and ternary TapeOps. For kCast the node's dtype is the target. `immediate`
// is TapeInst::imm.i (kIsInf's mask). Comparisons and tests give kBool. Floats compute in the tape type of
// their dtype and round to it once per node.
struct PointwiseAttrs {
  TapeOp op = TapeOp::kAdd;
  int64_t immediate = 0;
  // Of a kSelect: its third input, one number, is in the place of all positions of a cache that hold nothing,
  // and who reads it is known to come to the same for any number of those.
  bool drops_uncached = false;
};
struct IotaAttrs {
  int axis = 0;
};
enum class ReduceKind : uint8_t { kSum, kProd, kMax, kMin, kArgMax, kArgMin };
struct ReduceAttrs {
  ReduceKind kind = ReduceKind::kSum;
  std::vector<int> axes;    // ascending; exactly one for the arg reductions (result i64)
  bool last_index = false;  // arg reductions: the last of equals instead of the first
};
struct ConvAttrs {
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;  // one a spatial axis
  int64_t groups = 1;
  int64_t absent = 0;  // what lies outside of x, where x is of 8-bit integers; else 0
};
struct PoolAttrs {
  Combine kind = Combine::kMax;  // kMax, kSum or kMean (kMean divides by the number of present points)
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
};
// One data-dependent coordinate: the value v of an index input adds stride * v to the element number;
// 0 <= v < extent after `wrap` has added extent to negative ones. Values out of range are a run-time fault,
// or, if not `fault`, name no element: what is read there is 0, and what is written there is dropped.
struct IndexedDim {
  int64_t stride = 0;
  int64_t extent = 0;
  bool wrap = true;
  bool fault = true;
};
// kIndexedRead: the node's shape S is the shape of every index input (views broadcast them); element i of the
// result is data[offset + strides . i + sum_k dims[k].stride * index_k(i)], counting in data's dense storage.
// kIndexedWrite: S is the shape of the updates and of every index input; element i of the updates goes to
// that element of a tensor that is otherwise data. Where two updates meet, the later in row-major order wins
// (`combine` kNone) or all combine.
enum class ScatterCombine : uint8_t { kNone, kAdd, kMul, kMax, kMin };
struct IndexedAttrs {
  View map;                      // over S into data's dense storage: the part that no index decides
  std::vector<IndexedDim> dims;  // one an index input
  ScatterCombine combine = ScatterCombine::kNone;
  bool may_collide = true;  // kIndexedWrite: two updates may meet
};
struct ConcatAttrs {
  int axis = 0;
};
// q [b, h, s, d], k [b, g, t, d], v [b, g, t, e] with h a multiple of g (head i of q uses head i * g / h of k
// and v). mask: bool (true keeps) or float (added), broadcast by a view to [b, h, s, t]. limit: i64 broadcast
// by a view to [b, h, s]: only keys [0, limit) exist. sink: f32, broadcast by a view to [b, h, s]: a score
// without a value, which only adds to the sum of the softmax. Scores and softmax in f32.
struct AttentionAttrs {
  float scale = 1;
  float softcap = 0;
  bool has_mask = false;
  bool has_limit = false;
  bool has_sink = false;
  bool nan_to_zero = false;
  bool limit_is_cached = false;  // no key beyond the limit is one that a cache has, whatever its length
};

// The devices of a group run the same collectives, in one order: each has a weak edge to the one before it.
// kAllReduce and kBroadcast keep the shape; kAllGather puts an axis of `devices` in front; kReduceScatter
// takes such an axis away; kAllToAll keeps the shape, whose first axis is one of `devices`. A kSend is a
// node of its sender, with an input and nothing to read (shape [0]), and one of its receiver, without an
// input and of the shape that is sent; it is never dead.
struct CollectiveAttrs {
  CollectiveOp op = CollectiveOp::kAllReduce;
  int64_t devices = 1;
  std::vector<uint32_t> group = {};  // the devices, by number, as SyncPoint::participants; empty: all
};

// A call of a custom op reads and writes dense memory, and never shares a kernel. Inputs that the op changes
// are versions of one storage, as those of kIndexedWrite (versions.h): who changes a tensor that others still
// read changes a copy. Outputs that pass an input through are that input: nothing reads them. Calls with side
// effects are never dead, and keep their order by weak edges.
struct CallAttrs {
  std::shared_ptr<const CallInfo> info;
  uint32_t output = 0;  // which of the op's outputs the node is
};

// Of a kMatMul [..., m, k] x packed [n, k] -> [..., m, n]: its inputs are the left side, codes, scales and,
// if there are any, zero points, each constants of one dimension.
struct PackedAttrs {
  PackedWeights weights;
  bool has_zeros = false;
};

struct LoopInfo;  // compiler/ir/loop.h
struct LoopAttrs {
  std::shared_ptr<const LoopInfo> info;
  uint32_t output = 0;  // of a kLoopResult: which
};

using Attrs = std::variant<std::monostate, InputAttrs, ConstantAttrs, ViewAttrs, PointwiseAttrs, IotaAttrs,
                           ReduceAttrs, ConvAttrs, PoolAttrs, IndexedAttrs, ConcatAttrs, AttentionAttrs,
                           CollectiveAttrs, CallAttrs, LoopAttrs, PackedAttrs>;

struct Node {
  NodeId id = kNoNode;
  Op op = Op::kInput;
  bool dead = false;
  DType dtype = DType::kF32;
  // What walks over graphs look at stands together.
  std::vector<NodeId> inputs;
  // Control edges: these nodes run before this one. Weak edges only order (they never keep a dead node
  // alive); strong edges are effects (their source is alive as long as this node is).
  std::vector<NodeId> weak_after, strong_after;
  Shape shape;
  Attrs attrs;
  std::vector<std::string> sources;  // provenance: `MatMul "layers.3.mlp.down"`, most important first
  std::map<std::string, std::string> annotations;  // fuse, keep, stream, after, label, ...
  std::string name;                                // the model's own value name, if it has one

  template <typename A>
  const A& As() const {
    return std::get<A>(attrs);
  }
  template <typename A>
  A& As() {
    return std::get<A>(attrs);
  }
};

// The inputs of a kAttention by what they are; kNoNode for those that it has not.
struct AttentionInputs {
  NodeId q = kNoNode, k = kNoNode, v = kNoNode, mask = kNoNode, limit = kNoNode, sink = kNoNode;
};
AttentionInputs AttentionInputsOf(const Node& attention);

struct GraphInput {
  std::string name;
  NodeId node = kNoNode;
};
struct GraphOutput {
  std::string name;
  NodeId node = kNoNode;
};
// A model input and output that are one persistent buffer. Indices into inputs and outputs.
struct StatePair {
  int input = 0;
  int output = 0;
  bool donated = false;  // a buffer of one run, that the caller gives away (fusion makes these of donations)
};
// An input whose memory its user gives away, and the output that is it with some elements replaced, or -1.
struct Donation {
  int input = 0;
  int output = -1;
};

// Who reads each node; of one moment, as lists one behind the other.
class Users {
 public:
  std::span<const NodeId> operator[](size_t id) const {
    return std::span(list_).subspan(first_[id], first_[id + 1] - first_[id]);
  }
  size_t size() const { return first_.size() - 2; }  // nodes of the graph at that moment

 private:
  friend class Graph;
  std::vector<size_t> first_ = {0, 0};
  std::vector<NodeId> list_;
};

// What may still be worked out while a model is compiled: it costs time, and results are kept. Where it is
// used up, nodes over constants are left for the run. Without a limit unless the importer sets one.
struct FoldingBudget {
  int64_t work = INT64_MAX / 2;  // multiplications of a product; another operation on an element counts as 16
  int64_t bytes = INT64_MAX / 2;  // of results

  // Takes so much away; false, and nothing is taken, if that is not left.
  bool Spend(int64_t work_needed, int64_t bytes_needed);
};

class Graph {
 public:
  std::string name = "main";
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  std::vector<StatePair> states;
  std::vector<Donation> donations;
  // Somebody has said in what order nodes run: control edges are then kept of nodes, too, that die because
  // what needs them alone is replaced.
  bool ordered = false;
  // Some node, added so, is bound by an annotation (BoundAlike).
  bool annotated = false;
  // Also spent where the graph is only read: to look at a value can take as much work as to fold it.
  mutable FoldingBudget folding;
  // All that was ever added: in nodes (a reduction, or a loop, is several by what passes have to do for it),
  // and in bytes without those of constants.
  int64_t added_nodes = 0, added_bytes = 0;

  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  // Appends; fills in `id`. References to other nodes stay valid (until Compact).
  NodeId Add(Node node);

  bool IsConstant(NodeId id) const { return node(id).op == Op::kConstant; }
  // The node a view shows (itself if it is no view) and the view (dense if it is none).
  NodeId BaseOf(NodeId id) const { return node(id).op == Op::kView ? node(id).inputs[0] : id; }
  View ViewOf(NodeId id) const;

  // For every node, the live nodes that read it as data (with repetition removed), in id order.
  Users AllUsers() const;
  // Whether all live nodes that `n` names have their places before it.
  bool ComesAfterAll(const Node& n) const;
  // Every live node after its data and control inputs; ties by id. Empty if there is a cycle.
  std::vector<NodeId> TopologicalOrder() const;
  bool Acyclic();
  // In an acyclic graph: a number less than that of every node that comes after `id`. Good until an edge is
  // added.
  int64_t RankOf(NodeId id);
  // True if `to` is `from` or must run after it (data and control edges). Looks at what lies between the two.
  bool Reaches(NodeId from, NodeId to);
  // Whether Replace(from, to) keeps the control edges free of cycles, when `to` existed before and does not
  // read `from`. A pass that finds it may not leaves both nodes. Of an ordered graph: also those of nodes
  // that only `from` needs.
  bool CanReplace(NodeId from, NodeId to);
  // Whether Replace(from, to) keeps what annotations bind: what would be gone, and what is new behind `to`,
  // is all bound alike. What becomes a constant may go: it runs nothing. CanReplace asks this as well.
  bool KeepsAnnotations(NodeId from, NodeId to);
  // Input `slot` of `id` is `to` from now on.
  void SetInput(NodeId id, size_t slot, NodeId to);
  // A weak (or strong) control edge: `id` runs after `before`.
  void RunAfter(NodeId id, NodeId before, bool strong = false);
  void SetOutput(size_t output, NodeId node);
  // Makes `id` the node of the graph input of that number; not undone by TakeBack.
  void SetInputNode(size_t number, NodeId id);
  // The live nodes that name `id` as an input or in a control edge, in id order; those that read it.
  std::vector<NodeId> Naming(NodeId id);
  std::vector<NodeId> UsersOf(NodeId id);
  bool IsOutput(NodeId id);
  // The outputs that are `id`, ascending.
  std::vector<size_t> OutputsAt(NodeId id);
  // Changes on trial: after Try, Keep lets them stand and TakeBack undoes what was added, and what was
  // changed by Replace, SetInput, RunAfter, SetOutput and RemoveUnused, with as much work as there was to do.
  // Other changes to nodes that were there before are not undone.
  void Try();
  void Keep();
  void TakeBack();
  // Redirects every data use and graph output of `from` to `to`, moves from's control edges to `to` (to the
  // node that `to` shows if it is a view; past it if that is an input or constant, which run nothing) and
  // merges provenance. In an ordered graph `to` stands as well for what only `from` needed: it computes that
  // in another way. Keeps the rule that a view's input is no view (views over `from` recompose). `from` is
  // marked dead unless it is an input.
  void Replace(NodeId from, NodeId to);
  // The same without the provenance: for who merges that of many nodes at once.
  void ReplaceUses(NodeId from, NodeId to);
  // Marks every node dead that no output, strong edge, input or node with an effect needs. Returns how many.
  int RemoveDead();
  // The same for some nodes, and what only they needed: as much work as there is to remove.
  int RemoveUnused(std::vector<NodeId> nodes);
  // Drops dead nodes and renumbers in topological order.
  void Compact();

 private:
  void Changed() { pruned_ = compact_ = false; }
  void Index();
  void ForgetNames();
  // Lowers ranks until that of `id` is less than `below`; false if that is not done in few steps.
  bool LowerRank(NodeId id, int64_t below, int* tries);
  void Touch(NodeId id);  // before it changes
  void TouchOutput(size_t output);
  void Bury(Node* n, bool ordered);
  // `from`, and what would die with it if `to` took its place.
  std::vector<NodeId> NeededOnlyBy(NodeId from, NodeId to);
  // The ends of control edges between `nodes` and others than those and `target`.
  struct Order {
    std::vector<NodeId> before, after;
  };
  Order OrderOf(const std::vector<NodeId>& nodes, NodeId target);
  void MoveInnerOrder(NodeId from, NodeId to);
  bool IsNeeded(NodeId id);  // by an output, an edge or for what it does
  void Named(NodeId id, NodeId by);
  void RedirectControl(NodeId by, std::vector<NodeId>* list, NodeId from, NodeId to,
                       const std::vector<NodeId>& bridge);

  Chunked<Node> nodes_;
  // Nothing has changed since RemoveDead, or Compact, left it so.
  bool pruned_ = false, compact_ = false;
  // Who may name a node, and which outputs it may be; those that no longer do are still there. Of the first
  // `indexed_` nodes and `indexed_outputs_` outputs. By node, the first of a list within `mentions_`.
  struct Mention {
    NodeId by;
    int next;  // -1: the last
  };
  std::vector<Mention> mentions_;
  std::vector<int> named_by_;
  std::unordered_map<NodeId, std::vector<size_t>> outputs_of_;
  NodeId indexed_ = 0;
  size_t indexed_outputs_ = 0;
  std::vector<int64_t> rank_;  // by indexed node, if `ranked_`
  bool ranked_ = false;
  // On trial: nodes from `tried_from_` on are new; what others, and outputs, were.
  bool trying_ = false;
  NodeId tried_from_ = 0;
  std::unordered_map<NodeId, Node> saved_;
  std::vector<std::pair<size_t, NodeId>> saved_outputs_;
};

// Whether annotations bind both nodes in the same way: the same stream, region and graph, and, of `fuse:
// off`, the same ONNX node.
bool BoundAlike(const Node& a, const Node& b);

// Whether a node runs even if nothing reads it: calls with side effects, sends.
bool HasEffect(const Node& node);

// Whether it is a kIndexedWrite by which all updates combine into one f32, its only element: the greatest, or
// the least, of those and what was there. Kernels can do that beside what they compute (kCombineMax,
// kCombineMin of core/tape_ops.h).
bool CombinesIntoOne(const Node& node);

// Whether a kMatMul or kConv of 8-bit integers adds up its left side, or the windows of its input: it
// multiplies by one number everywhere. A driver does that beside another product of that side, for less than
// a product.
bool AddsUpLeftSide(const Graph& graph, const Node& node);

const char* Name(Op op);
// One line a live node; deterministic. What --dump-after prints.
std::string Dump(const Graph& graph);
// The internal rules of the IR (shapes, dtypes, views over non-views, edges in range, no cycle). Empty if
// they hold, else a sentence. Run after every pass in debug builds and tests.
std::string Validate(const Graph& graph);

// Provenance that is put together: each source once, in the order of its first. Linear in what is added.
class SourceList {
 public:
  void Add(const std::vector<std::string>& sources);
  std::vector<std::string> Take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
  std::unordered_set<std::string> known_;
};

// Adds the sources of `from` to `to`, without repeats.
void MergeSources(std::vector<std::string>* to, const std::vector<std::string>& from);

}  // namespace rondo::ir
