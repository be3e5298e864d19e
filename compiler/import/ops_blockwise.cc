// Weights stored as integers of 2, 4 or 8 bits in blocks, each block with its scale and zero point.
#include <algorithm>

#include "compiler/import/decompose.h"
#include "compiler/import/narrow_weight.h"
#include "compiler/import/packed_bits.h"
#include "compiler/import/packed_blocks.h"
#include "compiler/import/registry.h"
#include "core/scalar.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";
constexpr int64_t kMost = int64_t{1} << 28;  // rows or columns of a weight

bool PowerOfTwo(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

// ---------------------------------------------------------------------------------------- MatMulNBits

enum MatMulInput { kA, kB, kScales, kZeroPoints, kGroups, kBias };

Result<PackedBlocks> ReadBlocks(const OpContext& c) {
  PackedBlocks blocks = {c.Int("N", 0), c.Int("K", 0), c.Int("bits", 4), c.Int("block_size", 0)};
  RONDO_RETURN_IF_ERROR(CheckBlocks(blocks));
  const int64_t prepacked = c.Int("weight_prepacked", 0);
  if (prepacked < 0 || prepacked > 2) {
    return Status::Error(Code::kUnsupported, "weight_prepacked %lld: rondo knows 0, 1 and 2",
                         static_cast<long long>(prepacked));
  }
  if (prepacked == 1) blocks.lie = WeightOrder::kMixedSm80;
  if (prepacked == 2) blocks.lie = WeightOrder::kMixedSm90;
  return blocks;
}

// Input `i` holds `count` elements.
Status RequireCount(const OpContext& c, int i, int64_t count) {
  if (c.shape(i).elements() == count) return Status::Ok();
  return Status::Error(Code::kCorrupt, "input %d has shape %s; %lld elements are needed", i,
                       Text(c.shape(i)).c_str(), static_cast<long long>(count));
}

// Orders rows by group, in the model's order within a group. Each group except the last is padded to whole
// blocks of `size`.
void OrderInto(const std::vector<std::vector<int64_t>>& rows, int64_t size, PackedBlocks* blocks) {
  blocks->order.clear(), blocks->groups.clear();
  blocks->read_size = size;
  for (size_t group = 0; group < rows.size(); ++group) {
    blocks->order.resize((blocks->order.size() + static_cast<size_t>(size) - 1) / static_cast<size_t>(size) *
                             static_cast<size_t>(size),
                         -1);
    blocks->order.insert(blocks->order.end(), rows[group].begin(), rows[group].end());
    const auto needed = static_cast<size_t>((std::ssize(rows[group]) + size - 1) / size);
    blocks->groups.insert(blocks->groups.end(), needed, static_cast<int64_t>(group));
  }
}

// If the rows of a group (g_idx holds each row's scale and zero point) are not adjacent, as after GPTQ with
// activation order, finds an order in which they are. If groups do not have block_size rows each, uses the
// block size, at most the model's, that needs the fewest bytes.
Status OrderByGroups(const OpContext& c, PackedBlocks* blocks) {
  if (!c.Has(kGroups)) return Status::Ok();
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> groups, c.ConstantInts(kGroups));
  if (std::ssize(groups) < blocks->k) {
    return Status::Error(Code::kCorrupt, "g_idx has %zu elements for %lld rows", groups.size(),
                         static_cast<long long>(blocks->k));
  }
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(blocks->count()));
  bool in_order = true;
  for (int64_t i = 0; i < blocks->k; ++i) {  // the last block may be padded
    const int64_t group = groups[static_cast<size_t>(i)];
    in_order = in_order && group == i / blocks->size;
    if (group < 0 || group >= blocks->count()) {
      return Status::Error(Code::kCorrupt, "g_idx puts row %lld into group %lld of %lld",
                           static_cast<long long>(i), static_cast<long long>(group),
                           static_cast<long long>(blocks->count()));
    }
    rows[static_cast<size_t>(group)].push_back(i);
  }
  if (in_order) return Status::Ok();
  constexpr int64_t kLeastBlock = 16, kScaleBits = 16;
  int64_t best = 0, fewest = 0;
  for (int64_t size = blocks->size; size >= kLeastBlock; size /= 2) {
    OrderInto(rows, size, blocks);
    const int64_t needed = blocks->columns() * blocks->bits + blocks->blocks() * kScaleBits;
    if (best == 0 || needed < fewest) best = size, fewest = needed;
  }
  OrderInto(rows, best, blocks);
  return Status::Ok();
}

Status MatMulNBits(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kA));
  RONDO_ASSIGN_OR_RETURN(PackedBlocks blocks, ReadBlocks(c));
  RONDO_RETURN_IF_ERROR(OrderByGroups(c, &blocks));
  const Shape a = c.shape(kA);
  if (a.rank < 1 || a[a.rank - 1] != blocks.k) {
    return Status::Error(Code::kCorrupt, "A of shape %s; its last dimension must be K, %lld", Text(a).c_str(),
                         static_cast<long long>(blocks.k));
  }
  std::vector<int64_t> dims(a.begin(), a.end());
  dims.back() = blocks.n;
  RONDO_ASSIGN_OR_RETURN(Shape out, c.MakeShape(dims));
  NodeId y = b.Expand(b.Scalar(c.dtype(kA), 0), out);
  if (c.shape(kB).elements() != 0) {  // a projection without weights is left out
    RONDO_ASSIGN_OR_RETURN(NodeId w, Dequantised(c, blocks, kB, kScales, kZeroPoints, c.dtype(kA)));
    std::vector<int64_t> order = blocks.order;
    for (int64_t& row : order) row = std::max<int64_t>(row, 0);  // multiplied by 0
    const NodeId rows = order.empty() ? c.In(kA) : Take(b, c.In(kA), a.rank - 1, order);
    if (a.elements() != 0) y = b.MatMul(rows, b.Transpose(w, {1, 0}));
  }
  if (c.Has(kBias)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(kA, kBias));
    RONDO_RETURN_IF_ERROR(RequireCount(c, kBias, blocks.n));
    y = b.Add(y, b.Reshape(c.In(kBias), {blocks.n}));
  }
  return c.Give(y);
}

// ---------------------------------------------------------------------------------------- MatMulBnb4

enum Bnb4Input { kBnbA, kBnbB, kAbsMax };

// The values of bitsandbytes' codes relative to the greatest magnitude in a block: FP4 (quant_type 0) and NF4
// (1; https://arxiv.org/abs/2305.14314, appendix E).
constexpr float kBnb4Values[2][16] = {
    {0.0f, 5.208333333e-03f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f, 0.25f, -0.0f,
     -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
     0.7229568362236023f, 1.0f}};

// The weights [n, k] as a constant of A's type, since no kernel reads these codes packed. A byte holds two
// codes, the first in the high bits. Blocks continue across rows.
Result<NodeId> ReadBnb4(OpContext& c, int64_t n, int64_t k) {
  const int64_t size = c.Int("block_size", 0), type = c.Int("quant_type", 1);
  if (!PowerOfTwo(size) || size < 16 || type < 0 || type > 1) {
    return Status::Error(Code::kCorrupt, "blocks of %lld of quant_type %lld", static_cast<long long>(size),
                         static_cast<long long>(type));
  }
  if (c.dtype(kBnbB) != DType::kU8)
    return Status::Error(Code::kCorrupt, "weights of type %s; u8 is needed", Name(c.dtype(kBnbB)));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kAbsMax));
  RONDO_RETURN_IF_ERROR(RequireCount(c, kBnbB, (n * k + 1) / 2));
  RONDO_RETURN_IF_ERROR(RequireCount(c, kAbsMax, (n * k - 1) / size + 1));
  auto data = std::make_shared<ir::ConstantData>();
  data->dtype = c.dtype(kBnbA), data->shape = {n, k}, data->synthetic = true;
  if (c.host.shapes_only()) return c.b.Constant(data);
  std::shared_ptr<const ir::ConstantData> codes, most;
  if (!c.b.ConstantValue(c.In(kBnbB), n * k, &codes) || !c.b.ConstantValue(c.In(kAbsMax), 8 * n * k, &most)) {
    return Status::Error(Code::kUnsupported,
                         "weights that only a run knows: export the model with B and absmax as initializers");
  }
  std::vector<uint8_t> out(static_cast<size_t>(n * k * ByteSize(data->dtype)));
  for (int64_t i = 0; i < n * k; ++i) {
    const int code = codes->bytes.data()[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15;
    const float scale = scalar::Load<float>(most->dtype, most->bytes.data(), i / size);
    scalar::Store<float>(data->dtype, out.data(), i, kBnb4Values[type][code] * scale);
  }
  return c.b.Constant(ir::ConstantData::Own(data->dtype, data->shape, out));
}

Status MatMulBnb4(OpContext& c) {
  const int64_t n = c.Int("N", 0), k = c.Int("K", 0);
  if (n < 1 || k < 1 || n > kMost || k > kMost)
    return Status::Error(Code::kCorrupt, "N %lld, K %lld", static_cast<long long>(n),
                         static_cast<long long>(k));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kBnbA));
  if (c.Int("transB", 1) == 0)
    return Status::Error(Code::kUnsupported, "transB 0, as in training: export the model for inference");
  const Shape a = c.shape(kBnbA);
  if (a.rank < 1 || a[a.rank - 1] != k || a.elements() == 0) {
    return Status::Error(Code::kCorrupt, "A of shape %s; its last dimension must be K, %lld", Text(a).c_str(),
                         static_cast<long long>(k));
  }
  std::vector<int64_t> dims(a.begin(), a.end());
  dims.back() = n;
  RONDO_RETURN_IF_ERROR(c.MakeShape(dims).status());
  RONDO_ASSIGN_OR_RETURN(NodeId w, ReadBnb4(c, n, k));
  return c.Give(c.b.MatMul(c.In(kBnbA), c.b.Transpose(w, {1, 0})));
}

// ------------------------------------------------------------------------------ GatherBlockQuantized

enum GatherInput { kData, kIndices, kGatherScales, kGatherZeroPoints };

struct Table {
  int gather_axis = 0, quantize_axis = 0;
  int64_t block = 0, bits = 8;        // bits of a stored number
  bool packed = false;                // u8 with several numbers per byte, along the last dim
  const NarrowCodes* type = nullptr;  // for ONNX types of few bits; null for u8
  bool real = false;                  // FP8 or FP4
  NodeId data = kNoNode;              // bytes with `bits` per number, or numbers
  bool coded = false;                 // the bytes are codes of `type`
  Shape shape;                        // of the numbers
};

// Codes of few bits stay in the file's layout if their rows can be read there.
void KeepCodes(OpContext& c, Table* table) {
  if (table->type == nullptr || table->gather_axis == table->shape.rank - 1) return;
  const NodeId bytes = RowsOfBytes(c.b, *table->type);
  if (bytes == kNoNode) return;
  table->data = bytes, table->bits = table->type->bits, table->coded = true;
}

Result<Table> ReadTable(OpContext& c) {
  Table table;
  table.block = c.Int("block_size", 128);
  RONDO_RETURN_IF_ERROR(c.RequireRank(kData, 1, kMaxRank - 1));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kGatherScales));
  table.type = c.InValue(kData).narrow.get();
  table.real = table.type != nullptr && IsReal(*table.type);
  if (c.dtype(kData) == DType::kI8 && table.type == nullptr)
    return Status::Error(Code::kCorrupt, "a table of type i8: int4, uint4 or packed uint8 is needed");
  table.packed = c.dtype(kData) == DType::kU8 && table.type == nullptr;
  if (table.packed) table.bits = c.Int("bits", 4);
  RONDO_ASSIGN_OR_RETURN(table.gather_axis, c.Axis(c.Int("gather_axis", 0), c.rank(kData)));
  RONDO_ASSIGN_OR_RETURN(table.quantize_axis, c.Axis(c.Int("quantize_axis", 1), c.rank(kData)));
  if (table.real && table.block == 0) table.block = std::max<int64_t>(c.shape(kData)[table.quantize_axis], 1);
  const bool known = table.packed || table.type != nullptr;
  const bool whole = table.real && c.Int("block_size", 128) == 0;
  if (!known || !(PowerOfTwo(table.block) || whole) ||
      (table.bits != 2 && table.bits != 4 && table.bits != 8)) {
    return Status::Error(Code::kUnsupported,
                         "a table of %s of %lld bits in blocks of %lld: rondo reads bytes of 2, 4 and 8 "
                         "bits, INT4, UINT4, FP8 "
                         "and FP4 in blocks of a power of two",
                         Name(c.dtype(kData)), static_cast<long long>(table.bits),
                         static_cast<long long>(table.block));
  }
  if (table.gather_axis == table.quantize_axis || (table.packed && table.gather_axis != 0))
    return Status::Error(
        Code::kUnsupported,
        "a gather along axis %d of blocks along axis %d: the axes must differ, and a table of "
        "bytes with several numbers each is gathered from along axis 0",
        table.gather_axis, table.quantize_axis);
  table.data = c.In(kData);
  table.shape = c.shape(kData);
  table.shape[table.shape.rank - 1] *= 8 / table.bits;
  if (table.real && c.Has(kGatherZeroPoints))
    return Status::Error(Code::kCorrupt, "zero points for a table of FP8 or FP4, which has none");
  KeepCodes(c, &table);
  return table;
}

// Scales with one value per block; those of FP8 and FP4 may have one value for all blocks along an axis.
Result<NodeId> ReadScales(OpContext& c, const Table& table) {
  Shape all = table.shape;
  all[table.quantize_axis] = (all[table.quantize_axis] + table.block - 1) / table.block;
  const Shape given = c.shape(kGatherScales);
  bool fits = given.rank == all.rank && given.elements() != 0;
  for (int d = 0; fits && d < all.rank; ++d)
    fits = given[d] == all[d] || (table.real && given[d] == 1 && d != table.quantize_axis);
  if (fits) return c.b.Expand(c.In(kGatherScales), all);
  return Status::Error(Code::kCorrupt, "scales of shape %s; %s is needed", Text(given).c_str(),
                       Text(all).c_str());
}

// Rows `index` of the table's numbers, zero points or scales, as f32. `bits` per number: 8, or several
// numbers per byte along the last dim.
NodeId Rows(Builder& b, NodeId x, NodeId index, const Table& table, int64_t bits) {
  return UnpackBits(b, b.Gather(x, index, table.gather_axis, false), bits);
}

Status GatherBlockQuantized(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(Table table, ReadTable(c));
  RONDO_ASSIGN_OR_RETURN(const NodeId scales, ReadScales(c, table));
  if ((c.dtype(kIndices) != DType::kI64 && c.dtype(kIndices) != DType::kI32))
    return Status::Error(Code::kCorrupt, "indices of type %s", Name(c.dtype(kIndices)));
  std::vector<int64_t> dims(table.shape.begin(), table.shape.end());
  dims.erase(dims.begin() + table.gather_axis);
  dims.insert(dims.begin() + table.gather_axis, c.shape(kIndices).begin(), c.shape(kIndices).end());
  RONDO_ASSIGN_OR_RETURN(Shape out, c.MakeShape(dims));
  if (out.elements() == 0) {
    return c.Give(b.Constant(ir::ConstantData::Own(c.dtype(kGatherScales), out, {})));
  }
  // A negative index counts from the end; an index out of range gives zeros.
  const double count = static_cast<double>(table.shape[table.gather_axis]);
  const NodeId none = b.Scalar(DType::kI64, 0);
  NodeId index = b.Cast(c.In(kIndices), DType::kI64);
  index = b.Select(b.Binary(TapeOp::kLess, index, none), b.BinaryScalar(TapeOp::kAdd, index, count), index);
  NodeId safe = b.BinaryScalar(TapeOp::kMin, b.Binary(TapeOp::kMax, index, none), count - 1);
  NodeId real = b.Binary(TapeOp::kEqual, index, safe);
  const int moved = c.rank(kIndices) - 1;  // axes after the gathered one
  const int axis = table.quantize_axis + (table.quantize_axis > table.gather_axis ? moved : 0);
  const auto spread = [&](NodeId x) {
    return b.Slice(RepeatEach(b, x, axis, std::min(table.block, out[axis])), axis, 0, 1, out[axis]);
  };
  NodeId y = Rows(b, table.data, safe, table, table.bits);
  if (table.coded) y = NumbersOf(b, y, *table.type);
  y = b.Cast(y, DType::kF32);
  if (c.Has(kGatherZeroPoints)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(kData, kGatherZeroPoints));
    const int64_t bits = table.packed ? table.bits : 8;
    Shape zeros = b.shape(scales);
    zeros[zeros.rank - 1] = (zeros[zeros.rank - 1] * bits + 7) / 8;
    if (!(c.shape(kGatherZeroPoints) == zeros))
      return Status::Error(Code::kCorrupt, "zero points of shape %s",
                           Text(c.shape(kGatherZeroPoints)).c_str());
    NodeId zero = b.Cast(Rows(b, c.In(kGatherZeroPoints), safe, table, bits), DType::kF32);
    zero = b.Slice(zero, b.shape(zero).rank - 1, 0, 1,
                   axis == out.rank - 1 ? b.shape(scales)[table.quantize_axis] : out[out.rank - 1]);
    y = b.Sub(y, spread(zero));
  } else if (table.packed) {
    y = b.BinaryScalar(TapeOp::kSub, y, static_cast<double>(int64_t{1} << (table.bits - 1)));
  }
  y = b.Mul(y, spread(b.Cast(Rows(b, scales, safe, table, 8), DType::kF32)));
  Shape aligned = out;
  for (int d = 0; d < out.rank; ++d) {
    if (d < table.gather_axis || d > table.gather_axis + moved) aligned[d] = 1;
  }
  y = b.Select(b.Reshape(real, aligned), y, b.Scalar(DType::kF32, 0));
  return c.Give(b.Cast(y, c.dtype(kGatherScales)));
}

constexpr OpRow kOps[] = {
    {"MatMulNBits", 3, MatMulNBits, 1, kLatest, kDomain},
    {"MatMulBnb4", 3, MatMulBnb4, 1, kLatest, kDomain},
    {"GatherBlockQuantized", 3, GatherBlockQuantized, 1, kLatest, kDomain, false, true},
};

}  // namespace

Span<const OpRow> BlockwiseOps() { return kOps; }

}  // namespace rondo::importer
