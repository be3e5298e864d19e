// BatchRunner: a session of a plan's pool. It runs jobs that go together in the smallest program that holds
// them.
//
// Used by one thread. Keeps the memory for padding.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "runtime/buckets/bucket_session.h"
#include "runtime/session.h"
#include "tools/serve/infer_job.h"

namespace rondo::serve {

class BatchRunner {
 public:
  BatchRunner(const Runtime& runtime, const Plan& plan, const SessionOptions& options)
      : runtime_(runtime), plan_(plan), options_(options) {}

  // Makes the session.
  Status Open();
  // Allocates memory for jobs of these forms, in place of earlier ones. The forms must outlive it.
  void Prepare(const std::vector<BatchForm>& forms);
  // Runs the jobs and fills in their outputs. An error concerns all of them.
  Status Run(const std::vector<std::unique_ptr<InferJob>>& batch);

 private:
  Status RunOnce(const std::vector<std::unique_ptr<InferJob>>& batch);

  const Runtime& runtime_;
  const Plan& plan_;
  const SessionOptions options_;
  Session session_;
  std::map<const BatchForm*, std::unique_ptr<BucketSession>> forms_;
};

}  // namespace rondo::serve
