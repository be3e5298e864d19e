// Copies: steps of a plan that only move bytes, and the reason for each. Also the reasons why donated inputs
// were not reused.
//
// Reasons are texts of the plan that nothing refers to: PlanData::sources has `copy in step 3 of "main":
// REASON`, `donated input "x" of "main": REASON`. The compiler writes them for tools; the runtime ignores
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/plan.h"

namespace rondo {

// Whether a part of a kernel only moves elements, none of them through an index from data.
inline bool OnlyMoves(const Part& part) {
  const auto moves = [](const TapeInst& inst) {
    return inst.op == TapeOp::kLoad || inst.op == TapeOp::kStore;
  };
  const auto fixed = [](const Operand& operand) { return operand.indirects.empty(); };
  return part.skeleton == Skeleton::kMap && std::all_of(part.body.begin(), part.body.end(), moves) &&
         std::all_of(part.operands.begin(), part.operands.end(), fixed);
}

// The text before a reason.
inline std::string CopyInStep(std::string_view program, uint32_t step) {
  return "copy in step " + std::to_string(step) + " of \"" + std::string(program) + "\": ";
}

inline std::string DonatedInput(std::string_view program, std::string_view input) {
  return "donated input \"" + std::string(input) + "\" of \"" + std::string(program) + "\": ";
}

// The rest of the plan's text that starts with `begins`; "" if there is none.
inline std::string_view ReasonAfter(const PlanData& plan, const std::string& begins) {
  for (std::string_view source : plan.sources) {
    if (source.substr(0, begins.size()) == begins) return source.substr(begins.size());
  }
  return {};
}

// Why step `step` of `program` copies; "" if the plan does not say.
inline std::string_view WhyCopied(const PlanData& plan, const Program& program, uint32_t step) {
  return ReasonAfter(plan, CopyInStep(program.name, step));
}

// Why no buffer uses the memory of the donated input `input` of `program`; "" if one does, or if the input
// was not donated.
inline std::string_view WhyKept(const PlanData& plan, const Program& program, std::string_view input) {
  return ReasonAfter(plan, DonatedInput(program.name, input));
}

}  // namespace rondo
