// RoundTrip: writes a hand-made plan as the bytes of a file and reads it from them.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "formats/plan/encode.h"
#include "formats/plan/reader.h"
#include "tests/plan/sample_plan.h"

namespace rondo {

// Expects that no field is lost. The result lives as long as `arena`.
inline Result<PlanFile> RoundTrip(const Sample& sample, Arena& arena) {
  std::vector<uint8_t> bytes, before, after;
  const auto fill = [&](uint32_t buffer, uint64_t first, uint64_t count, uint8_t* out) {
    return FillSample(sample.data, buffer, first, count, out);
  };
  RONDO_RETURN_IF_ERROR(WritePlanBytes(sample.data, fill, &bytes));
  RONDO_ASSIGN_OR_RETURN(PlanFile read, ReadPlan(arena.Copy(bytes), {}, arena));
  RONDO_RETURN_IF_ERROR(EncodePlan(sample.data, &before));
  RONDO_RETURN_IF_ERROR(EncodePlan(read.data, &after));
  EXPECT_EQ(before, after);
  return read;
}

}  // namespace rondo
