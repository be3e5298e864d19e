// LanguageModel: a loaded version of a decoder: sessions with a slot for each text, and the texts that wait
// for a slot.
//
// Each session has a thread with a loop of steps. Texts join free slots and leave them between any two steps.
// If the plan has a program for chunks, prompts are read in chunks beside the texts that are generated.
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
  // `folder`: the folder with the model's text files, or "". `counts` must outlive it.
  static Result<std::unique_ptr<LanguageModel>> Load(const Backend& backend, const Plan& plan,
                                                     const PoolOptions& options, const std::string& python,
                                                     const std::string& folder, ModelCounts* counts);
  ~LanguageModel();  // drains

  ModelTexts& texts() { return *texts_; }
  int64_t words() const { return sessions_[0]->words(); }
  int64_t context() const { return sessions_[0]->context(); }
  int64_t slots() const { return sessions_[0]->slots() * std::ssize(sessions_); }
  // Runs `task` on a separate thread. The task may wait for texts() and add jobs.
  JobQueue::Added Post(std::function<void()> task);
  // `*job` is moved from if the result is kYes; otherwise it stays.
  JobQueue::Added Add(std::unique_ptr<TextJob>* job);
  size_t waiting() const;
  // Accepts no more texts, and returns when the accepted ones have ended.
  void Drain();

 private:
  class Engine;
  LanguageModel(const PoolOptions& options, ModelCounts* counts);
  // The next text for an engine; waits for one if `idle`. Null: none is waiting; with `idle`, none will come.
  std::unique_ptr<TextJob> Next(bool idle);
  void ReadPrompts();

  const PoolOptions options_;
  ModelCounts* const counts_;
  std::unique_ptr<ModelTexts> texts_;
  std::mutex decoding_;  // for texts_->Decode
  std::vector<std::unique_ptr<SlotSession>> sessions_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<std::thread> threads_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<TextJob>> jobs_;
  std::deque<std::function<void()>> tasks_;
  std::thread reader_;
  bool closed_ = false;  // no more tasks are accepted
  bool ending_ = false;  // no more jobs are accepted
};

}  // namespace rondo::serve
