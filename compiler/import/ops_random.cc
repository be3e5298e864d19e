// Random numbers. Each is a function of the seed, the node and the element's index (ir/philox.h), and is the
// same on every driver and in every run.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/random.h"
#include "compiler/import/registry.h"
#include "compiler/ir/philox.h"
#include "core/synthetic.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {
namespace {

// The node's key: from its seed, or from its name if it has none.
uint64_t KeyOf(OpContext& c) {
  std::string said = "node " + (c.proto.name().empty() ? c.proto.output(0) : c.proto.name());
  const onnx::AttributeProto* seed = c.Attribute("seed");
  if (seed != nullptr)
    said = "seed " + (seed->has_i() ? std::to_string(seed->i()) : std::to_string(seed->f()));
  c.host.Remark(c.proto.op_type() + " \"" + (c.proto.name().empty() ? c.proto.output(0) : c.proto.name()) +
                "\" gives the same numbers in every run, by " + (seed != nullptr ? "its seed" : "its name"));
  return SyntheticKey(0, said);
}

// The indices of a tensor's elements in order, with the run's own sizes.
NodeId Places(Builder& b, const ir::Dims& dims) {
  const Shape shape = ir::ExtentsOf(dims);
  if (std::all_of(dims.begin(), dims.end(), [](const ir::Size& dim) { return dim.known(); }))
    return b.Reshape(b.Iota({shape.elements()}, 0), shape);
  NodeId place = b.Scalar(DType::kI64, 0);
  for (int d = 0; d < shape.rank; ++d) {
    const NodeId length = b.Number(dims[static_cast<size_t>(d)]);
    place = b.Add(b.Mul(place, length), b.IotaOver(dims, d));
  }
  return place;
}

// Two f32 numbers in (0, 1) for each element.
std::array<NodeId, 2> Uniforms(Builder& b, const ir::Dims& dims, uint64_t key) {
  const Shape shape = ir::ExtentsOf(dims);
  if (shape.elements() == 0) {
    const NodeId none = b.Constant(ir::ConstantData::Own(DType::kF32, shape, {}));
    return {none, none};
  }
  const auto word = [&](uint64_t value) {
    return b.Ints(DType::kI64, Shape{}, {static_cast<int64_t>(value & 0xffffffffu)});
  };
  const NodeId place = Places(b, dims);
  const NodeId low = b.BinaryScalar(TapeOp::kBitAnd, place, 4294967295.0),
               high = b.BinaryScalar(TapeOp::kShr, place, 32);
  const auto words = ir::Philox(b, {low, high, word(0), word(0)}, {word(key), word(key >> 32)});
  std::array<NodeId, 2> out;
  for (size_t i = 0; i < 2; ++i) {
    // The upper 23 bits plus one half: exact in f32.
    const NodeId bits = b.Cast(b.BinaryScalar(TapeOp::kShr, words[i], 9), DType::kF32);
    const NodeId u = b.BinaryScalar(TapeOp::kMul, b.BinaryScalar(TapeOp::kAdd, bits, 0.5), 0x1p-23);
    out[i] = b.ExpandTo(u, dims);
  }
  return out;
}

NodeId Uniform(OpContext& c, const ir::Dims& dims) { return Uniforms(c.b, dims, KeyOf(c))[0]; }

// The Box-Muller transform.
NodeId Normal(OpContext& c, const ir::Dims& dims) {
  Builder& b = c.b;
  const auto [u, v] = Uniforms(b, dims, KeyOf(c));
  const NodeId radius = b.Unary(TapeOp::kSqrt, b.BinaryScalar(TapeOp::kMul, b.Unary(TapeOp::kLog, u), -2));
  return b.Mul(radius, b.Unary(TapeOp::kCos, b.BinaryScalar(TapeOp::kMul, v, 2 * std::acos(-1.0))));
}

// The shape and type of the result: those of input 0 for the ...Like operators, unless the node gives them.
Result<ir::Dims> DimsOf(OpContext& c, bool like) {
  if (like) return c.SizesOf(0);
  RONDO_ASSIGN_OR_RETURN(const Shape shape, c.MakeShape(c.Ints("shape")));
  return ir::Dims(shape.begin(), shape.end());
}
Result<DType> TypeOf(OpContext& c, bool like) {
  if (!c.HasAttribute("dtype")) return like ? c.dtype(0) : DType::kF32;
  return onnx::DTypeOf(static_cast<int>(c.Int("dtype", 1)));
}

template <bool kLike>
Status RandomUniform(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const ir::Dims dims, DimsOf(c, kLike));
  RONDO_ASSIGN_OR_RETURN(const DType type, TypeOf(c, kLike));
  const float low = c.Float("low", 0), high = c.Float("high", 1);
  const NodeId x = c.b.BinaryScalar(TapeOp::kMul, Uniform(c, dims), double{high} - low);
  return c.Give(c.b.Cast(c.b.BinaryScalar(TapeOp::kAdd, x, low), type));
}

template <bool kLike>
Status RandomNormal(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const ir::Dims dims, DimsOf(c, kLike));
  RONDO_ASSIGN_OR_RETURN(const DType type, TypeOf(c, kLike));
  const NodeId x = c.b.BinaryScalar(TapeOp::kMul, Normal(c, dims), c.Float("scale", 1));
  return c.Give(c.b.Cast(c.b.BinaryScalar(TapeOp::kAdd, x, c.Float("mean", 0)), type));
}

Status Bernoulli(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_ASSIGN_OR_RETURN(const DType type, TypeOf(c, true));
  const NodeId u = Uniform(c, c.SizesOf(0));
  return c.Give(c.b.Cast(c.b.Binary(TapeOp::kLess, u, c.b.Cast(c.In(0), DType::kF32)), type));
}

// Draws `sample_size` classes per row of scores [rows, classes]: each maximises score + Gumbel noise.
Status Multinomial(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 2));
  const int64_t rows = c.shape(0)[0], classes = c.shape(0)[1];
  RONDO_ASSIGN_OR_RETURN(const Shape all, c.MakeShape({rows, c.Int("sample_size", 1), classes}));
  RONDO_ASSIGN_OR_RETURN(const DType type, onnx::DTypeOf(static_cast<int>(c.Int("dtype", 6))));
  if (all.elements() == 0) return Status::Error(Code::kCorrupt, "samples of shape %s", Text(all).c_str());
  Builder& b = c.b;
  const auto minus_log = [&](NodeId x) { return b.Unary(TapeOp::kNeg, b.Unary(TapeOp::kLog, x)); };
  const NodeId noise = minus_log(minus_log(Uniform(c, {all.begin(), all.end()})));
  const NodeId scores = b.Add(b.Unsqueeze(b.Cast(c.In(0), DType::kF32), 1), noise);
  return c.Give(b.Cast(b.Reduce(ir::ReduceKind::kArgMax, scores, {2}, false), type));
}

constexpr OpRow kOps[] = {
    {"RandomUniform", 0, RandomUniform<false>},
    {"RandomUniformLike", 1, RandomUniform<true>},
    {"RandomNormal", 0, RandomNormal<false>},
    {"RandomNormalLike", 1, RandomNormal<true>},
    {"Bernoulli", 1, Bernoulli, 15},
    {"Multinomial", 1, Multinomial, 7},
};

}  // namespace

NodeId RandomOfNode(OpContext& c, const Shape& shape) { return Uniform(c, {shape.begin(), shape.end()}); }

Span<const OpRow> RandomOps() { return kOps; }

}  // namespace rondo::importer
