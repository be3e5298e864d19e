// The granularity of GPU memory: drivers allocate in these steps, and plans state their memory by them
// (formats/plan/device_memory.h). Pure functions.
#pragma once

#include <cstdint>

namespace rondo {

inline constexpr uint64_t kDeviceStep = 2 << 20;  // bytes; CUDA allocates memory in multiples of it
inline constexpr uint64_t kDevicePage = 4 << 10;  // bytes; small blocks begin at multiples of it
// Blocks of up to this many bytes share a step; larger ones have steps of their own.
inline constexpr uint64_t kSmallBlock = kDeviceStep / 2;

constexpr uint64_t InUnits(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }
constexpr uint64_t InDeviceSteps(uint64_t bytes) { return InUnits(bytes, kDeviceStep); }

}  // namespace rondo
