// LowerPrecision: products, convolutions, attention and what lies in memory between kernels in f16 or bf16.
//
// Products and attention read operands rounded to the 16-bit type and give f32, as their accumulators are;
// what only moves values moves them in the 16-bit type. Arithmetic between, norms, softmax and reductions
// stay in f32: fusion computes them in registers. What it has to store (a value that several read, what a
// reduction reads, an operand) is rounded once, and read widened by all.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "core/scalar.h"
#include "core/synthetic.h"

namespace rondo::passes {

namespace {

using ir::Builder;
using ir::ConstantData;
using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

// What is known of an f32 value from how it is computed.
struct Facts {
  bool hot = false;          // an activation: comes from a product, a state, a lookup in a large table, ...
  bool positional = false;   // comes from integers: positions, masks. Exact only in f32
  bool reduced = false;      // comes from a reduction
  NodeId product = kNoNode;  // it comes from this one by arithmetic alone
  bool huge = false;         // a sum or product with a constant that the 16-bit type does not hold: a mask
  bool large = false;        // the same with a positive, finite one: no mask, and right in f32 alone
};

double LargestOf(DType type) {
  return type == DType::kF16 ? F16ToFloat(0x7bff) : static_cast<double>(BF16ToFloat(0x7f7f));
}

// The value of greatest magnitude of an f32 constant; 0 if none is known.
double GreatestOf(const ConstantData& data) {
  if (data.synthetic) return std::abs(data.synthetic_scale);
  double greatest = 0;
  for (int64_t i = 0; i < data.shape.elements(); ++i) {
    const float value = scalar::Load<float>(DType::kF32, data.bytes.data(), i);
    if (std::abs(value) > std::abs(greatest)) greatest = value;
  }
  return greatest;
}

std::shared_ptr<const ConstantData> Rounded(const ConstantData& data, DType type) {
  if (data.synthetic) {
    auto copy = std::make_shared<ConstantData>(data);
    copy->dtype = type;
    return copy;
  }
  const int64_t count = data.shape.elements();
  std::vector<uint8_t> bytes(static_cast<size_t>(count * ByteSize(type)));
  for (int64_t i = 0; i < count; ++i) {
    scalar::Store(type, bytes.data(), i, scalar::Load<float>(DType::kF32, data.bytes.data(), i));
  }
  return ConstantData::Own(type, data.shape, std::move(bytes));
}

class Lowering {
 public:
  Lowering(Graph* graph, DType type) : g_(graph), type_(type), users_(graph->AllUsers()) {}

  Status Run() {
    const std::vector<NodeId> order = g_->TopologicalOrder();
    for (const ir::StatePair& state : g_->states) {
      const NodeId input = g_->inputs[static_cast<size_t>(state.input)].node;
      if (g_->node(input).dtype == DType::kF32) Lower(input);
    }
    for (NodeId id : order) {
      if (g_->node(id).dtype == DType::kF32) RONDO_RETURN_IF_ERROR(Visit(id));
      if (g_->node(id).dtype == DType::kF32) SetFacts(id, FactsOf(id));
    }
    for (const ir::StatePair& state : g_->states) {
      NodeId& output = g_->outputs[static_cast<size_t>(state.output)].node;
      const NodeId input = g_->inputs[static_cast<size_t>(state.input)].node;
      if (g_->node(input).dtype == type_ && g_->node(output).dtype == DType::kF32) output = Narrow(output);
    }
    return Status::Ok();
  }

  int64_t lowered() const { return lowered_; }
  int64_t stored() const { return stored_; }
  int64_t kept() const { return kept_; }

 private:
  // ------------------------------------------------------------------------------------- facts

  Facts KnownOf(NodeId id) {
    id = g_->BaseOf(id);
    const Node& n = g_->node(id);
    Facts facts;
    if (n.op == Op::kConstant && n.dtype == DType::kF32) {
      facts.huge = !Fits(id, true);
      facts.large = facts.huge && std::isfinite(GreatestIn(id)) && GreatestIn(id) > 0;
      return facts;
    }
    return static_cast<size_t>(id) < facts_.size() ? facts_[static_cast<size_t>(id)] : facts;
  }

  void SetFacts(NodeId id, const Facts& facts) {
    if (static_cast<size_t>(id) >= facts_.size()) facts_.resize(static_cast<size_t>(id) + 1);
    facts_[static_cast<size_t>(id)] = facts;
  }

  Facts FactsOf(NodeId id) {
    const Node& n = g_->node(id);
    Facts facts;
    if (n.op == Op::kInput || n.op == Op::kConstant) return facts;
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const NodeId in = n.inputs[k];
      const Node& input = g_->node(in);
      const bool cast = n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().op == TapeOp::kCast;
      // Single bytes are quantised values, and bools.
      if (cast && !IsFloat(input.dtype) && ByteSize(input.dtype) > 1) facts.positional = true;
      if (input.dtype != DType::kF32) continue;
      const Facts from = KnownOf(in);
      facts.hot |= from.hot;
      facts.positional |= from.positional;
      facts.reduced |= from.reduced;
      facts.huge |= from.huge && KeepsMagnitude(n);
      facts.large |= from.large && KeepsMagnitude(n) && !(g_->IsConstant(g_->BaseOf(in)) && OnlyBounds(n, k));
      if (n.op == Op::kPointwise && from.product != kNoNode) facts.product = from.product;
    }
    const bool product = n.op == Op::kMatMul || n.op == Op::kConv || n.op == Op::kAttention;
    if (product) facts.product = id;
    facts.hot |= product || n.op == Op::kCall || n.op == Op::kCallResult || n.op == Op::kLoopResult;
    facts.reduced |= n.op == Op::kReduce;
    return facts;
  }

  // Whether a huge input makes a huge result.
  static bool KeepsMagnitude(const Node& n) {
    if (n.op != Op::kPointwise) return true;
    switch (n.As<ir::PointwiseAttrs>().op) {
      case TapeOp::kAdd:
      case TapeOp::kSub:
      case TapeOp::kMul:
      case TapeOp::kDiv:
      case TapeOp::kNeg:
      case TapeOp::kAbs:
      case TapeOp::kMin:
      case TapeOp::kMax:
      case TapeOp::kSelect:
      case TapeOp::kCast:
      case TapeOp::kFma: return true;
      default: return false;
    }
  }

  // Whether the 16-bit type has all values of a constant; infinities too, unless `finite`.
  bool Fits(NodeId constant, bool finite) {
    if (static_cast<size_t>(constant) >= greatest_.size())
      greatest_.resize(static_cast<size_t>(constant) + 1, std::numeric_limits<double>::quiet_NaN());
    double& greatest = greatest_[static_cast<size_t>(constant)];
    if (std::isnan(greatest)) greatest = GreatestOf(*g_->node(constant).As<ir::ConstantAttrs>().data);
    return std::abs(greatest) <= LargestOf(type_) || (!finite && std::isinf(greatest));
  }

  // The value of greatest magnitude of a constant.
  double GreatestIn(NodeId constant) {
    Fits(constant, true);
    return greatest_[static_cast<size_t>(constant)];
  }

  // Whether a constant as input `k` of the node, however large, does not make the result larger.
  bool OnlyBounds(const Node& n, size_t k) const {
    if (n.op != Op::kPointwise) return false;
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    return op == TapeOp::kMin || (op == TapeOp::kDiv && k == 1);
  }

  // Whether all values of a constant are so small that f16 has fewer digits of them than bf16, or none.
  bool IsLost(NodeId id) {
    constexpr double kLeast = 0x1p-16;
    if (type_ != DType::kF16 || !g_->IsConstant(id) || g_->node(id).dtype != DType::kF32) return false;
    if (!Fits(id, false)) return false;
    const double greatest = std::abs(greatest_[static_cast<size_t>(id)]);
    return greatest != 0 && greatest < kLeast;
  }

  bool IsHot(NodeId id) { return KnownOf(id).hot; }
  // From positions alone, or beyond what the 16-bit type holds.
  bool MustStay(NodeId id) {
    const Facts facts = KnownOf(id);
    return (facts.positional && !facts.hot) || (facts.large && !g_->IsConstant(g_->BaseOf(id)));
  }

  // ----------------------------------------------------------------------------------- rewrites

  // Readers of `from` read `to`, except `to` itself and `except`.
  void Redirect(NodeId from, NodeId to, NodeId except, bool outputs) {
    for (NodeId id : g_->Naming(from)) {
      if (id == to || id == except) continue;
      for (size_t k = 0; k < g_->node(id).inputs.size(); ++k) {
        if (g_->node(id).inputs[k] == from) g_->SetInput(id, k, to);
      }
    }
    for (size_t o = 0; outputs && o < g_->outputs.size(); ++o) {
      if (g_->outputs[o].node == from) g_->SetOutput(o, to);
    }
  }

  // The node is of the 16-bit type; its operands are in it already. Who read f32 reads that.
  void Lower(NodeId id) {
    g_->node(id).dtype = type_;
    const NodeId wide = BuilderLike(g_, id).Cast(id, DType::kF32);
    Redirect(id, wide, kNoNode, true);
    Remember(id, wide);
  }

  void Remember(NodeId narrow, NodeId wide) {
    Facts facts = KnownOf(wide);
    facts.hot = true;
    SetFacts(wide, facts);
    if (static_cast<size_t>(wide) >= narrow_.size()) narrow_.resize(static_cast<size_t>(wide) + 1, kNoNode);
    narrow_[static_cast<size_t>(wide)] = narrow;
  }

  NodeId NarrowOf(NodeId base) const {
    return static_cast<size_t>(base) < narrow_.size() ? narrow_[static_cast<size_t>(base)] : kNoNode;
  }

  // The value of an f32 node, in the 16-bit type.
  NodeId Narrow(NodeId id) {
    if (g_->node(id).dtype != DType::kF32) return id;
    const NodeId base = g_->BaseOf(id);
    const ir::View view = g_->ViewOf(id);
    Builder b = BuilderLike(g_, base);
    NodeId narrow = NarrowOf(base);
    if (narrow == kNoNode) {
      narrow = g_->IsConstant(base) ? RoundedConstant(base) : Store(base);
    }
    return g_->node(id).op == Op::kView ? b.ViewNode(narrow, view) : narrow;
  }

  NodeId RoundedConstant(NodeId constant) {
    Builder b = BuilderLike(g_, constant);
    const NodeId narrow = b.Constant(Rounded(*g_->node(constant).As<ir::ConstantAttrs>().data, type_));
    g_->node(narrow).name = g_->node(constant).name;
    if (static_cast<size_t>(constant) >= narrow_.size())
      narrow_.resize(static_cast<size_t>(constant) + 1, kNoNode);
    narrow_[static_cast<size_t>(constant)] = narrow;
    return narrow;
  }

  // Rounds a value once, for all its readers (graph outputs keep what it was). Values that may be a mask's
  // are kept finite: the difference of two infinities is no number.
  NodeId Store(NodeId id) {
    Builder b = BuilderLike(g_, id);
    Facts facts = KnownOf(id);
    const NodeId first = g_->size();
    NodeId value = id;
    if (facts.huge) {
      value = b.BinaryScalar(TapeOp::kMax, value, -LargestOf(type_));
      value = b.BinaryScalar(TapeOp::kMin, value, LargestOf(type_));
    }
    const NodeId narrow = b.Cast(value, type_), reader = FirstReader(id, first);
    const NodeId wide = b.Cast(narrow, DType::kF32);
    Redirect(id, wide, reader, false);
    facts.reduced = false;
    facts.product = kNoNode;
    SetFacts(wide, facts);
    Remember(narrow, wide);
    Remember(narrow, id);
    ++stored_;
    return narrow;
  }

  // The first node from `first` on that reads `id`.
  NodeId FirstReader(NodeId id, NodeId first) const {
    for (NodeId n = first; n < g_->size(); ++n) {
      const std::vector<NodeId>& inputs = g_->node(n).inputs;
      if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) return n;
    }
    return kNoNode;
  }

  // --------------------------------------------------------------------------------------- nodes

  Status Visit(NodeId id) {
    switch (g_->node(id).op) {
      case Op::kMatMul:
      case Op::kConv: return Product(id);
      case Op::kAttention: return Factors(id, 3);
      case Op::kPool:
      case Op::kCollective: {
        const NodeId in = g_->node(id).inputs[0];
        return IsHot(in) && !KnownOf(in).large ? Move(id, 1) : Status::Ok();
      }
      case Op::kConcat: return Moves(id, g_->node(id).inputs.size());
      case Op::kIndexedRead: return Moves(id, 1);
      case Op::kIndexedWrite: return Write(id);
      case Op::kPointwise:
        StoreOtherProducts(id);
        if (IsStored(id)) Narrow(id);
        return Status::Ok();
      default: return Status::Ok();
    }
  }

  // Rounds the first `count` operands.
  void Round(NodeId id, size_t count) {
    for (size_t k = 0; k < count; ++k) {
      const NodeId narrow = Narrow(g_->node(id).inputs[k]);
      g_->SetInput(id, k, narrow);
    }
    ++lowered_;
  }

  Status Move(NodeId id, size_t count) {
    Round(id, count);
    Lower(id);
    return Status::Ok();
  }

  Status Factors(NodeId id, size_t count) {
    for (size_t k = 0; k < count; ++k) {
      if (!KnownOf(g_->node(id).inputs[k]).large) continue;
      ++kept_;
      return Status::Ok();
    }
    Round(id, count);
    SetFacts(id, FactsOf(id));
    if (Readers(id) > 1 || ReadByReduction(id)) Store(id);
    return Status::Ok();
  }

  Status Product(NodeId id) {
    for (NodeId in : g_->node(id).inputs) {
      if (!MustStay(in) && !IsLost(g_->BaseOf(in))) continue;
      ++kept_;
      return Status::Ok();
    }
    for (NodeId in : g_->node(id).inputs) {
      const NodeId base = g_->BaseOf(in);
      if (!g_->IsConstant(base) || g_->node(base).dtype != DType::kF32 || Fits(base, false)) continue;
      const Node& n = g_->node(id);
      const std::string source = n.sources.empty() ? Name(n.op) : n.sources[0];
      return Status::Error(
                 Code::kUnsupported,
                 "weight \"%s\" of %s holds %g, but the largest %s is %g: bf16 holds it, or leave the "
                 "model in f32",
                 g_->node(base).name.c_str(), source.c_str(), greatest_[static_cast<size_t>(base)],
                 Name(type_), LargestOf(type_))
          .FromNode(source);
    }
    return Factors(id, 2);
  }

  // What only moves values is lowered where activations move, or a table large enough to be a weight is read,
  // and no constant is lost by it.
  Status Moves(NodeId id, size_t count) {
    constexpr int64_t kTableBytes = 64 << 10;
    bool hot = false;
    for (size_t k = 0; k < count; ++k) {
      const NodeId in = g_->node(id).inputs[k], base = g_->BaseOf(in);
      if (MustStay(in) || (g_->IsConstant(base) && NarrowOf(base) == kNoNode && !Fits(base, false)))
        return Status::Ok();
      const bool table = g_->node(id).op == Op::kIndexedRead && g_->IsConstant(base) &&
                         g_->node(base).As<ir::ConstantAttrs>().data->byte_size() >= kTableBytes;
      hot = hot || table || IsHot(in);
    }
    return hot ? Move(id, count) : Status::Ok();
  }

  // Writes to what is in the 16-bit type already (a state) stay with it.
  Status Write(NodeId id) {
    const NodeId data = g_->node(id).inputs[0];
    if (NarrowOf(g_->BaseOf(data)) != kNoNode) return Move(id, 2);
    if (g_->node(id).As<ir::IndexedAttrs>().combine != ir::ScatterCombine::kNone) return Status::Ok();
    return Moves(id, 2);
  }

  // Whether fusion will have to keep a value: an activation that several read, or a reduction. Values that
  // grow with a power of the activations are left in f32.
  bool IsStored(NodeId id) {
    const Node& n = g_->node(id);
    const Facts facts = FactsOf(id);
    if (!facts.hot || facts.reduced || facts.large || NarrowOf(id) != kNoNode) return false;
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    if (op != TapeOp::kAdd && op != TapeOp::kSub && op != TapeOp::kMax && op != TapeOp::kMin &&
        op != TapeOp::kSelect && !(op == TapeOp::kMul && (IsGate(n.inputs[0]) || IsGate(n.inputs[1]))))
      return false;
    SetFacts(id, facts);
    return Readers(id) > 1 || ReadByReduction(id);
  }

  // Whether a value stays within bounds whatever the activations are: what it multiplies does not grow.
  bool IsGate(NodeId id) {
    const Node& n = g_->node(g_->BaseOf(id));
    if (n.op != Op::kPointwise) return false;
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    if (op == TapeOp::kSigmoid || op == TapeOp::kTanh || op == TapeOp::kErf) return true;
    const auto bounded = [&](NodeId value, TapeOp by) -> const Node* {
      const Node& m = g_->node(g_->BaseOf(value));
      if (m.op != Op::kPointwise || m.As<ir::PointwiseAttrs>().op != by) return nullptr;
      const NodeId bound = g_->BaseOf(m.inputs[1]);
      return g_->IsConstant(bound) && std::abs(GreatestIn(bound)) <= 1 ? &m : nullptr;
    };
    for (const TapeOp outer : {TapeOp::kMin, TapeOp::kMax}) {
      const Node* clipped = bounded(id, outer);
      if (clipped != nullptr &&
          bounded(clipped->inputs[0], outer == TapeOp::kMin ? TapeOp::kMax : TapeOp::kMin))
        return true;
    }
    return false;
  }

  // A kernel computes one product (or several of one left side), and what follows the last it takes along:
  // of other products that a node joins, the result is stored.
  void StoreOtherProducts(NodeId id) {
    NodeId last = kNoNode;
    const std::vector<NodeId> inputs = g_->node(id).inputs;
    auto product_of = [&](NodeId in) {
      return g_->node(in).dtype == DType::kF32 ? KnownOf(in).product : kNoNode;
    };
    for (NodeId in : inputs) {
      const NodeId product = product_of(in);
      if (product != kNoNode && (last == kNoNode || product > last)) last = product;
    }
    for (NodeId in : inputs) {
      const NodeId product = product_of(in);
      if (product != kNoNode && g_->node(product).inputs[0] != g_->node(last).inputs[0] && !KnownOf(in).large)
        Narrow(in);
    }
  }

  int64_t Readers(NodeId id) const {
    if (static_cast<size_t>(id) >= users_.size()) return 0;
    int64_t readers = 0;
    for (NodeId user : users_[static_cast<size_t>(id)])
      readers += g_->node(user).op == Op::kView ? Readers(user) : 1;
    return readers;
  }

  bool ReadByReduction(NodeId id) const {
    if (static_cast<size_t>(id) >= users_.size()) return false;
    const std::span<const NodeId> users = users_[static_cast<size_t>(id)];
    return std::any_of(users.begin(), users.end(), [&](NodeId user) {
      const Node& n = g_->node(user);
      return n.op == Op::kReduce || (n.op == Op::kView && ReadByReduction(user));
    });
  }

  Graph* g_;
  DType type_;
  ir::Users users_;               // as the graph was
  std::vector<Facts> facts_;      // by node
  std::vector<NodeId> narrow_;    // of f32 nodes: the same in the 16-bit type, or kNoNode
  std::vector<double> greatest_;  // of constants; NaN: not known yet
  int64_t lowered_ = 0, stored_ = 0, kept_ = 0;
};

}  // namespace

Result<PassResult> LowerPrecision(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  if (options.precision == DType::kF32) {
    result.text = "as the model has it";
    return result;
  }
  Lowering lowering(graph, options.precision);
  RONDO_RETURN_IF_ERROR(lowering.Run());
  Tidy(graph);
  RONDO_RETURN_IF_ERROR(CleanUp(graph, options).status());
  result.changes = lowering.lowered();
  result.text = Count(lowering.lowered(), "node") + " in " + Name(options.precision) + ", " +
                Count(lowering.stored(), "value") + " rounded to it";
  if (lowering.kept() > 0) result.text += ", " + Count(lowering.kept(), "product") + " of positions in f32";
  return result;
}

}  // namespace rondo::passes
