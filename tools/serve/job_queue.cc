#include "tools/serve/job_queue.h"

namespace rondo::serve {

namespace {

// Whether nobody needs to be told: the server has answered 504, or the client has gone.
bool IsDead(const InferJob& job) { return job.deadline <= Clock::now() || job.unwanted(); }

void End(std::vector<std::unique_ptr<InferJob>>* dead) {
  for (auto& job : *dead)
    job->done(job.get(), Status::Error(Code::kDeadlineExceeded,
                                       "the deadline passed while the request waited for a session"));
  dead->clear();
}

// Whether `job` may join the others in a run.
bool Fits(const std::vector<std::unique_ptr<InferJob>>& batch, int64_t rows, const InferJob& job) {
  if (batch.empty()) return true;
  const BatchForm& form = *batch.front()->form;
  if (job.form != &form || !form.joins() || rows + job.rows() > form.most_rows()) return false;
  if (batch.size() == kMostParts) return false;
  for (uint32_t l = 0; l < form.family.lengths().size(); ++l)
    if (l != form.rows && job.choice.lengths[l] != batch.front()->choice.lengths[l]) return false;
  return true;
}

bool IsFull(const std::vector<std::unique_ptr<InferJob>>& batch, int64_t rows) {
  const BatchForm& form = *batch.front()->form;
  return !form.joins() || rows >= form.most_rows() || batch.size() == kMostParts;
}

}  // namespace

JobQueue::Added JobQueue::Add(std::unique_ptr<InferJob>* job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return Added::kClosed;
    if (jobs_.size() >= limit_) return Added::kFull;
    const Clock::time_point deadline = (*job)->deadline;
    jobs_.emplace(deadline, std::move(*job));
  }
  changed_.notify_all();
  return Added::kYes;
}

// Called with the lock held.
void JobQueue::TakeFitting(std::vector<std::unique_ptr<InferJob>>* batch, int64_t* rows,
                           std::vector<std::unique_ptr<InferJob>>* dead) {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    InferJob& job = *it->second;
    const bool is_dead = IsDead(job);
    if (!is_dead && !Fits(*batch, *rows, job)) {
      ++it;
      continue;
    }
    if (!is_dead && job.form->joins()) *rows += job.rows();
    (is_dead ? dead : batch)->push_back(std::move(it->second));
    it = jobs_.erase(it);
    if (!batch->empty() && IsFull(*batch, *rows)) return;
  }
}

std::vector<std::unique_ptr<InferJob>> JobQueue::Take(std::chrono::microseconds delay) {
  std::vector<std::unique_ptr<InferJob>> batch, dead;
  int64_t rows = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (batch.empty()) {
    changed_.wait(lock, [&] { return closed_ || !jobs_.empty(); });
    if (jobs_.empty()) return batch;
    TakeFitting(&batch, &rows, &dead);
    if (dead.empty()) continue;
    lock.unlock();
    End(&dead);
    lock.lock();
  }
  const Clock::time_point until = Clock::now() + delay;
  while (!IsFull(batch, rows) && !closed_ && delay.count() > 0) {
    if (changed_.wait_until(lock, until) == std::cv_status::timeout) break;
    TakeFitting(&batch, &rows, &dead);
  }
  lock.unlock();
  End(&dead);
  return batch;
}

void JobQueue::Close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

size_t JobQueue::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.size();
}

}  // namespace rondo::serve
