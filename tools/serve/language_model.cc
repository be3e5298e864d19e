#include "tools/serve/language_model.h"

#include <algorithm>
#include <atomic>

#include "tools/serve/stop_texts.h"

namespace rondo::serve {

namespace {

// A new number for each text of the process.
uint64_t NextStream() {
  static std::atomic<uint64_t> next{0};
  return ++next;
}

}  // namespace

// One session's loop.
class LanguageModel::Engine {
 public:
  Engine(LanguageModel* model, SlotSession* session)
      : model_(model), session_(session), slots_(static_cast<size_t>(session->slots())) {}

  void Loop() {
    while (Admit()) Step();
  }

 private:
  struct Slot {
    std::unique_ptr<TextJob> job;  // null: the slot is free
    uint64_t stream = 0;
    Tokens tokens;     // the prompt's, then the drawn ones
    int64_t read = 0;  // how many of them were read
    int64_t drawn = 0;
    tools::Sampler sampler;
    StopTexts stops;
    TextGrammars::Next next;  // for a text with a grammar
  };

  size_t Busy() const {
    return static_cast<size_t>(
        std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.job != nullptr; }));
  }

  // Fills free slots with waiting texts. False: there is nothing to do, and nothing will come.
  bool Admit() {
    for (Slot& slot : slots_) {
      if (slot.job != nullptr) continue;
      const bool idle = Busy() == 0;
      std::unique_ptr<TextJob> job = model_->Next(idle);
      if (job == nullptr) return !idle;
      if (const Status status = session_->Begin(); !status.ok()) {
        TextEnd end;
        end.status = status;
        job->end(end);
        continue;
      }
      model_->counts_->waited.Add(Clock::now() - job->arrived);
      slot = Slot();
      slot.stream = NextStream();
      slot.tokens = job->prompt;
      slot.sampler = tools::Sampler(job->sampling, job->prompt);
      slot.stops = StopTexts(job->stops);
      slot.job = std::move(job);
    }
    return true;
  }

  void Step() {
    DropUnwanted();
    if (Busy() == 0) return;
    std::vector<int64_t> pending, positions;
    Clock::time_point last = Clock::now();
    for (const Slot& slot : slots_) {
      pending.push_back(slot.job == nullptr ? 0 : std::ssize(slot.tokens) - slot.read);
      positions.push_back(slot.job == nullptr ? 0 : slot.read);
      if (slot.job != nullptr) last = std::max(last, slot.job->deadline);
    }
    // A chunk of one prompt delays the texts generated beside it, so a run of single tokens comes between
    // two.
    const bool others = Busy() > 1 && chunk_before_;
    const SlotSession::Choice choice = session_->Choose(pending, positions, !others);
    chunk_before_ = choice.is_chunk;
    std::vector<SlotInput> inputs;
    for (size_t i = 0; i < slots_.size(); ++i)
      inputs.push_back({&slots_[i].tokens, slots_[i].read, choice.counts[i], positions[i]});
    const std::chrono::nanoseconds left = std::clamp<std::chrono::nanoseconds>(
        last - Clock::now(), std::chrono::nanoseconds(1), std::chrono::hours(1));
    const Status status = session_->Run(choice.program, inputs, static_cast<uint64_t>(left.count()));
    model_->counts_->runs.fetch_add(1, std::memory_order_relaxed);
    if (!status.ok()) return Fail(status);
    std::vector<size_t> came;
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (choice.counts[i] == 0) continue;
      slot.read += choice.counts[i];
      if (slot.read == std::ssize(slot.tokens)) came.push_back(i);
    }
    Draw(choice, came);
  }

  void DropUnwanted() {
    for (Slot& slot : slots_) {
      if (slot.job == nullptr) continue;
      const bool late = slot.job->deadline <= Clock::now();
      if (!late && !slot.job->unwanted()) continue;
      End(&slot,
          late ? Status::Error(Code::kDeadlineExceeded, "the deadline passed in the text, after %lld tokens",
                               static_cast<long long>(slot.drawn))
               : Status::Error(Code::kCancelled, "nobody waits for the text"),
          "");
    }
  }

  // A drawn token of a slot.
  struct Came {
    size_t slot = 0;
    tools::DrawnToken token;
    bool is_end = false;  // an end token, which is not part of the text
    bool is_last = false;
  };

  // Draws the next token of each of these slots, and passes on its text.
  void Draw(const SlotSession::Choice& choice, const std::vector<size_t>& slots) {
    std::vector<size_t> begin;
    for (size_t i : slots) {
      if (slots_[i].drawn == 0) begin.push_back(i);
    }
    Follow(begin);
    std::vector<Came> came;
    std::vector<size_t> go_on;
    for (size_t i : slots) {
      Slot& slot = slots_[i];
      if (slot.job == nullptr) continue;
      if (slot.next.complete) {  // the grammar allows only the empty text
        End(&slot, Status::Ok(), "stop");
        continue;
      }
      session_->ReadLogits(choice.program, static_cast<int64_t>(i), choice.counts[i], &logits_);
      Came one;
      one.slot = i;
      one.token = slot.sampler.Draw(&logits_, slot.job->chances, slot.next.allowed);
      const int64_t token = one.token.token;
      if (token < 0) {
        End(&slot,
            Status::Error(Code::kOutOfRange, "a logit behind %lld tokens is NaN: no token follows from it",
                          static_cast<long long>(slot.read)),
            "");
        continue;
      }
      ++slot.drawn;
      const bool ignores_ends = slot.job->ignores_ends && slot.job->grammar == nullptr;
      one.is_end = !ignores_ends && model_->texts_->ends().count(token) != 0;
      one.is_last = one.is_end || slot.drawn >= slot.job->most_tokens || slot.read >= session_->context();
      slot.tokens.push_back(token);
      if (!one.is_end) go_on.push_back(i);
      came.push_back(std::move(one));
    }
    model_->counts_->tokens.fetch_add(came.size(), std::memory_order_relaxed);
    Follow(go_on);
    std::erase_if(came, [&](const Came& one) { return slots_[one.slot].job == nullptr; });
    for (Came& one : came) one.is_last = one.is_last || slots_[one.slot].next.complete;
    if (!came.empty()) Tell(came);
  }

  // Asks which tokens may follow the last drawn ones, for those of these texts that have a grammar.
  void Follow(const std::vector<size_t>& slots) {
    std::vector<TextGrammars::Step> steps;
    std::vector<Slot*> asked;
    for (size_t i : slots) {
      Slot& slot = slots_[i];
      if (slot.job->grammar == nullptr) continue;
      const bool begins = slot.drawn == 0;
      steps.push_back({slot.stream, begins ? slot.job->grammar.get() : nullptr,
                       begins ? Tokens{} : Tokens{slot.tokens.back()}});
      asked.push_back(&slot);
    }
    if (steps.empty()) return;
    std::vector<TextGrammars::Next> all = model_->texts_->grammars().Follow(steps);
    for (size_t i = 0; i < asked.size(); ++i) {
      asked[i]->next = std::move(all[i]);
      if (const Status status = asked[i]->next.status; !status.ok()) End(asked[i], status, "");
    }
  }

  void Tell(const std::vector<Came>& came) {
    std::vector<ModelTexts::Step> steps;
    for (const Came& one : came)
      steps.push_back(
          {slots_[one.slot].stream, one.is_end ? Tokens{} : Tokens{one.token.token}, one.is_last});
    Result<std::vector<std::string>> texts = [&] {
      const std::lock_guard<std::mutex> lock(model_->decoding_);
      return model_->texts_->Decode(steps);
    }();
    if (!texts.ok()) return Fail(texts.status());
    for (size_t i = 0; i < came.size(); ++i) {
      Slot& slot = slots_[came[i].slot];
      TextPiece piece;
      piece.text = slot.stops.Add((*texts)[i], came[i].is_last);
      const bool stops = slot.stops.stopped() || came[i].is_end || slot.next.complete;
      if (slot.job->chances >= 0 && !came[i].is_end) {
        if (const Status status = AddChances(came[i].token, &piece); !status.ok()) {
          End(&slot, status, "");
          continue;
        }
      }
      if (!piece.text.empty() || !piece.tokens.empty()) slot.job->piece(piece);
      if (!came[i].is_last && slot.stops.stopped()) Forget(slot.stream);
      if (stops || came[i].is_last) End(&slot, Status::Ok(), stops ? "stop" : "length");
    }
  }

  // Drops the tokenizer's state of a text that ends early.
  void Forget(uint64_t stream) {
    const std::lock_guard<std::mutex> lock(model_->decoding_);
    (void)model_->texts_->Decode({{stream, {}, true}});
  }

  Status AddChances(const tools::DrawnToken& drawn, TextPiece* piece) {
    Tokens tokens = {drawn.token};
    for (const auto& [token, chance] : drawn.likeliest) tokens.push_back(token);
    RONDO_ASSIGN_OR_RETURN(const std::vector<std::string> names, model_->texts_->Names(tokens));
    piece->tokens.push_back({names[0], drawn.log_probability});
    piece->likeliest.emplace_back();
    for (size_t i = 1; i < names.size(); ++i)
      piece->likeliest[0].push_back({names[i], drawn.likeliest[i - 1].second});
    return Status::Ok();
  }

  void End(Slot* slot, const Status& status, const std::string& reason) {
    TextEnd end;
    end.status = status;
    end.reason = reason;
    end.prompt_tokens = std::ssize(slot->job->prompt);
    end.tokens = slot->drawn;
    if (!status.ok()) Forget(slot->stream);
    if (slot->job->grammar != nullptr) model_->texts_->grammars().Forget(slot->stream);
    model_->counts_->prompt_tokens.fetch_add(slot->job->prompt.size(), std::memory_order_relaxed);
    slot->job->end(end);
    *slot = Slot();
  }

  // A run that fails ends all its texts.
  void Fail(const Status& status) {
    for (Slot& slot : slots_) {
      if (slot.job != nullptr) End(&slot, status, "");
    }
    (void)session_->Recover();
  }

  LanguageModel* const model_;
  SlotSession* const session_;
  std::vector<Slot> slots_;
  std::vector<float> logits_;
  bool chunk_before_ = false;
};

LanguageModel::LanguageModel(const PoolOptions& options, ModelCounts* counts)
    : options_(options), counts_(counts) {}

LanguageModel::~LanguageModel() { Drain(); }

bool LanguageModel::IsOne(const PlanData& plan) { return tools::FindDecoderForm(plan, {}).ok(); }

Result<std::unique_ptr<LanguageModel>> LanguageModel::Load(const Backend& backend, const Plan& plan,
                                                           const PoolOptions& options,
                                                           const std::string& python,
                                                           const std::string& folder, ModelCounts* counts) {
  RONDO_RETURN_IF_ERROR(backend.runtime().Supports(plan));
  std::unique_ptr<LanguageModel> model(new LanguageModel(options, counts));
  for (uint32_t i = 0; i < options.sessions; ++i) {
    RONDO_ASSIGN_OR_RETURN(auto session,
                           SlotSession::Create(backend.runtime(), plan, backend.session_options()));
    model->sessions_.push_back(std::move(session));
    model->engines_.push_back(std::make_unique<Engine>(model.get(), model->sessions_.back().get()));
  }
  RONDO_ASSIGN_OR_RETURN(model->texts_, ModelTexts::Open(python, folder, model->words()));
  for (auto& engine : model->engines_) model->threads_.emplace_back([one = engine.get()] { one->Loop(); });
  model->reader_ = std::thread([one = model.get()] { one->ReadPrompts(); });
  return model;
}

JobQueue::Added LanguageModel::Add(std::unique_ptr<TextJob>* job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ending_) return JobQueue::Added::kClosed;
    if (jobs_.size() >= options_.queue) return JobQueue::Added::kFull;
    jobs_.push_back(std::move(*job));
  }
  changed_.notify_all();
  return JobQueue::Added::kYes;
}

std::unique_ptr<TextJob> LanguageModel::Next(bool idle) {
  for (;;) {
    std::unique_ptr<TextJob> job;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (idle) changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return nullptr;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    if (!job->unwanted() && job->deadline > Clock::now()) return job;
    TextEnd end;
    end.status =
        Status::Error(Code::kDeadlineExceeded, "the deadline passed while the text waited for a slot");
    job->end(end);
  }
}

JobQueue::Added LanguageModel::Post(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return JobQueue::Added::kClosed;
    if (tasks_.size() >= options_.queue) return JobQueue::Added::kFull;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
  return JobQueue::Added::kYes;
}

void LanguageModel::ReadPrompts() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

size_t LanguageModel::waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.size() + tasks_.size();
}

void LanguageModel::Drain() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  if (reader_.joinable()) reader_.join();  // first, because the prompts that it still reads become jobs
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace rondo::serve
