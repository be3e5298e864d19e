// Reading plan files: container, hashes and flatbuffer become core's plain data.
//
// What is checked here: magic and version, sizes and places of all sections, hashes, the structure of
// the flatbuffer. What the data means is checked by VerifyPlan (verifier.h) and CheckPlan
// (check/checker.h); LoadPlanFile does all three. Nothing here throws, and no bytes of a file, however
// damaged, make it crash or take more memory than a small multiple of the flatbuffers section.
#pragma once

#include <cstdint>
#include <utility>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/weights.h"

namespace rondo {

// Weights of so many bytes are not read unless somebody asks for it.
inline constexpr uint64_t kLargeWeights = uint64_t{256} << 20;

struct ReadOptions {
  // Damaged files may be tried past the integrity check; everything else is still verified.
  bool ignore_hashes = false;
  // Weights of at most this many bytes are hashed when the plan is opened. Larger ones are not, so that
  // opening stays fast: PlanWeights::CheckHash does it on request. A separate weights file must in any
  // case say in its header the very size and hash that the plan recorded.
  uint64_t hash_weights_up_to = kLargeWeights;
  // Where memory needed only while reading comes from.
  HostAllocator allocator = DefaultHostAllocator();
};

// A plan as read. `data` points into the Arena given to the reader.
struct PlanFile {
  PlanData data;
  PlanWeights weights;
  uint64_t file_bytes = 0;        // of the plan file
  uint64_t flatbuffer_bytes = 0;  // of its flatbuffers section
  // Of its flatbuffers and machine code sections, as recorded: names this plan's contents, weights aside.
  uint64_t contents_hash = 0;
};

// `bytes` is a whole plan file with its weights inside; they must outlive the weights of `plan`, which is
// new. Errors: kCorrupt (not a plan, cut short, hash mismatch), kUnsupported (other major version),
// kOutOfMemory.
Status ReadPlan(Span<const uint8_t> bytes, const ReadOptions& options, Arena& arena, PlanFile* plan);

// Also: kNotFound (no such file, or its weights file is missing), kIo.
Status OpenPlanFile(const char* path, const ReadOptions& options, Arena& arena, PlanFile* plan);

// OpenPlanFile, then VerifyPlan and CheckPlan: what passes is safe to run.
Status LoadPlanFile(const char* path, const ReadOptions& options, Arena& arena, PlanFile* plan);

// The same, by value. The runtime does without: moving so much is code.
inline Result<PlanFile> ReadPlan(Span<const uint8_t> bytes, const ReadOptions& options, Arena& arena) {
  PlanFile plan;
  RONDO_RETURN_IF_ERROR(ReadPlan(bytes, options, arena, &plan));
  return Result<PlanFile>(std::move(plan));
}
inline Result<PlanFile> OpenPlanFile(const char* path, const ReadOptions& options, Arena& arena) {
  PlanFile plan;
  RONDO_RETURN_IF_ERROR(OpenPlanFile(path, options, arena, &plan));
  return Result<PlanFile>(std::move(plan));
}
inline Result<PlanFile> LoadPlanFile(const char* path, const ReadOptions& options, Arena& arena) {
  PlanFile plan;
  RONDO_RETURN_IF_ERROR(LoadPlanFile(path, options, arena, &plan));
  return Result<PlanFile>(std::move(plan));
}

}  // namespace rondo
