// ServedPlan: a loaded version of a model: its plan, a pool of sessions with a thread each, and the queue in
// front of them.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/plan.h"
#include "tools/serve/backend.h"
#include "tools/serve/batch_form.h"
#include "tools/serve/batch_runner.h"
#include "tools/serve/job_queue.h"
#include "tools/serve/model_counts.h"

namespace rondo::serve {

struct PoolOptions {
  uint32_t sessions = 1;
  size_t queue = 256;                        // requests that may wait
  std::chrono::microseconds batch_delay{0};  // how long a run waits for more rows
  bool join = true;                          // join rows of several requests
};

// The bytes that a plan states it needs with `sessions` sessions, on all devices. `memory_limit`: of
// SessionOptions, to which the sessions keep.
uint64_t StatedBytes(const PlanData& plan, uint32_t sessions, uint64_t memory_limit = 0);

class ServedPlan {
 public:
  // Makes the sessions. `counts` must outlive it.
  static Result<std::unique_ptr<ServedPlan>> Load(const Backend& backend, const Plan& plan,
                                                  const PoolOptions& options, ModelCounts* counts);
  ~ServedPlan();  // drains first

  const Plan& plan() const { return plan_; }
  const std::vector<BatchForm>& forms() const { return forms_; }
  JobQueue::Added Add(std::unique_ptr<InferJob>* job) { return queue_.Add(job); }
  size_t waiting() const { return queue_.size(); }
  // Accepts no more requests, and returns when the accepted ones are answered.
  void Drain();

 private:
  ServedPlan(const Backend& backend, const Plan& plan, const PoolOptions& options, ModelCounts* counts);
  void Work(BatchRunner* runner);
  void Answer(BatchRunner* runner, std::vector<std::unique_ptr<InferJob>> batch);

  const Backend& backend_;
  const Plan plan_;
  const PoolOptions options_;
  ModelCounts* const counts_;
  std::vector<BatchForm> forms_;
  JobQueue queue_;
  std::vector<std::unique_ptr<BatchRunner>> runners_;
  std::vector<std::thread> threads_;
};

}  // namespace rondo::serve
