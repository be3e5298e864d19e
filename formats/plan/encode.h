// From PlanData to the bytes of the flatbuffers section.
#ifndef RONDO_FORMATS_PLAN_ENCODE_H_
#define RONDO_FORMATS_PLAN_ENCODE_H_

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// The same plan gives the same bytes. Error: kInvalidArgument if it is too large for the section.
Status EncodePlan(const PlanData& plan, std::vector<uint8_t>* out);

}  // namespace rondo

#endif  // RONDO_FORMATS_PLAN_ENCODE_H_
