// MatMulBlockQuantizedFp4Weight and MatMulBlockQuantizedFp8Weight of com.microsoft, as onnxruntime-genai's
// builder writes them for checkpoints of TensorRT's Model Optimizer.
#include "compiler/import/float_blocks.h"
#include "compiler/import/narrow_weight.h"
#include "compiler/import/registry.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// The input indices of each operator; -1 for an input that it does not have.
struct BlockInputs {
  PackedType type;
  int64_t block;  // numbers along K with one scale, if block_size is absent
  int all, of_activations, bias;
};
constexpr int kBlockA = 0, kBlockB = 1, kBlockScales = 2;
constexpr BlockInputs kFp4Inputs = {PackedType::kE2M1, 16, 3, -1, 5};
constexpr BlockInputs kFp8Inputs = {PackedType::kE4M3, 128, -1, 3, 4};

bool HasNumber(const OpContext& c, int i) {
  return c.b.dtype(c.In(i)) == DType::kF32 && c.shape(i).elements() == 1;
}

Status CheckMatMul(const OpContext& c, const BlockInputs& is, const FloatBlocks& blocks) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (i != kBlockB && c.Has(i) && c.InValue(i).bits != 0)
      return Status::Error(Code::kCorrupt, "input %d has numbers of %d bits of a type of their own", i,
                           c.InValue(i).bits);
  }
  const Shape a = c.shape(kBlockA), count = {blocks.n, blocks.count()};
  const bool fp4 = is.type == PackedType::kE2M1;
  if (a[a.rank - 1] != blocks.k || a.elements() == 0 || !(c.shape(kBlockScales) == count)) {
    return Status::Error(Code::kCorrupt,
                         "A of shape %s and scales of shape %s for N %lld and K %lld: A ends with K, and "
                         "scales of shape %s are needed",
                         Text(a).c_str(), Text(c.shape(kBlockScales)).c_str(),
                         static_cast<long long>(blocks.n), static_cast<long long>(blocks.k),
                         Text(count).c_str());
  }
  const NarrowCodes* const narrow = c.InValue(kBlockB).narrow.get();
  if (fp4 ? narrow != nullptr || c.dtype(kBlockB) != DType::kU8
          : narrow == nullptr || narrow->type != is.type || narrow->is_fnuz)
    return Status::Error(Code::kCorrupt, "B of type %s: %s is needed", Name(c.dtype(kBlockB)),
                         fp4 ? "UINT8" : "FLOAT8E4M3FN");
  if (fp4 && c.dtype(kBlockScales) != DType::kU8)
    return Status::Error(Code::kCorrupt, "scales of type %s: UINT8 is needed", Name(c.dtype(kBlockScales)));
  for (const int i : {is.all, is.of_activations}) {
    if (i >= 0 && c.Has(i) && !HasNumber(c, i))
      return Status::Error(Code::kCorrupt, "input %d is not one number of FLOAT", i);
  }
  if (is.all >= 0 && !c.Has(is.all)) return Status::Error(Code::kCorrupt, "input %d is missing", is.all);
  if (c.Has(is.bias) && (c.dtype(is.bias) != c.dtype(kBlockA) || !(c.shape(is.bias) == Shape({blocks.n}))))
    return Status::Error(Code::kCorrupt, "a bias of shape %s", Text(c.shape(is.bias)).c_str());
  return Status::Ok();
}

Result<NodeId> Weight(const OpContext& c, const BlockInputs& is, FloatBlocks blocks) {
  const bool fp4 = is.type == PackedType::kE2M1;
  RONDO_ASSIGN_OR_RETURN(const auto codes, CodesOf(c, kBlockB));
  for (int64_t i = 0; i < blocks.n * blocks.k; ++i) {
    const uint8_t byte = codes->bytes[static_cast<size_t>(fp4 ? i / 2 : i)];
    blocks.codes.push_back(fp4 ? static_cast<uint8_t>(byte >> (i % 2 * 4) & 15) : byte);
  }
  RONDO_ASSIGN_OR_RETURN(blocks.scales, ScalesOf(c, kBlockScales, fp4));
  if (is.all >= 0) {
    RONDO_ASSIGN_OR_RETURN(const std::vector<float> all, ScalesOf(c, is.all));
    for (float& scale : blocks.scales) scale *= all[0];
  }
  blocks.name = codes->name;
  return FloatWeight(c.b, blocks, c.dtype(kBlockA));
}

template <const BlockInputs& kInputs>
Status MatMulFloatBlocks(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kBlockA));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kBlockA, 1, kMaxRank));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kBlockB, 2, 2));
  FloatBlocks blocks;
  blocks.type = kInputs.type;
  blocks.n = c.shape(kBlockB)[0], blocks.k = c.shape(kBlockB)[1] * (8 / BitsOf(kInputs.type));
  blocks.block = c.Int("block_size", kInputs.block);
  if (blocks.n < 1 || blocks.k < 1 || blocks.block < 1)
    return Status::Error(Code::kCorrupt, "B of shape %s in blocks of %lld", Text(c.shape(kBlockB)).c_str(),
                         static_cast<long long>(blocks.block));
  RONDO_RETURN_IF_ERROR(CheckMatMul(c, kInputs, blocks));
  NodeId x = c.In(kBlockA);
  const DType type = c.dtype(kBlockA);
  if (kInputs.of_activations >= 0 && c.Has(kInputs.of_activations)) {
    const NodeId scale = b.Reshape(c.In(kInputs.of_activations), Shape{});
    const NodeId numbers = b.Div(b.Cast(x, DType::kF32), scale);
    x = b.Mul(RoundedTo(b, numbers, *NarrowTypeOf(onnx::TensorProto::FLOAT8E4M3FN)), scale);
    x = b.Cast(x, type);
  }
  NodeId w = kNoNode;
  if (c.host.shapes_only()) {
    auto data = std::make_shared<ir::ConstantData>();
    data->dtype = type, data->shape = {blocks.n, blocks.k}, data->synthetic = true;
    w = b.Constant(data);
  } else {
    RONDO_ASSIGN_OR_RETURN(w, Weight(c, kInputs, blocks));
  }
  NodeId y = b.MatMul(x, b.Transpose(w, {1, 0}));
  if (c.Has(kInputs.bias)) y = b.Add(y, c.In(kInputs.bias));
  return c.Give(y);
}

constexpr OpRow kOps[] = {
    {"MatMulBlockQuantizedFp4Weight", 3, MatMulFloatBlocks<kFp4Inputs>, 1, kLatest, kDomain, false, true},
    {"MatMulBlockQuantizedFp8Weight", 3, MatMulFloatBlocks<kFp8Inputs>, 1, kLatest, kDomain, false, true},
};

}  // namespace

Span<const OpRow> FloatBlockOps() { return kOps; }

}  // namespace rondo::importer
