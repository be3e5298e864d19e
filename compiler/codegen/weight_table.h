// WeightTable: each distinct constant of a plan once.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo {

// Numbers constants in the order in which they first come. Constants are the same if dtype, shape and bytes
// are (by xxh3-128), or dtype, shape, key and scale of synthetic ones. Whatever is added must outlive the
// table.
class WeightTable {
 public:
  uint32_t Add(const std::shared_ptr<const ir::ConstantData>& constant);
  const std::vector<std::shared_ptr<const ir::ConstantData>>& constants() const { return constants_; }

 private:
  // dtype, rank, dims, source, and up to four words of content.
  using Key = std::array<uint64_t, kMaxRank + 7>;
  static Key KeyOf(const ir::ConstantData& constant);
  std::map<const ir::ConstantData*, uint32_t> by_address_;  // spares hashing a constant again
  std::map<Key, uint32_t> by_content_;
  std::vector<std::shared_ptr<const ir::ConstantData>> constants_;
};

}  // namespace rondo
