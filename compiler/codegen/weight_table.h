// WeightTable: numbers the distinct constants of a plan.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo {

// Numbers constants in the order in which they are first added. Constants are equal if dtype, shape and bytes
// (by xxh3-128) are, or, for synthetic ones, dtype, shape, key and scale. Everything added must outlive the
// table.
class WeightTable {
 public:
  uint32_t Add(const std::shared_ptr<const ir::ConstantData>& constant);
  const std::vector<std::shared_ptr<const ir::ConstantData>>& constants() const { return constants_; }

 private:
  // dtype, rank, dims, source, and up to four words of content.
  using Key = std::array<uint64_t, kMaxRank + 7>;
  static Key KeyOf(const ir::ConstantData& constant);
  std::map<const ir::ConstantData*, uint32_t> by_address_;  // avoids hashing a constant again
  std::map<Key, uint32_t> by_content_;
  std::vector<std::shared_ptr<const ir::ConstantData>> constants_;
};

}  // namespace rondo
