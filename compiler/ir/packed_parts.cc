#include "compiler/ir/packed_parts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "compiler/ir/shares.h"
#include "core/synthetic.h"

namespace rondo::ir {
namespace {

using Data = std::shared_ptr<const ConstantData>;

constexpr int64_t kTile = 16;                        // rows
constexpr int64_t kLeastRows = 16, kLeastWide = 32;  // of a matrix that kernels read in packed form

// Elements [first, first + width) of rows of length `from`, beginning with row `row`; `count` elements in
// all.
struct Window {
  int64_t from = 0, row = 0, first = 0, width = 0, count = 0;
  int64_t offset() const { return row * from + first; }
};

// The part of a constant that a window covers, with zeros beyond the ends of its rows and of the whole.
Data Shown(const Data& whole, const Window& window) {
  auto part = std::make_shared<ConstantData>(*whole);
  part->shape = {window.count};
  if (whole->synthetic) {
    const int64_t step = whole->synthetic_run == 0 ? window.from : whole->synthetic_step;
    part->synthetic_key += static_cast<uint64_t>(window.row * step + window.first) * kSyntheticStride;
    part->synthetic_run = window.width == step ? 0 : window.width;
    part->synthetic_step = window.width == step ? 0 : step;
    return part;
  }
  const auto size = static_cast<size_t>(ByteSize(whole->dtype));
  const auto all = static_cast<int64_t>(whole->bytes.size() / size);
  const auto at = [&](int64_t element) { return static_cast<size_t>(element) * size; };
  if (window.width == window.from && window.offset() + window.count <= all) {
    part->bytes = whole->bytes.subspan(at(window.offset()), at(window.count));
    return part;
  }
  std::vector<uint8_t> bytes(at(window.count));
  const int64_t kept = std::min(window.width, window.from - window.first);
  for (int64_t to = 0, start = window.offset(); to < window.count; to += window.width, start += window.from) {
    const int64_t there = std::min({kept, window.count - to, all - start});
    if (there > 0) std::memcpy(bytes.data() + at(to), whole->bytes.data() + at(start), at(there));
  }
  return ConstantData::Own(whole->dtype, part->shape, std::move(bytes));
}

// Whether a window over rows of `row` elements can be named in the constant, if it is synthetic.
bool Named(const Data& data, int64_t row) {
  return data == nullptr || data->synthetic_run == 0 || data->synthetic_run == row;
}
bool Named(const PackedMatrix& m) {
  const PackedShape shape = m.shape();
  const int64_t scales = shape.blocks() * kTile;
  return Named(m.codes, shape.pieces() * 512) && Named(m.scales, scales) && Named(m.zeros, scales);
}
Data Made(const Data& data) { return data == nullptr ? nullptr : WithBytes(data); }

// Applies `window`, whose widths are in scales, to the scales and zero points.
void ShowScales(const PackedMatrix& matrix, const Window& window, PackedMatrix* out) {
  out->scales = Shown(matrix.scales, window);
  if (matrix.zeros != nullptr) out->zeros = Shown(matrix.zeros, window);
}

// Whether the part consists of whole tiles, pieces and blocks, which lie in the same order as in the whole.
bool InPlace(const PackedMatrix& matrix, int64_t block, const IndexRuns& n, const IndexRuns& k) {
  const bool columns = k.first == 0 && k.size() == matrix.k;
  const bool rows = n.first % kTile == 0 && (n.size() % kTile == 0 || n.first + n.size() == matrix.n);
  const bool pieces = k.first % matrix.shape().piece() == 0 && k.size() % matrix.shape().piece() == 0;
  return n.count == 1 && k.count == 1 && rows && (columns || pieces) && Named(matrix) &&
         (block == matrix.block || matrix.shape().blocks() == 1);
}

void CutInPlace(const PackedMatrix& matrix, const IndexRuns& n, const IndexRuns& k, PackedMatrix* out) {
  const PackedShape from = matrix.shape(), to = out->shape();
  const int64_t tile = n.first / kTile;
  out->codes = Shown(matrix.codes, {from.pieces() * 512, tile, k.first / from.piece() * 512,
                                    to.pieces() * 512, to.covered()});
  const int64_t block = from.blocks() == 1 ? 0 : k.first / from.block;
  ShowScales(matrix, {from.blocks() * kTile, tile, block * kTile, to.blocks() * kTile, to.scales_covered()},
             out);
}

// Copies code by code.
Data CutCodes(const PackedMatrix& matrix, const PackedMatrix& out, const IndexRuns& n, const IndexRuns& k) {
  const PackedShape from = matrix.shape(), to = out.shape();
  const Data codes = WithBytes(matrix.codes);
  std::vector<uint8_t> bytes(static_cast<size_t>(to.covered()));
  const int mask = (1 << to.bits) - 1;
  InShares(to.tiles(), 1, [&](int64_t first, int64_t last) {
    for (int64_t row = first * kTile; row < std::min(to.n, last * kTile); ++row) {
      const int64_t source = n.At(row);
      for (int64_t at = 0; at < to.k; ++at) {
        const int64_t read = from.BitAt(source, k.At(at)), write = to.BitAt(row, at);
        const int code = codes->bytes[static_cast<size_t>(read / 8)] >> (read % 8) & mask;
        uint8_t& byte = bytes[static_cast<size_t>(write / 8)];
        byte = static_cast<uint8_t>(byte | code << (write % 8));
      }
    }
  });
  return ConstantData::Own(DType::kU8, {to.covered()}, std::move(bytes));
}

Data CutScales(const PackedMatrix& matrix, const PackedMatrix& out, const Data& given, const IndexRuns& n,
               const IndexRuns& k) {
  if (given == nullptr) return nullptr;
  const PackedShape from = matrix.shape(), to = out.shape();
  const Data scales = Made(given);
  const auto size = static_cast<size_t>(ByteSize(scales->dtype));
  std::vector<uint8_t> bytes(static_cast<size_t>(to.scales_covered()) * size);
  for (int64_t row = 0; row < to.n; ++row) {
    for (int64_t b = 0; b < to.blocks(); ++b) {
      const int64_t at = b * to.block;
      std::memcpy(bytes.data() + static_cast<size_t>(to.ScaleAt(row, at)) * size,
                  scales->bytes.data() + static_cast<size_t>(from.ScaleAt(n.At(row), k.At(at))) * size, size);
    }
  }
  return ConstantData::Own(scales->dtype, {to.scales_covered()}, std::move(bytes));
}

}  // namespace

int64_t BlockOf(const PackedMatrix& matrix, const IndexRuns& k) {
  if (k.first == 0 && k.size() == matrix.k && k.count == 1) return matrix.block;
  if (matrix.shape().blocks() == 1) return std::max(k.size(), kTile);
  const int64_t block = std::gcd(std::gcd(matrix.block, k.first), std::gcd(k.length, k.step));
  return block % kTile == 0 ? block : 0;
}

bool CanCutPacked(const PackedMatrix& matrix, const IndexRuns& n, const IndexRuns& k) {
  return n.size() >= kLeastRows && k.size() >= kLeastWide && BlockOf(matrix, k) > 0;
}

bool CutsInPlace(const PackedMatrix& matrix, const IndexRuns& n, const IndexRuns& k) {
  return InPlace(matrix, BlockOf(matrix, k), n, k);
}

std::shared_ptr<const PackedMatrix> CutPacked(const PackedMatrix& matrix, const IndexRuns& n,
                                              const IndexRuns& k) {
  auto out = std::make_shared<PackedMatrix>(matrix);
  if (n.size() == matrix.n && k.size() == matrix.k && n.count == 1 && k.count == 1) return out;
  out->n = n.size();
  out->k = k.size();
  out->block = BlockOf(matrix, k);
  if (InPlace(matrix, out->block, n, k)) {
    CutInPlace(matrix, n, k, out.get());
    return out;
  }
  out->codes = CutCodes(matrix, *out, n, k);
  out->scales = CutScales(matrix, *out, matrix.scales, n, k);
  out->zeros = CutScales(matrix, *out, matrix.zeros, n, k);
  return out;
}

std::shared_ptr<const PackedMatrix> PadPacked(const PackedMatrix& matrix, int64_t n, int64_t k) {
  auto out = std::make_shared<PackedMatrix>(matrix);
  if (!Named(matrix)) {
    out->codes = Made(matrix.codes);
    out->scales = Made(matrix.scales);
    out->zeros = Made(matrix.zeros);
  }
  const PackedMatrix from = *out;
  out->n = n;
  out->k = k;
  if (from.shape().blocks() == 1 && k > from.k) out->block = k;
  const PackedShape to = out->shape();
  out->codes = Shown(from.codes, {from.shape().pieces() * 512, 0, 0, to.pieces() * 512, to.covered()});
  ShowScales(from, {from.shape().blocks() * kTile, 0, 0, to.blocks() * kTile, to.scales_covered()},
             out.get());
  return out;
}

}  // namespace rondo::ir
