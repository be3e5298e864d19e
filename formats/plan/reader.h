// Reads plan files: container, hashes and flatbuffer become core's plain data.
//
// Checks magic and version, sizes and places of all sections, hashes, and the structure of the flatbuffer.
// VerifyPlan (verifier.h) and CheckPlan (check/checker.h) check what the data means; LoadPlanFile does all
// three. Nothing here throws. No file, however damaged, makes it crash or take more memory than a small
// multiple of the flatbuffers section.
#pragma once

#include <cstdint>
#include <utility>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/weights.h"

namespace rondo {

// Weights of more bytes than this are only hashed on request.
inline constexpr uint64_t kLargeWeights = uint64_t{256} << 20;

struct ReadOptions {
  // Reads damaged files despite wrong hashes; everything else is still verified.
  bool ignore_hashes = false;
  // Weights of at most this many bytes are hashed when the plan is opened. Larger ones are not, so that
  // opening stays fast: call PlanWeights::CheckHash. The header of a separate weights file must always state
  // the size and hash that the plan recorded.
  uint64_t hash_weights_up_to = kLargeWeights;
  // The allocator for memory that is needed only while reading.
  HostAllocator allocator = DefaultHostAllocator();
};

// A plan as read. `data` points into the Arena given to the reader.
struct PlanFile {
  PlanData data;
  PlanWeights weights;
  uint64_t file_bytes = 0;        // of the plan file
  uint64_t flatbuffer_bytes = 0;  // of its flatbuffers section
  // Hash of its flatbuffers and machine code sections, as recorded: identifies this plan, weights aside.
  uint64_t contents_hash = 0;
};

// `bytes` is a whole plan file with its weights inside, and must outlive the weights of `plan`, which is a
// new object. Errors: kCorrupt (not a plan, cut short, hash mismatch), kUnsupported (other major version),
// kOutOfMemory.
Status ReadPlan(Span<const uint8_t> bytes, const ReadOptions& options, Arena& arena, PlanFile* plan);

// Also: kNotFound (no such file, or its weights file is missing), kIo.
Status OpenPlanFile(const char* path, const ReadOptions& options, Arena& arena, PlanFile* plan);

// OpenPlanFile, then VerifyPlan and CheckPlan: what passes is safe to run.
Status LoadPlanFile(const char* path, const ReadOptions& options, Arena& arena, PlanFile* plan);

// The same, returned by value. The runtime does not use these: moving the object takes code.
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
