#include "compiler/shard/costs.h"

#include "compiler/ir/packed.h"

namespace rondo::shard {
namespace {

constexpr double kOfSending = 0.25, kOfMultiplying = 1.0 / 256, kOfWriting = 1.0 / 64;
constexpr double kLeastMessage = 1024, kShareOfWeights = 1.0 / 2000;
constexpr double kMoreOfCollectives = 1536;  // on top of the cost of a send
constexpr double kOfChoosing = 1;            // the cost of a slice, or a summand, of a whole value

}  // namespace

Costs::Costs(const ir::Graph& graph, int64_t devices) : devices_(devices) {
  double weights = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (graph.IsConstant(id)) weights += static_cast<double>(BytesOf(graph.node(id)));
  }
  message_ = kLeastMessage + weights * kShareOfWeights;
}

int64_t BytesOf(const ir::Node& node) {
  if (node.op == ir::Op::kConstant && node.As<ir::ConstantAttrs>().data->packed != nullptr)
    return node.As<ir::ConstantAttrs>().data->packed->byte_size();
  return node.shape.elements() * ByteSize(node.dtype);
}

double Costs::OfConversion(Sharding from, Sharding to, int64_t bytes) const {
  if (from == to) return 0;
  if (from == kWhole) return kOfChoosing;
  const double others = static_cast<double>(devices_ - 1) / static_cast<double>(devices_);
  // A ring sends a reduced value twice and a gathered value once.
  return message_ + kMoreOfCollectives +
         kOfSending * others * static_cast<double>(bytes) * (from == kPartial ? 2 : 1);
}

double Costs::OfSending(int64_t bytes) const { return message_ + kOfSending * static_cast<double>(bytes); }

double Costs::OfWork(const ir::Graph& graph, const ir::Node& node) {
  const auto elements = static_cast<double>(node.shape.elements());
  const auto dim = [&](size_t input, int d) {
    return static_cast<double>(graph.node(node.inputs[input]).shape[d]);
  };
  const double writes = kOfWriting * static_cast<double>(BytesOf(node));
  switch (node.op) {
    case ir::Op::kMatMul: return writes + kOfMultiplying * elements * dim(0, node.shape.rank - 1);
    case ir::Op::kConv: {
      const auto weights = static_cast<double>(graph.node(node.inputs[1]).shape.elements());
      return writes + kOfMultiplying * elements * weights / dim(1, 0);
    }
    case ir::Op::kAttention: return writes + 2 * kOfMultiplying * elements * dim(1, 2);
    default: return writes;
  }
}

}  // namespace rondo::shard
