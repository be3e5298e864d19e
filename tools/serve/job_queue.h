// JobQueue: requests that wait for a session, earliest deadline first.
//
// May be used by any thread. A request ends when the queue comes to it and its deadline has passed, or nobody
// waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/serve/infer_job.h"

namespace rondo::serve {

class JobQueue {
 public:
  explicit JobQueue(size_t limit) : limit_(limit) {}

  enum class Added { kYes, kFull, kClosed };
  // `*job` is moved from if the result is kYes; otherwise it stays.
  Added Add(std::unique_ptr<InferJob>* job);
  // Takes the jobs of one run of their form: the first job, and later ones that fit. While there is room, it
  // waits up to `delay` for more. Empty: the queue is closed and has no jobs.
  std::vector<std::unique_ptr<InferJob>> Take(std::chrono::microseconds delay);
  // No more jobs are accepted; those in the queue can still be taken.
  void Close();
  size_t size() const;

 private:
  void TakeFitting(std::vector<std::unique_ptr<InferJob>>* batch, int64_t* rows,
                   std::vector<std::unique_ptr<InferJob>>* dead);

  const size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::unique_ptr<InferJob>> jobs_;
  bool closed_ = false;
};

}  // namespace rondo::serve
