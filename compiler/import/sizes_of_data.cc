#include "compiler/import/sizes_of_data.h"

#include <algorithm>
#include <cmath>

#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/importer.h"
#include "compiler/ir/number_range.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

using ir::Node;
using ir::Op;

constexpr int64_t kMostSize = int64_t{1} << 28;

struct Element {
  NodeId node = kNoNode;
  int64_t at = 0;
};

bool IsWhole(DType dtype) { return dtype == DType::kI64 || dtype == DType::kI32; }

// The element from which nodes that only move elements or cast integers make `element`.
Element OriginOf(const ir::Graph& graph, Element element) {
  for (;;) {
    const Node& n = graph.node(element.node);
    std::vector<int64_t> index(static_cast<size_t>(n.shape.rank));
    int64_t rest = element.at;
    for (int d = n.shape.rank; d-- > 0; rest /= n.shape[d]) index[static_cast<size_t>(d)] = rest % n.shape[d];
    if (n.op == Op::kView) {
      element = {n.inputs[0], ir::Resolve(n.As<ir::ViewAttrs>().view, index)};
    } else if (n.op == Op::kConcat) {
      const int axis = n.As<ir::ConcatAttrs>().axis;
      int64_t& place = index[static_cast<size_t>(axis)];
      size_t part = 0;
      while (place >= graph.node(n.inputs[part]).shape[axis])
        place -= graph.node(n.inputs[part++]).shape[axis];
      const Shape& shape = graph.node(n.inputs[part]).shape;
      element = {n.inputs[part], 0};
      for (int d = 0; d < shape.rank; ++d) element.at = element.at * shape[d] + index[static_cast<size_t>(d)];
    } else if (n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().op == TapeOp::kCast && IsWhole(n.dtype) &&
               IsWhole(graph.node(n.inputs[0]).dtype)) {
      element.node = n.inputs[0];
    } else {
      return element;
    }
  }
}

// The bool tensor whose true elements `id` counts; kNoNode if it is no such number.
NodeId CountedBy(const ir::Graph& graph, NodeId id) {
  const auto whole = [&](NodeId x) {  // without views that only reshape
    const NodeId base = graph.BaseOf(x);
    const int64_t elements = graph.node(base).shape.elements();
    return graph.node(x).shape.elements() == elements && IsDense(graph.ViewOf(x), elements) ? base : x;
  };
  const Node& sum = graph.node(id);
  if (sum.op != Op::kReduce || sum.As<ir::ReduceAttrs>().kind != ir::ReduceKind::kSum ||
      sum.shape.elements() != 1)
    return kNoNode;
  const Node& one = graph.node(whole(sum.inputs[0]));
  if (one.op != Op::kPointwise || one.As<ir::PointwiseAttrs>().op != TapeOp::kCast || !IsWhole(one.dtype) ||
      graph.node(one.inputs[0]).dtype != DType::kBool)
    return kNoNode;
  return whole(one.inputs[0]);
}

// The name in `Op "name"`.
std::string NameIn(const std::string& source) {
  const size_t quote = source.find('"');
  return quote == std::string::npos ? source : source.substr(quote + 1, source.size() - quote - 2);
}

}  // namespace

NodeId ElementOf(ir::Builder& b, NodeId x, int64_t at) {
  const int64_t count = b.shape(x).elements();
  const NodeId one = b.Slice(b.Reshape(x, {count}), 0, at, 1, 1);
  return b.Cast(b.Reshape(one, Shape{}), DType::kI64);
}

Result<ir::Dims> SizesOfData::Numbers(OpContext& c, int i) {
  asked_ = true;
  ir::Dims numbers = c.b.Numbers(c.In(i)).value_or(
      ir::Dims(static_cast<size_t>(c.shape(i).elements()), ir::Size::Unknown(0)));
  for (size_t at = 0; at < numbers.size(); ++at) {
    if (!numbers[at].unknown()) continue;
    const NodeId number = ElementOf(c.b, c.In(i), static_cast<int64_t>(at));
    RONDO_ASSIGN_OR_RETURN(numbers[at], Number(c, i, number));
  }
  return numbers;
}

Result<ir::Size> SizesOfData::Number(OpContext& c, int i, NodeId number) {
  asked_ = true;
  const NodeId counted = CountedBy(c.b.graph(), OriginOf(c.b.graph(), {number, 0}).node);
  if (const auto found = true_in_.find(counted); found != true_in_.end()) return found->second;
  const ir::NumberRange range = ir::RangeOf(c.b.graph(), number);
  const int64_t bound = c.host.BoundOf(c.proto);
  double most = bound > 0 ? std::min(range.most, static_cast<double>(bound)) : range.most;
  if (!(most <= static_cast<double>(kMostSize))) {
    const auto known = c.Known(c.In(i));  // reports the inputs that decide the size
    const std::vector<std::string> inputs = InputsBehind(c.b.graph(), c.In(i));
    if (inputs.empty() && !known.ok()) return known.status();
    const std::string decider = inputs.empty() ? "" : inputs[0];
    return Status::Error(
        Code::kUnsupported,
        "data decide a length (input %d, made of the model's input \"%.200s\"%s): say how large it is at "
        "most "
        "(--bound %.200s=N), or give a value to what decides it (--bind %.200s=VALUE, or =FILE.npy)",
        i, decider.c_str(), inputs.size() > 1 ? " and others" : "", NodeName(c.proto).c_str(),
        decider.c_str());
  }
  most = std::max(most, 0.0);
  const double least = std::clamp(std::ceil(range.least), 0.0, most);
  return Name(c.b, number, static_cast<int64_t>(least), static_cast<int64_t>(most), NodeName(c.proto));
}

ir::Size SizesOfData::Name(ir::Builder& b, NodeId number, int64_t least, int64_t most,
                           const std::string& node, int64_t room) {
  asked_ = true;
  const Element origin = OriginOf(b.graph(), {number, 0});
  const auto known = of_.find({origin.node, origin.at});
  if (known != of_.end() && known->second.most() <= most && known->second.extent() >= room)
    return known->second;
  std::string name = node;
  for (int i = 2; !taken_.insert(name).second; ++i) name = node + " " + std::to_string(i);
  const ir::Size size = ir::Size::Name(name, least, most, std::max(room, most + more_));
  const auto outside = [&](NodeId low, NodeId high) {
    return data_sizes::Count(b, b.Binary(TapeOp::kLess, low, high));
  };
  const NodeId bad = b.Add(outside(number, b.Scalar(DType::kI64, static_cast<double>(least))),
                           outside(b.Scalar(DType::kI64, static_cast<double>(most)), number));
  const NodeId checked = data_sizes::Checked(b, number, bad);
  b.sizes()->SetNode(size, number);
  b.sizes()->SetNode(size, checked);
  of_.insert_or_assign({origin.node, origin.at}, size);
  names_.push_back(size);
  nodes_.push_back(checked);
  return size;
}

Value SizesOfData::RealPlaces(ir::Builder& b, const Value& value) {
  const DataSizeFact& fact = *value.data_size;
  const NodeId number = data_sizes::NumberOf(b, *fact.dim);
  const int64_t most = fact.dim->most != 0 ? fact.dim->most : fact.dim->length;
  const int64_t room = fact.dim->length + more_;
  const ir::Size size = Name(b, number, 0, most, NameIn(fact.dim->source), room);
  if (fact.dim->of != kNoNode) true_in_.insert_or_assign(b.graph().BaseOf(fact.dim->of), size);
  const NodeId first = data_sizes::RealFirst(b, value.node, *fact.dim, fact.axis, number, size.extent());
  ir::Dims dims = b.SizesOf(first);
  dims[static_cast<size_t>(fact.axis)] = size;
  return Value{b.WithSizes(first, dims), false, {}};
}

}  // namespace rondo::importer
