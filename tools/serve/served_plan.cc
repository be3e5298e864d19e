#include "tools/serve/served_plan.h"

#include <algorithm>

#include "tools/serve/row_trial.h"

namespace rondo::serve {

uint64_t StatedBytes(const PlanData& plan, uint32_t sessions, uint64_t memory_limit) {
  uint64_t bytes = 0;
  for (const DeviceBytes& device : plan.requirements.devices) {
    const uint64_t session = device.arena + device.state;
    bytes += device.weights + device.communicator +
             sessions * (memory_limit == 0 ? session : std::min(session, memory_limit));
  }
  return bytes;
}

ServedPlan::ServedPlan(const Backend& backend, const Plan& plan, const PoolOptions& options,
                       ModelCounts* counts)
    : backend_(backend), plan_(plan), options_(options), counts_(counts), queue_(options.queue) {}

Result<std::unique_ptr<ServedPlan>> ServedPlan::Load(const Backend& backend, const Plan& plan,
                                                     const PoolOptions& options, ModelCounts* counts) {
  RONDO_RETURN_IF_ERROR(backend.runtime().Supports(plan));
  std::unique_ptr<ServedPlan> served(new ServedPlan(backend, plan, options, counts));
  for (uint32_t i = 0; i < options.sessions; ++i) {
    served->runners_.push_back(
        std::make_unique<BatchRunner>(backend.runtime(), served->plan_, backend.session_options()));
    RONDO_RETURN_IF_ERROR(served->runners_.back()->Open());
  }
  const PlanData& data = served->plan_.data();
  RONDO_ASSIGN_OR_RETURN(served->forms_, FindBatchForms(data, options.join));
  if (options.join) RONDO_RETURN_IF_ERROR(KeepJoiningRows(data, served->runners_[0].get(), &served->forms_));
  for (auto& runner : served->runners_) runner->Prepare(served->forms_);
  for (auto& runner : served->runners_)
    served->threads_.emplace_back([raw = served.get(), one = runner.get()] { raw->Work(one); });
  return served;
}

ServedPlan::~ServedPlan() { Drain(); }

void ServedPlan::Drain() {
  queue_.Close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ServedPlan::Work(BatchRunner* runner) {
  for (;;) {
    std::vector<std::unique_ptr<InferJob>> batch = queue_.Take(options_.batch_delay);
    if (batch.empty()) return;
    Answer(runner, std::move(batch));
  }
}

void ServedPlan::Answer(BatchRunner* runner, std::vector<std::unique_ptr<InferJob>> batch) {
  const Clock::time_point start = Clock::now();
  Status status = runner->Run(batch);
  counts_->runs.fetch_add(1, std::memory_order_relaxed);
  counts_->joined.fetch_add(batch.size() - 1, std::memory_order_relaxed);
  // If one request's data may be at fault, each request runs alone.
  const bool alone = !status.ok() && batch.size() > 1 && status.code() == Code::kOutOfRange;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (alone) {
      std::vector<std::unique_ptr<InferJob>> one;
      one.push_back(std::move(batch[i]));
      status = runner->Run(one);
      batch[i] = std::move(one[0]);
    }
    counts_->waited.Add(start - batch[i]->arrived);
    batch[i]->done(batch[i].get(), status);
  }
}

}  // namespace rondo::serve
