// BatchRunner: a session of a plan's pool, which runs jobs that go together: their rows one behind the other,
// the rest of the program's rows filled up with copies of the first.
//
// One thread. Keeps the memory of one batch.
#pragma once

#include <memory>
#include <vector>

#include "runtime/session.h"
#include "tools/serve/infer_job.h"

namespace rondo::serve {

class BatchRunner {
 public:
  BatchRunner(const Runtime& runtime, const Plan& plan, const SessionOptions& options)
      : runtime_(runtime), plan_(plan), options_(options) {}

  // Makes the session.
  Status Open();
  // Runs them and fills in their outputs; the error, if any, is of all of them.
  Status Run(const std::vector<std::unique_ptr<InferJob>>& batch);

 private:
  Status RunOnce(const std::vector<std::unique_ptr<InferJob>>& batch, const SizedProgram& program);

  const Runtime& runtime_;
  const Plan& plan_;
  const SessionOptions options_;
  Session session_;
  std::vector<std::vector<uint8_t>> inputs_, outputs_;
};

}  // namespace rondo::serve
