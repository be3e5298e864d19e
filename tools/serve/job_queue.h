// JobQueue: requests that wait for a session, the earliest deadline first.
//
// Any thread. Those whose deadline has passed, and those that nobody waits for, end when they are met.
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
  // `*job` is taken if kYes, and stays otherwise.
  Added Add(std::unique_ptr<InferJob>* job);
  // Jobs that one run of their form takes: the first, and those behind it that fit, for which it waits up to
  // `delay` while there is room. Empty: the queue is closed and has none.
  std::vector<std::unique_ptr<InferJob>> Take(std::chrono::microseconds delay);
  // No more are added; those that are there are taken still.
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
