#include "compiler/ir/number_range.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "core/scalar.h"

namespace rondo::ir {
namespace {

constexpr int kMostSteps = 64;              // the limit on nodes from a node to the one that bounds it
constexpr int64_t kMostElements = 1 << 20;  // the limit on elements of a constant that is searched

class Ranges {
 public:
  explicit Ranges(const Graph& graph) : graph_(graph) {}

  NumberRange Of(NodeId id, int steps) {
    if (const auto found = known_.find(id); found != known_.end()) return found->second;
    NumberRange range = OfType(graph_.node(id).dtype);
    if (steps < kMostSteps) {
      // Integers beyond their type wrap around: they may be any of its numbers.
      const NumberRange made = Made(graph_.node(id), steps + 1);
      if (made.least >= range.least && made.most <= range.most) range = made;
    }
    return known_[id] = range;
  }

 private:
  static NumberRange OfType(DType dtype) {
    switch (dtype) {
      case DType::kBool: return {0, 1};
      case DType::kU8: return {0, 255};
      case DType::kI8: return {-128, 127};
      case DType::kU16: return {0, 65535};
      case DType::kI16: return {-32768, 32767};
      case DType::kU32: return {0, 4294967295.0};
      case DType::kI32: return {-2147483648.0, 2147483647.0};
      default: return {};
    }
  }

  NumberRange Made(const Node& n, int steps) {
    switch (n.op) {
      case Op::kConstant: return OfConstant(*n.As<ConstantAttrs>().data);
      case Op::kIota: return {0, static_cast<double>(n.shape.elements() - 1)};
      case Op::kView: return Of(n.inputs[0], steps);
      case Op::kIndexedRead: return OfRead(n, steps);
      case Op::kConcat: return Hull(n.inputs, 0, steps);
      case Op::kPointwise: return OfScalars(n, steps);
      case Op::kReduce: return OfReduction(n, steps);
      default: return {};
    }
  }

  // Indices out of range may read 0.
  NumberRange OfRead(const Node& n, int steps) {
    const NumberRange data = Of(n.inputs[0], steps);
    const std::vector<IndexedDim>& dims = n.As<IndexedAttrs>().dims;
    if (std::all_of(dims.begin(), dims.end(), [](const IndexedDim& dim) { return dim.fault; })) return data;
    return {std::min(0.0, data.least), std::max(0.0, data.most)};
  }

  static NumberRange OfConstant(const ConstantData& data) {
    if (data.synthetic || data.shape.elements() > kMostElements || data.shape.elements() == 0) return {};
    NumberRange range = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (int64_t i = 0; i < data.shape.elements(); ++i) {
      const auto number = scalar::Load<double>(data.dtype, data.bytes.data(), i);
      if (std::isnan(number)) return {};
      range = {std::min(range.least, number), std::max(range.most, number)};
    }
    return range;
  }

  NumberRange Hull(const std::vector<NodeId>& ids, size_t first, int steps) {
    NumberRange all = Of(ids[first], steps);
    for (size_t i = first + 1; i < ids.size(); ++i) {
      const NumberRange one = Of(ids[i], steps);
      all = {std::min(all.least, one.least), std::max(all.most, one.most)};
    }
    return all;
  }

  NumberRange OfScalars(const Node& n, int steps) {
    const TapeOp op = n.As<PointwiseAttrs>().op;
    if (op == TapeOp::kSelect) return Hull(n.inputs, 1, steps);
    const NumberRange a = Of(n.inputs[0], steps);
    const NumberRange b = n.inputs.size() > 1 ? Of(n.inputs[1], steps) : NumberRange();
    switch (op) {
      case TapeOp::kCast: return IsFloat(n.dtype) ? a : OfWhole(a);
      case TapeOp::kFloor: return {std::floor(a.least), std::floor(a.most)};
      case TapeOp::kCeil: return {std::ceil(a.least), std::ceil(a.most)};
      case TapeOp::kRound:
      case TapeOp::kTrunc: return {std::floor(a.least), std::ceil(a.most)};
      case TapeOp::kNeg: return {-a.most, -a.least};
      case TapeOp::kAbs: return {0, std::max(std::abs(a.least), std::abs(a.most))};
      case TapeOp::kSigmoid: return {0, 1};
      case TapeOp::kTanh: return {-1, 1};
      case TapeOp::kExp: return {0, NumberRange().most};
      case TapeOp::kAdd: return {a.least + b.least, a.most + b.most};
      case TapeOp::kSub: return {a.least - b.most, a.most - b.least};
      case TapeOp::kMin: return {std::min(a.least, b.least), std::min(a.most, b.most)};
      case TapeOp::kMax: return {std::max(a.least, b.least), std::max(a.most, b.most)};
      case TapeOp::kMul: return a.least >= 0 && b.least >= 0 ? Products(a, b) : NumberRange();
      case TapeOp::kMod: return b.least > 0 ? NumberRange{0, b.most} : NumberRange();
      case TapeOp::kLess:
      case TapeOp::kLessEqual:
      case TapeOp::kEqual: return {0, 1};
      default: return {};
    }
  }

  // The range of numbers cast to integers; NaN becomes 0.
  static NumberRange OfWhole(const NumberRange& a) {
    return {std::min(0.0, std::floor(a.least)), std::max(0.0, std::ceil(a.most))};
  }

  // The range of a product of numbers >= 0; 0 times an infinite bound is 0.
  static NumberRange Products(const NumberRange& a, const NumberRange& b) {
    const auto times = [](double x, double y) { return x == 0 || y == 0 ? 0 : x * y; };
    return {times(a.least, b.least), times(a.most, b.most)};
  }

  NumberRange OfReduction(const Node& n, int steps) {
    const Node& of = graph_.node(n.inputs[0]);
    const ReduceAttrs& attrs = n.As<ReduceAttrs>();
    const NumberRange each = Of(n.inputs[0], steps);
    double count = 1;
    for (const int axis : attrs.axes) count *= static_cast<double>(of.shape[axis]);
    switch (attrs.kind) {
      case ReduceKind::kMax:
      case ReduceKind::kMin: return each;
      case ReduceKind::kArgMax:
      case ReduceKind::kArgMin: return {0, count - 1};
      case ReduceKind::kSum:
        return {each.least == 0 ? 0 : std::min(each.least, each.least * count),
                each.most == 0 ? 0 : std::max(each.most, each.most * count)};
      case ReduceKind::kProd: return {};
    }
    return {};
  }

  const Graph& graph_;
  std::unordered_map<NodeId, NumberRange> known_;
};

}  // namespace

NumberRange RangeOf(const Graph& graph, NodeId id) { return Ranges(graph).Of(id, 0); }

}  // namespace rondo::ir
