#include "compiler/codegen/weight_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>

namespace rondo {

WeightTable::Key WeightTable::KeyOf(const ir::ConstantData& constant) {
  Key key{};
  size_t at = 0;
  key[at++] = static_cast<uint64_t>(constant.dtype);
  key[at++] = static_cast<uint64_t>(constant.shape.rank);
  for (int64_t dim : constant.shape) key[at++] = static_cast<uint64_t>(dim);
  at = kMaxRank + 2;
  key[at++] = constant.synthetic ? 1 : 0;
  if (constant.synthetic) {
    key[at++] = constant.synthetic_key;
    key[at++] = std::bit_cast<uint32_t>(constant.synthetic_scale);
    key[at++] = static_cast<uint64_t>(constant.synthetic_run);
    key[at++] = static_cast<uint64_t>(constant.synthetic_step);
  } else {
    const XXH128_hash_t hash = XXH3_128bits(constant.bytes.data(), constant.bytes.size());
    key[at++] = hash.low64;
    key[at++] = hash.high64;
  }
  return key;
}

uint32_t WeightTable::Add(const std::shared_ptr<const ir::ConstantData>& constant) {
  const auto known = by_address_.find(constant.get());
  if (known != by_address_.end()) return known->second;
  const auto [entry, added] =
      by_content_.try_emplace(KeyOf(*constant), static_cast<uint32_t>(constants_.size()));
  by_address_.emplace(constant.get(), entry->second);
  if (added) constants_.push_back(constant);
  return entry->second;
}

}  // namespace rondo
