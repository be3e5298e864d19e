// Plan: a plan file that has been read, verified and checked, ready to be asked about and run.
//
// A Plan is a handle to shared, immutable contents: copying it is cheap, copies may be used from any
// thread at once, and the contents (with everything data() points to) live until the last copy, and
// the last session made from it, is gone. Opening touches no device.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "core/arena.h"
#include "core/log.h"
#include "core/plan.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

struct PlanImpl;

inline constexpr uint64_t kMapWeightsFrom = uint64_t{256} << 20;
inline constexpr uint64_t kReadWeights = ~uint64_t{0};

struct PlanOptions {
  // Where host memory comes from; null: RuntimeHostAllocator(). Copied; its `user` must outlive the plan.
  const HostAllocator* allocator = nullptr;
  LogHook log;                 // its `user` must outlive the call that the options are passed to
  bool ignore_hashes = false;  // read a damaged file anyway; everything else is still verified
  // Weights of a file smaller than this are read into memory and hashed, and the file may change afterwards;
  // larger ones are mapped. 0: always map; kReadWeights: always read.
  uint64_t map_weights_from = kMapWeightsFrom;
  // The plan's name in metrics; copied. Empty: the file's name, without its folder.
  std::string_view name;
};

class Plan {
 public:
  // An empty handle: only valid(), assignment and destruction are allowed.
  Plan() = default;
  Plan(const Plan& other);
  Plan(Plan&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Plan& operator=(Plan other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~Plan();

  // Reads, verifies and checks the plan in file `path`. If the file changes meanwhile, the result is an
  // error, or the file as it was. Afterwards only mapped weights (PlanOptions::map_weights_from) are still
  // read, from the plan's file or the weights file beside it. While the plan lives, whatever is written into
  // that file shows in results; if it is shortened, the next access to the missing part ends the process with
  // SIGBUS. Session::Create refuses a plan whose mapped file has changed. A file that is renamed, unlinked,
  // or replaced by renaming another over it stays intact for those that have it open. Errors: kIo, kCorrupt
  // (with the section, offset and limit), kUnsupported (another major version), kOutOfMemory.
  static Result<Plan> Open(const char* path, const PlanOptions& options = {});
  // The same from `bytes` in memory, which stay the caller's and must outlive the plan. Weights in a separate
  // file are refused.
  static Result<Plan> Open(Span<const uint8_t> bytes, const PlanOptions& options = {});
  // A plan made in memory. `data` and all it points to, and `weights` (the bytes of its kBytes
  // constants), stay the caller's and must outlive the plan. Verified and checked like a file.
  static Result<Plan> FromData(const PlanData& data, Span<const uint8_t> weights,
                               const PlanOptions& options = {});

  bool valid() const { return impl_ != nullptr; }
  // Whether both are handles to the same opened plan.
  bool same(const Plan& other) const { return impl_ == other.impl_; }
  // Identifies what the plan computes, weights included, as the file states it; 0 for a plan from PlanData.
  uint64_t contents_hash() const;
  // Its name in metrics (PlanOptions::name); "" for a plan from memory without one.
  std::string_view name() const;
  // Everything in the plan: requirements, programs, buffers, kernels. Needs nothing loaded.
  const PlanData& data() const;
  // The index of the program called `name`, or kNotFound with the known names.
  Result<uint32_t> FindProgram(std::string_view name) const;
  // The bytes of the weights section (or file); empty when all weights are synthetic.
  Span<const uint8_t> weights() const;
  // OK, or an error that names the file that weights are mapped from, if it has changed since Open
  // (PlanWeights::CheckUnchanged). Any thread.
  Status CheckUnchanged() const;
  // The ONNX nodes that step `step` of `program` came from; "" when unknown or out of range.
  std::string_view StepSource(uint32_t program, uint32_t step) const;

 private:
  // The file, or `bytes` if `path` is null.
  static Result<Plan> OpenEither(const char* path, Span<const uint8_t> bytes, const PlanOptions& options);
  friend struct UncheckedPlan;  // verify/unchecked_plan.h
  explicit Plan(PlanImpl* impl) : impl_(impl) {}
  static void Unref(PlanImpl* impl);
  PlanImpl* impl_ = nullptr;
};

}  // namespace rondo
