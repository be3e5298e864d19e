// Texts and numbers about parts of a plan, which reports, JSON, pages and messages share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "formats/plan/overlap_note.h"

namespace rondo::tools {

bool LivesInArena(BufferKind kind);
// "f32[2, 3]"
std::string TypeText(const Buffer& buffer);
std::string SourceText(const PlanData& plan, uint32_t source);
// "matmul", "map x3", "map + reduction"
std::string SkeletonText(const Kernel& kernel);
// "cuBLASLt 512 x 4096 x 14336 bf16, addend, workspace 32.0 MiB": M, N and K.
std::string MatmulText(const LibraryMatmul& matmul);
// "domain.Name".
std::string CustomOpText(const CustomOp& op);
// What a step runs: its kernel, its custom op or its kind.
std::string StepText(const PlanData& plan, const Step& step);
// " if #3 and not #4": the buffers with the conditions of the step's parts, with " / " between parts; one of
// them may run "always". Empty if the step always runs.
std::string ConditionsText(const PlanData& plan, const Step& step);
// "bytes (lower bound: bytes, 103.1 %)"
std::string ArenaText(uint64_t bytes, uint64_t lower_bound);
// Arena bytes in percent of the bound; 100 when both are 0.
double PercentOfBound(uint64_t bytes, uint64_t lower_bound);
// The compiler's notes on the program's collectives.
std::vector<OverlapNote> OverlapsOf(const PlanData& plan, const Program& program);
// The first step that launches each kernel, over all programs; null for kernels that no step launches.
std::vector<const Step*> FirstUses(const PlanData& plan, std::vector<uint32_t>* counts);

}  // namespace rondo::tools
