// LanguageModel: one version of a decoder, loaded: sessions whose slots hold a text each, and the texts that
// wait for one.
//
// Each session has a thread: a loop of steps. Between any two of them texts join free slots and leave theirs;
// prompts are read in chunks where the plan has a program for that, beside the texts that are generated.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tools/serve/backend.h"
#include "tools/serve/model_counts.h"
#include "tools/serve/model_texts.h"
#include "tools/serve/served_plan.h"
#include "tools/serve/slot_session.h"
#include "tools/serve/text_job.h"

namespace rondo::serve {

class LanguageModel {
 public:
  // Whether the plan is a decoder at all.
  static bool IsOne(const PlanData& plan);
  // `folder`: of the model's texts, or "". `counts` must outlive it.
  static Result<std::unique_ptr<LanguageModel>> Load(const Backend& backend, const Plan& plan,
                                                     const PoolOptions& options, const std::string& python,
                                                     const std::string& folder, ModelCounts* counts);
  ~LanguageModel();  // drains

  ModelTexts& texts() { return *texts_; }
  int64_t words() const { return sessions_[0]->words(); }
  int64_t context() const { return sessions_[0]->context(); }
  int64_t slots() const { return sessions_[0]->slots() * std::ssize(sessions_); }
  // Runs `task`, which may wait for texts() and add jobs, on a thread for that.
  JobQueue::Added Post(std::function<void()> task);
  // `*job` is taken if kYes, and stays otherwise.
  JobQueue::Added Add(std::unique_ptr<TextJob>* job);
  size_t waiting() const;
  // Takes no text any more, and returns when those it has have ended.
  void Drain();

 private:
  class Engine;
  LanguageModel(const PoolOptions& options, ModelCounts* counts);
  // The next text for an engine; waits for one if `idle`. Null: none, and if `idle`, there will be none.
  std::unique_ptr<TextJob> Next(bool idle);
  void ReadPrompts();

  const PoolOptions options_;
  ModelCounts* const counts_;
  std::unique_ptr<ModelTexts> texts_;
  std::mutex decoding_;  // of texts_->Decode
  std::vector<std::unique_ptr<SlotSession>> sessions_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::thread> threads_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<TextJob>> jobs_;
  std::deque<std::function<void()>> tasks_;
  std::thread reader_;
  bool closed_ = false;  // no task is taken
  bool ending_ = false;  // nor a job
};

}  // namespace rondo::serve
