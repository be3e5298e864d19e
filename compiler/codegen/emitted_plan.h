// EmittedPlan: a plan in memory with everything that it points to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/arena.h"
#include "core/plan.h"
#include "core/span.h"

namespace rondo {

// Movable; what `plan` points to stays where it is. Immutable once made, so safe to read from any thread.
struct EmittedPlan {
  PlanData plan;
  // For each buffer: the bytes of a constant that is stored as bytes, otherwise empty. Constants of equal
  // content are one buffer.
  std::vector<Span<const uint8_t>> constant_bytes;
  std::vector<std::optional<uint32_t>> library;   // one a kernel: LoweredOp::library
  std::shared_ptr<Arena> arena;                   // texts, buffers, steps
  std::vector<std::shared_ptr<const void>> keep;  // kernels, weights in memory or mapped
};

// The bytes of the plan's weights section or file: plan.weights_bytes bytes.
std::vector<uint8_t> AssembleWeights(const EmittedPlan& emitted);

}  // namespace rondo
