#include "compiler/import/mixed_gemm_order.h"

namespace rondo::importer {
namespace {

constexpr int64_t kTile = 64;  // along K; columns are interleaved tile by tile

// The place of number `at` in the row-major matrix: its row in N and its index in K.
struct Place {
  int64_t n, k;
};

Place PlaceOf(WeightOrder order, int64_t at, int64_t k, int64_t bits) {
  // 32 bits hold first the numbers of even places, then those of odd places.
  const int64_t group = 32 / bits, in_group = at % group, half = group / 2;
  int64_t from = at - in_group + (in_group < half ? 2 * in_group : 2 * (in_group - half) + 1);
  Place place = {from / k, from % k};
  if (order == WeightOrder::kMixedSm80) {
    const int64_t columns = 16 / bits, tiles = k / kTile;
    const int64_t in_tile = from % kTile, column = from / kTile % columns;
    const int64_t tile = from / (kTile * columns) % tiles, band = from / (k * columns);
    place = {band * columns + column, tile * kTile + in_tile};
  }
  // One mma reads a span of K in pairs: place (a, b, c) of [4][rows / 8][2] comes from b * 8 + a * 2 + c.
  const int64_t rows = 128 / bits, i = place.k % rows, pairs = rows / 8;
  const int64_t a = i / (2 * pairs), b = i / 2 % pairs, c = i % 2;
  place.k += b * 8 + a * 2 + c - i;
  return place;
}

}  // namespace

Status CheckOrder(WeightOrder order, int64_t n, int64_t k, int64_t bits) {
  if (order == WeightOrder::kRows) return Status::Ok();
  const int64_t rows = order == WeightOrder::kMixedSm80 && 128 / bits < kTile ? kTile : 128 / bits;
  const int64_t columns = 64 / bits;
  if (n % columns == 0 && k % rows == 0) return Status::Ok();
  return Status::Error(
      Code::kCorrupt,
      "prepacked weights of N %lld and K %lld: N is a multiple of %lld and K of %lld in that "
      "order; export them without (weights_prepacked 0)",
      static_cast<long long>(n), static_cast<long long>(k), static_cast<long long>(columns),
      static_cast<long long>(rows));
}

std::vector<uint8_t> ByRows(WeightOrder order, const uint8_t* bytes, int64_t count, int64_t n, int64_t k,
                            int64_t bits) {
  const int64_t all = n * k, size = all * bits / 8, mask = (int64_t{1} << bits) - 1;
  if (order == WeightOrder::kRows) return {bytes, bytes + count * size};
  std::vector<uint8_t> out(static_cast<size_t>(count * size), 0);
  for (int64_t at = 0; at < all; ++at) {
    const Place place = PlaceOf(order, at, k, bits);
    const int64_t to = (place.n * k + place.k) * bits, from = at * bits;
    for (int64_t matrix = 0; matrix < count; ++matrix) {
      const int64_t code = bytes[matrix * size + from / 8] >> (from % 8) & mask;
      out[static_cast<size_t>(matrix * size + to / 8)] |= static_cast<uint8_t>(code << (to % 8));
    }
  }
  return out;
}

}  // namespace rondo::importer
