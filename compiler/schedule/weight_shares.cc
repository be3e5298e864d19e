#include "compiler/schedule/weight_shares.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "compiler/shard/cut_weight.h"
#include "core/synthetic.h"

namespace rondo {
namespace {

constexpr int64_t kAligned = 64;  // bytes

WeightData Flat(const WeightData& whole) {
  auto flat = std::make_shared<ir::ConstantData>(*whole);
  flat->shape = Shape({whole->shape.elements()});
  return flat;
}

}  // namespace

WeightRow RowOf(const std::vector<WeightData>& weights) {
  WeightRow row;
  for (const WeightData& weight : weights) {
    const int64_t unit = std::max<int64_t>(kAligned / ByteSize(weight->dtype), 1);
    row.places.push_back((row.elements + unit - 1) / unit * unit);
    row.elements = row.places.back() + weight->shape.elements();
  }
  return row;
}

WeightData ShareOfRow(const std::vector<WeightData>& weights, int64_t own, int64_t devices, int64_t rank) {
  const WeightData& first = weights[0];
  if (weights.size() == 1) {
    const int64_t elements = first->shape.elements();
    if (own * devices == elements)
      return shard::ShareOf(Flat(first), shard::Sharding::Split(own), devices, rank);
    if (first->synthetic && first->packed == nullptr && first->synthetic_run == 0) {
      auto share = std::make_shared<ir::ConstantData>(*first);
      share->synthetic_key += static_cast<uint64_t>(rank * own) * kSyntheticStride;
      share->shape = Shape({own});
      return share;
    }
  }
  const WeightRow row = RowOf(weights);
  const auto size = static_cast<size_t>(ByteSize(first->dtype));
  std::vector<uint8_t> bytes(static_cast<size_t>(own) * size, 0);
  for (size_t w = 0; w < weights.size(); ++w) {
    const int64_t place = row.places[w] - rank * own;  // in the share
    const int64_t begin = std::max<int64_t>(place, 0);
    const int64_t end = std::min(place + weights[w]->shape.elements(), own);
    if (begin >= end) continue;
    const WeightData from = ir::WithBytes(Flat(weights[w]));
    std::memcpy(bytes.data() + static_cast<size_t>(begin) * size,
                from->bytes.data() + static_cast<size_t>(begin - place) * size,
                static_cast<size_t>(end - begin) * size);
  }
  return ir::ConstantData::Own(first->dtype, Shape({own}), std::move(bytes));
}

}  // namespace rondo
