// BucketSession: runs tensors of their true shape in a session of a plan with buckets.
//
//   RONDO_ASSIGN_OR_RETURN(std::unique_ptr<BucketSession> buckets, BucketSession::Create(&session));
//   RONDO_ASSIGN_OR_RETURN(auto choice, buckets->family().Choose(inputs));  // to size outputs
//   RONDO_RETURN_IF_ERROR(buckets->Run(inputs, outputs));
//
// One call at a time; another at the same moment gets kFailedPrecondition. Not movable.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "core/span.h"
#include "core/status.h"
#include "runtime/buckets/bucket_family.h"
#include "runtime/buckets/padded_tensors.h"
#include "runtime/session.h"

namespace rondo {

class BucketSession {
 public:
  // `session` must outlive it and stays the caller's, who may run its programs directly between runs.
  static Result<std::unique_ptr<BucketSession>> Create(Session* session, std::string_view family = {});
  // For a family that the caller has described: FamiliesOf.
  static std::unique_ptr<BucketSession> Create(Session* session, BucketFamily family);
  BucketSession(const BucketSession&) = delete;

  const BucketFamily& family() const { return family_; }
  uint64_t bytes() const { return tensors_.bytes(); }  // host memory for padding and cutting

  // Runs the smallest bucket that holds `inputs`, which have their true shapes; `outputs` have the sizes of
  // the run. Errors about shapes leave the session unchanged. Allocates nothing unless it fails.
  Status Run(Span<const Input> inputs, Span<const Output> outputs, const RunOptions& options = {});

  // One run of several callers' tensors, otherwise like Run: they are concatenated along the length called
  // `length` ("batch"). All other lengths are equal.
  Status RunTogether(std::string_view length, Span<const BucketPart> parts, const RunOptions& options = {});

 private:
  template <typename Prepare>
  Status RunAlone(const RunOptions& options, Prepare prepare);
  BucketSession(Session* session, BucketFamily family)
      : session_(session), family_(std::move(family)), tensors_(&family_) {}

  Session* session_;
  BucketFamily family_;
  PaddedTensors tensors_;
  std::atomic<bool> in_use_{false};
};

}  // namespace rondo
