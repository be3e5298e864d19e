// The contents behind a Plan handle. Internal to runtime/.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/arena.h"
#include "core/span.h"
#include "formats/plan/reader.h"

namespace rondo {

struct PlanImpl {
  explicit PlanImpl(const HostAllocator& a) : allocator(a), memory(a) {}

  HostAllocator allocator;
  Arena memory;  // owns what `file.data` points to
  std::string_view name;
  bool ignore_hashes = false;
  PlanFile file;
  Span<const uint8_t> weights;
  std::atomic<uint32_t> refs{1};
};

}  // namespace rondo
