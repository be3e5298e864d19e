// LowerPrecision: computes matmuls, convolutions and attention, and stores values between kernels, in f16 or
// bf16.
//
// Matmuls and attention read operands rounded to the 16-bit type and return f32, like their accumulators.
// Operations that only move values use the 16-bit type. Arithmetic in between, norms, softmax and reductions
// stay in f32: fusion computes them in registers. Values that must be stored (with several readers, inputs of
// a reduction, operands) are rounded once, and all readers widen them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/precision_facts.h"
#include "core/scalar.h"
#include "core/synthetic.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;

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
  auto rounded = std::make_shared<ConstantData>(*ConstantData::Own(type, data.shape, std::move(bytes)));
  rounded->part_of = data.part_of;
  return rounded;
}

class Lowering {
 public:
  // `all`: every node that nothing else is said of; else those of which `precision` says this type.
  Lowering(Graph* graph, DType type, bool all)
      : g_(graph), type_(type), all_(all), facts_(graph, type), users_(graph->AllUsers()) {}

  Status Run() {
    const std::vector<NodeId> order = g_->TopologicalOrder();
    for (const ir::StatePair& state : g_->states) {
      const NodeId input = g_->inputs[static_cast<size_t>(state.input)].node;
      if (g_->node(input).dtype == DType::kF32 && !Stays(input)) Lower(input);
    }
    for (NodeId id : order) {
      if (g_->node(id).dtype == DType::kF32 && !Stays(id)) RONDO_RETURN_IF_ERROR(Visit(id));
      if (g_->node(id).dtype == DType::kF32) facts_.Set(id, facts_.Derive(id));
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
  // Whether the node is none of those to be lowered to this type.
  bool Stays(NodeId id) const {
    const auto said = g_->node(id).annotations.find(kPrecisionKey);
    return said == g_->node(id).annotations.end() ? !all_ : said->second != Name(type_);
  }

  // ----------------------------------------------------------------------------------- rewrites

  // Readers of `from` read `to`, except `to` itself and `except`; and, `own`, those that stay as they are.
  void Redirect(NodeId from, NodeId to, NodeId except, bool outputs, bool own = false) {
    for (NodeId id : g_->Naming(from)) {
      if (id == to || id == except || (own && Stays(id))) continue;
      for (size_t k = 0; k < g_->node(id).inputs.size(); ++k) {
        if (g_->node(id).inputs[k] == from) g_->SetInput(id, k, to);
      }
    }
    for (size_t o = 0; outputs && o < g_->outputs.size(); ++o) {
      if (g_->outputs[o].node == from) g_->SetOutput(o, to);
    }
  }

  // The node gets the 16-bit type; its operands already have it. Readers of f32 get a cast.
  void Lower(NodeId id) {
    g_->node(id).dtype = type_;
    const NodeId wide = BuilderLike(g_, id).Cast(id, DType::kF32);
    Redirect(id, wide, kNoNode, true);
    Remember(id, wide);
  }

  void Remember(NodeId narrow, NodeId wide) {
    ValueFacts facts = facts_.Of(wide);
    facts.hot = true;
    facts_.Set(wide, facts);
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

  // Rounds a value once, for all its readers (graph outputs keep the original). Values that may come from a
  // mask are kept finite: the difference of two infinities is NaN.
  NodeId Store(NodeId id) {
    Builder b = BuilderLike(g_, id);
    ValueFacts facts = facts_.Of(id);
    const NodeId first = g_->size();
    NodeId value = id;
    if (facts.huge) {
      value = b.BinaryScalar(TapeOp::kMax, value, -LargestOf(type_));
      value = b.BinaryScalar(TapeOp::kMin, value, LargestOf(type_));
    }
    const NodeId narrow = b.Cast(value, type_), reader = FirstReader(id, first);
    const NodeId wide = b.Cast(narrow, DType::kF32);
    Redirect(id, wide, reader, false, !all_);
    facts.reduced = false;
    facts.product = kNoNode;
    facts_.Set(wide, facts);
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
      case Op::kConv:
        if (IsFp8Matmul(id)) return Status::Ok();  // sums that are scaled later
        return Product(id);
      case Op::kAttention: return Factors(id, 3);
      case Op::kPool:
      case Op::kCollective: {
        // A sent value keeps its type: the receiver does not know the facts derived here.
        if (ir::HasEffect(g_->node(id))) return Status::Ok();
        const NodeId in = g_->node(id).inputs[0];
        return facts_.IsHot(in) && !facts_.Of(in).large ? Move(id, 1) : Status::Ok();
      }
      case Op::kConcat: return Moves(id, g_->node(id).inputs.size());
      case Op::kIndexedRead: return Moves(id, 1);
      case Op::kIndexedWrite: return all_ ? Write(id) : Status::Ok();  // memory that others have, too
      case Op::kPointwise:
        if (IsScaledFp8Matmul(id)) return ScaledProduct(id);
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
      if (!facts_.Of(g_->node(id).inputs[k]).large) continue;
      ++kept_;
      return Status::Ok();
    }
    Round(id, count);
    facts_.Set(id, facts_.Derive(id));
    if (Readers(id) > 1 || ReadByReduction(id)) Store(id);
    return Status::Ok();
  }

  Status Product(NodeId id) {
    for (NodeId in : g_->node(id).inputs) {
      if (!facts_.MustStay(in) && !facts_.IsLost(g_->BaseOf(in))) continue;
      ++kept_;
      return Status::Ok();
    }
    for (NodeId in : g_->node(id).inputs) {
      const NodeId base = g_->BaseOf(in);
      if (!g_->IsConstant(base) || g_->node(base).dtype != DType::kF32 || facts_.Fits(base, false)) continue;
      const Node& n = g_->node(id);
      const std::string source = n.sources.empty() ? Name(n.op) : n.sources[0];
      return Status::Error(
                 Code::kUnsupported,
                 "weight \"%s\" of %s holds %g, but the largest %s is %g: bf16 holds it, or leave the "
                 "model in f32",
                 g_->node(base).name.c_str(), source.c_str(), facts_.GreatestIn(base), Name(type_),
                 LargestOf(type_))
          .FromNode(source);
    }
    return Factors(id, 2);
  }

  bool IsFp8Matmul(NodeId id) const {
    const Node& n = g_->node(id);
    return (n.op == Op::kMatMul || n.op == Op::kConv) && IsFp8(g_->node(n.inputs[0]).dtype);
  }
  bool IsScaledFp8Matmul(NodeId id) const {
    const Node* scaled = AsPointwise(*g_, id, TapeOp::kMul);
    return scaled != nullptr && std::any_of(scaled->inputs.begin(), scaled->inputs.end(),
                                            [&](NodeId in) { return IsFp8Matmul(g_->BaseOf(in)); });
  }
  // A matmul with the model's scale.
  Status ScaledProduct(NodeId id) {
    ValueFacts facts = facts_.Derive(id);
    facts.hot = true;
    facts_.Set(id, facts);
    if (Readers(id) > 1 || ReadByReduction(id)) Store(id);
    return Status::Ok();
  }

  // Lowers an operation that only moves values if it moves activations, or reads a table large enough to be a
  // weight, and no constant loses precision.
  Status Moves(NodeId id, size_t count) {
    constexpr int64_t kTableBytes = 64 << 10;
    bool hot = false;
    for (size_t k = 0; k < count; ++k) {
      const NodeId in = g_->node(id).inputs[k], base = g_->BaseOf(in);
      if (facts_.MustStay(in) ||
          (g_->IsConstant(base) && NarrowOf(base) == kNoNode && !facts_.Fits(base, false)))
        return Status::Ok();
      const bool table = g_->node(id).op == Op::kIndexedRead && g_->IsConstant(base) &&
                         g_->node(base).As<ir::ConstantAttrs>().data->byte_size() >= kTableBytes;
      hot = hot || table || facts_.IsHot(in);
    }
    return hot ? Move(id, count) : Status::Ok();
  }

  // Writes to tensors that already have the 16-bit type (states) use it.
  Status Write(NodeId id) {
    const NodeId data = g_->node(id).inputs[0];
    if (NarrowOf(g_->BaseOf(data)) != kNoNode) return Move(id, 2);
    if (g_->node(id).As<ir::IndexedAttrs>().combine != ir::ScatterCombine::kNone) return Status::Ok();
    return Moves(id, 2);
  }

  // Whether fusion will have to store the value: an activation with several readers, or the input of a
  // reduction. Values that grow with a power of the activations stay in f32.
  bool IsStored(NodeId id) {
    const Node& n = g_->node(id);
    const ValueFacts facts = facts_.Derive(id);
    if (!facts.hot || facts.reduced || facts.large || NarrowOf(id) != kNoNode) return false;
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    if (op != TapeOp::kAdd && op != TapeOp::kSub && op != TapeOp::kMax && op != TapeOp::kMin &&
        op != TapeOp::kSelect &&
        !(op == TapeOp::kMul && (facts_.IsGate(n.inputs[0]) || facts_.IsGate(n.inputs[1]))))
      return false;
    facts_.Set(id, facts);
    return Readers(id) > 1 || ReadByReduction(id);
  }

  // A kernel computes one matmul (or several of one lhs) with its epilogue. If a node joins several matmuls,
  // the results of all but the last are stored.
  void StoreOtherProducts(NodeId id) {
    NodeId last = kNoNode;
    const std::vector<NodeId> inputs = g_->node(id).inputs;
    auto product_of = [&](NodeId in) {
      return g_->node(in).dtype == DType::kF32 ? facts_.Of(in).product : kNoNode;
    };
    for (NodeId in : inputs) {
      const NodeId product = product_of(in);
      if (product != kNoNode && (last == kNoNode || product > last)) last = product;
    }
    for (NodeId in : inputs) {
      const NodeId product = product_of(in);
      if (product != kNoNode && g_->node(product).inputs[0] != g_->node(last).inputs[0] &&
          !facts_.Of(in).large)
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
  const bool all_;
  PrecisionFacts facts_;
  ir::Users users_;             // of the original graph
  std::vector<NodeId> narrow_;  // for f32 nodes: the 16-bit version, or kNoNode
  int64_t lowered_ = 0, stored_ = 0, kept_ = 0;
};

bool SaysPrecision(const Graph& graph, DType type) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto said = graph.node(id).annotations.find(kPrecisionKey);
    if (said != graph.node(id).annotations.end() && said->second == Name(type)) return true;
  }
  return false;
}

}  // namespace

Result<PassResult> LowerPrecision(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const bool all = options.precision == type;
    if (!all && !SaysPrecision(*graph, type)) continue;
    Lowering lowering(graph, type, all);
    RONDO_RETURN_IF_ERROR(lowering.Run());
    Tidy(graph);
    RONDO_RETURN_IF_ERROR(CleanUp(graph, options).status());
    result.changes += lowering.lowered();
    result.text += (result.text.empty() ? "" : "; ") + Count(lowering.lowered(), "node") + " in " +
                   Name(type) + ", " + Count(lowering.stored(), "value") + " rounded to it";
    if (lowering.kept() > 0) result.text += ", " + Count(lowering.kept(), "product") + " of positions in f32";
  }
  if (result.text.empty()) result.text = "as the model has it";
  return result;
}

}  // namespace rondo::passes
