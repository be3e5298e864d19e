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
// Edges that Replace or RemoveDead may have to find must be added by SetInput, RunAfter and SetOutput: then
// the graph knows which nodes name a node without looking at all others.
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
  kMatMul,     // [b..., m, k] x [b..., k, n] -> [b..., m, n]; equal batch dims (views broadcast). With 8-bit
               // integers, i8 or u8 each: exact sums as i32; so does kConv. With PackedAttrs: packed weights
               // (packed.h)
  kConv,       // ConvAttrs; x [n, c, spatial...], w [o, c / groups, kernel...] -> [n, o, out...]
  kPool,       // PoolAttrs; x [n, c, spatial...] -> [n, c, out...]
  kIndexedRead,   // IndexedAttrs; data, index... -> shape of the indices
  kIndexedWrite,  // IndexedAttrs; data, updates, index... -> data with some elements replaced
  kConcat,        // ConcatAttrs; inputs along one axis
  kAttention,     // AttentionAttrs; q, k, v, [mask], [limit], [sink] -> [b, h, q, v features]
  kCollective,    // CollectiveAttrs; x -> the collective's result
  kCall,          // CallAttrs; inputs of a custom op -> its output 0
  kCallResult,    // CallAttrs; a kCall -> another of its outputs
  kLoop,          // LoopAttrs; first values, rows and whole tensors -> the bytes of all results (loop.h)
  kLoopResult,    // LoopAttrs; a kLoop -> one of its results
  kTopK,          // ReduceAttrs (kMax: the largest first, or kMin) of the last axis; x [rows..., n] -> i64
                  // [rows..., k]: places in each row, by core/row_order.h
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
  // A part of a synthetic weight: element i is the weight's element (i / run) * step + i % run. Run 0:
  // element i.
  int64_t synthetic_run = 0, synthetic_step = 0;
  // The numbers in packed form (packed.h); `synthetic` is then set, and synthetic_scale bounds them.
  std::shared_ptr<const PackedMatrix> packed = {};
  // For one device's share: the whole weight, so that all devices decide alike from its numbers.
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
// `op` is one of the unary, binary and ternary TapeOps, or kAssertFinite, which gives its input. For kCast
// the node's dtype is the target. `immediate` is TapeInst::imm.i (kIsInf's mask; of kAssertFinite: the
// assertion's number in the model). Comparisons and tests give kBool. Floats compute in the tape type of
// their dtype and round to it once per node.
struct PointwiseAttrs {
  TapeOp op = TapeOp::kAdd;
  int64_t immediate = 0;
  // For a kSelect whose third input is one number: it replaces the values at all unused positions of a cache,
  // and readers give the same result for any number of such positions.
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
  int64_t absent = 0;  // value outside of x if x is of 8-bit integers; otherwise 0
};
struct PoolAttrs {
  Combine kind = Combine::kMax;  // kMax, kSum or kMean (kMean divides by the number of present points)
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
};
// One data-dependent coordinate: the value v of an index input adds stride * v to the element index; 0 <= v <
// extent after `wrap` has added extent to negative ones. Values out of range are a run-time fault or, if not
// `fault`, name no element: reads give 0, and writes are dropped.
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
  View map;                      // over S into data's dense storage: the part that does not depend on indices
  std::vector<IndexedDim> dims;  // one for each index input
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
  // The keys beyond the limit are unused positions of a cache, whatever its length.
  bool limit_is_cached = false;
};

// The devices of a group run the same collectives in one order: each has a weak edge to the one before it.
// kAllReduce and kBroadcast keep the shape; kAllGather adds a first axis of `devices`; kReduceScatter removes
// such an axis; kAllToAll keeps the shape, whose first axis has `devices`. A kSend is one node on its sender,
// with an input and no readable result (shape [0]), and one on its receiver, without an input and with the
// shape that is sent; it is never dead.
struct CollectiveAttrs {
  CollectiveOp op = CollectiveOp::kAllReduce;
  int64_t devices = 1;
  std::vector<uint32_t> group = {};  // the devices by index, as SyncPoint::participants; empty: all
};

// A call of a custom op reads and writes dense memory, and never shares a kernel. Inputs that the op changes
// are versions of one storage, like those of kIndexedWrite (versions.h): if others still read the old tensor,
// a copy is changed instead. Outputs that pass an input through are that input; nothing reads them. Calls
// with side effects are never dead, and keep their order by weak edges.
struct CallAttrs {
  std::shared_ptr<const CallInfo> info;
  uint32_t output = 0;  // index of the output
};

// For a kMatMul [..., m, k] x packed [n, k] -> [..., m, n]: its inputs are the lhs, codes, scales and, if
// there are any, zero points; all but the lhs are one-dimensional constants.
struct PackedAttrs {
  PackedWeights weights;
  bool has_zeros = false;
};

struct LoopInfo;  // compiler/ir/loop.h
struct LoopAttrs {
  std::shared_ptr<const LoopInfo> info;
  uint32_t output = 0;  // for a kLoopResult: its index
};

using Attrs = std::variant<std::monostate, InputAttrs, ConstantAttrs, ViewAttrs, PointwiseAttrs, IotaAttrs,
                           ReduceAttrs, ConvAttrs, PoolAttrs, IndexedAttrs, ConcatAttrs, AttentionAttrs,
                           CollectiveAttrs, CallAttrs, LoopAttrs, PackedAttrs>;

struct Node {
  NodeId id = kNoNode;
  Op op = Op::kInput;
  bool dead = false;
  DType dtype = DType::kF32;
  // Fields that graph walks read are adjacent.
  std::vector<NodeId> inputs;
  // Control edges: these nodes run before this one. Weak edges only order (they never keep a dead node
  // alive); strong edges are effects (their source is alive as long as this node is).
  std::vector<NodeId> weak_after, strong_after;
  Shape shape;
  Attrs attrs;
  std::vector<std::string> sources;  // provenance: `MatMul "layers.3.mlp.down"`, most important first
  std::map<std::string, std::string> annotations;  // fuse, region, stream, after, label, ...
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

// The inputs of a kAttention by role; kNoNode for absent ones.
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
  // A buffer for one run that the caller gives away (fusion makes these from donations).
  bool donated = false;
};
// An input whose memory the caller gives away, and the output that is this input with some elements replaced,
// or -1.
struct Donation {
  int input = 0;
  int output = -1;
};

// The readers of each node at one moment, as adjacent lists.
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

// What may still be spent on evaluation at compile time: work, and bytes of results. When it is used up,
// nodes over constants are left for run time. Unlimited unless the importer sets it.
struct FoldingBudget {
  int64_t work = INT64_MAX / 2;   // multiplications of a matmul; another operation on an element counts as 16
  int64_t bytes = INT64_MAX / 2;  // of results

  // Takes both amounts; false, and takes nothing, if too little is left.
  bool Spend(int64_t work_needed, int64_t bytes_needed);
};

class Graph {
 public:
  std::string name = "main";
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  std::vector<StatePair> states;
  std::vector<Donation> donations;
  // Some node order was requested. Control edges are then kept even of nodes that die because their only
  // reader is replaced.
  bool ordered = false;
  // Some added node is bound by an annotation (BoundAlike).
  bool annotated = false;
  // Also spent when the graph is only read, since looking at a value can take as much work as folding it.
  mutable FoldingBudget folding;
  // Everything ever added: in nodes (a reduction or a loop counts as several, by the work it makes for
  // passes), and in bytes without those of constants.
  int64_t added_nodes = 0, added_bytes = 0;

  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  // Appends; fills in `id`. References to other nodes stay valid (until Compact).
  NodeId Add(Node node);

  bool IsConstant(NodeId id) const { return node(id).op == Op::kConstant; }
  // The node that a view shows (itself if it is not a view), and the view (dense if it is none).
  NodeId BaseOf(NodeId id) const { return node(id).op == Op::kView ? node(id).inputs[0] : id; }
  View ViewOf(NodeId id) const;

  // For every node, the live nodes that read it as data, each once, by id.
  Users AllUsers() const;
  // Whether all live nodes that `n` names come before it.
  bool ComesAfterAll(const Node& n) const;
  // Every live node after its data and control inputs; ties by id. Empty if there is a cycle.
  std::vector<NodeId> TopologicalOrder() const;
  bool Acyclic();
  // In an acyclic graph: a number smaller than that of every node after `id`. Valid until an edge is added.
  int64_t RankOf(NodeId id);
  // True if `to` is `from` or must run after it (data and control edges). Only looks at nodes between the
  // two.
  bool Reaches(NodeId from, NodeId to);
  // Whether Replace(from, to) keeps the control edges acyclic, if `to` existed before and does not read
  // `from`. If not, a pass must leave both nodes. In an ordered graph this includes the edges of nodes that
  // only `from` needs.
  bool CanReplace(NodeId from, NodeId to);
  // Whether Replace(from, to) respects annotations: the nodes that would disappear and the new ones behind
  // `to` are all bound alike. Nodes that become constants may disappear, since they run nothing. CanReplace
  // includes this check.
  bool KeepsAnnotations(NodeId from, NodeId to);
  // Sets input `slot` of `id` to `to`.
  void SetInput(NodeId id, size_t slot, NodeId to);
  // A weak (or strong) control edge: `id` runs after `before`.
  void RunAfter(NodeId id, NodeId before, bool strong = false);
  void SetOutput(size_t output, NodeId node);
  // Makes `id` the node of graph input `number`; TakeBack does not undo this.
  void SetInputNode(size_t number, NodeId id);
  // The live nodes that name `id` as an input or in a control edge, by id; UsersOf: those that read it.
  std::vector<NodeId> Naming(NodeId id);
  std::vector<NodeId> UsersOf(NodeId id);
  bool IsOutput(NodeId id);
  // The outputs that are `id`, ascending.
  std::vector<size_t> OutputsAt(NodeId id);
  // Trial changes: after Try, Keep accepts them, and TakeBack undoes added nodes and the changes made by
  // Replace, SetInput, RunAfter, SetOutput and RemoveUnused, with work proportional to the changes. Other
  // changes of existing nodes are not undone.
  void Try();
  void Keep();
  void TakeBack();
  // Redirects every data use and graph output of `from` to `to`, moves from's control edges to `to` (to the
  // node behind `to` if it is a view; past it if that is an input or constant, which run nothing), and merges
  // provenance. In an ordered graph `to` also takes over the control edges of nodes that only `from` needed.
  // Keeps the rule that a view's input is not a view (views over `from` are recomposed). `from` is marked
  // dead unless it is an input.
  void Replace(NodeId from, NodeId to);
  // The same without provenance, for callers that merge the provenance of many nodes at once.
  void ReplaceUses(NodeId from, NodeId to);
  // Marks every node dead that no output, strong edge, input or node with an effect needs. Returns their
  // number.
  int RemoveDead();
  // The same for some nodes and what only they needed, with work proportional to what is removed.
  int RemoveUnused(std::vector<NodeId> nodes);
  // Drops dead nodes and renumbers in topological order.
  void Compact();

 private:
  void Changed() { pruned_ = compact_ = false; }
  void Index();
  void ForgetNames();
  // Lowers ranks until that of `id` is below `below`; false if that takes too many steps.
  bool LowerRank(NodeId id, int64_t below, int* tries);
  void Touch(NodeId id);  // before it changes
  void TouchOutput(size_t output);
  void Bury(Node* n, bool ordered);
  // `from`, and the nodes that would die with it if `to` replaced it.
  std::vector<NodeId> NeededOnlyBy(NodeId from, NodeId to);
  // The outer ends of control edges between `nodes` and others, except `target`.
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
  // Nothing has changed since RemoveDead (Compact).
  bool pruned_ = false, compact_ = false;
  // The nodes that may name a node, and the outputs that it may be; entries can be stale. For the first
  // `indexed_` nodes and `indexed_outputs_` outputs. By node: the head of its list in `mentions_`.
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
  // During a trial: nodes from `tried_from_` on are new; the saved fields hold the old state of others and of
  // outputs.
  bool trying_ = false;
  NodeId tried_from_ = 0;
  std::unordered_map<NodeId, Node> saved_;
  std::vector<std::pair<size_t, NodeId>> saved_outputs_;
};

// Whether annotations bind both nodes in the same way: the same stream, region and graph and, with `fuse:
// off`, the same ONNX node.
bool BoundAlike(const Node& a, const Node& b);
// Whether annotations let one kernel compute both: as BoundAlike has it, but choices (IsChoice) may differ
// unless both are contractions.
bool MayShareKernel(const Node& a, const Node& b);
// Whether it is a matmul, a convolution or attention.
inline bool IsContraction(Op op) { return op == Op::kMatMul || op == Op::kConv || op == Op::kAttention; }

// Whether it is a kPointwise of kAssertFinite: its input, which the run finds to be finite or ends with an
// error.
bool IsAssertion(const Node& node);
// Whether a node runs even if nothing reads it: assertions, calls with side effects, sends.
bool HasEffect(const Node& node);

// Whether it is a kIndexedWrite that combines all updates into its only element, an f32, by maximum or
// minimum. Kernels can do that as a side result (kCombineMax, kCombineMin of core/tape_ops.h).
bool CombinesIntoOne(const Node& node);

// Whether a kMatMul or kConv of 8-bit integers only sums its lhs, or the windows of its input, because its
// other input is a single number. A driver computes that beside another matmul of the same lhs, at less cost
// than a matmul.
bool AddsUpLeftSide(const Graph& graph, const Node& node);

const char* Name(Op op);
// One line for each live node; deterministic. Printed by --dump-after.
std::string Dump(const Graph& graph);
// Checks the rules of the IR (shapes, dtypes, views over non-views, edges in range, no cycle). Empty if they
// hold, otherwise a sentence. Run after every pass in debug builds and tests.
std::string Validate(const Graph& graph);

// Collected provenance: each source once, in order of appearance. Linear in what is added.
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
