#include "tools/serve/catalog.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "tools/rondo/report.h"
#include "tools/rondo/trusted_plan.h"

namespace rondo::serve {

void Catalog::Say(const std::string& sentence) const {
  if (!options_.silent) std::fprintf(stderr, "rondo serve: %s\n", sentence.c_str());
}

namespace {

std::string Describe(const LoadedModel& model) {
  const std::string bytes = tools::BytesText(model.bytes);
  if (model.plan != nullptr) return bytes;
  return bytes + ", a language model of " + std::to_string(model.language->slots()) +
         " text(s) at a time and " + std::to_string(model.language->context()) + " positions";
}

}  // namespace

uint64_t Catalog::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& weak : alive_) {
    if (const auto model = weak.lock()) bytes += model->bytes;
  }
  return bytes;
}

Result<std::shared_ptr<LoadedModel>> Catalog::Load(const std::string& name, int64_t number,
                                                   const FoundModel& found, ModelCounts* counts) {
  const FoundVersion& version = found.versions.at(number);
  PlanOptions plan_options = tools::PlanOptionsOf(backend_.load_options());
  plan_options.name = name;
  RONDO_ASSIGN_OR_RETURN(const Plan plan,
                         tools::OpenTrusted(version.plan, backend_.load_options().keys, plan_options));
  auto model = std::make_shared<LoadedModel>();
  model->name = name;
  model->version = number;
  model->fingerprint = version.fingerprint;
  model->counts = counts;
  model->bytes = StatedBytes(plan.data(), options_.pool.sessions, backend_.session_options().memory_limit);
  const uint64_t used = bytes();
  if (options_.memory != 0 && model->bytes > options_.memory - std::min(used, options_.memory)) {
    return Status::Error(Code::kOutOfMemory,
                         "the plan states %s for %u sessions; with %s loaded, that exceeds the limit of %s "
                         "(--memory)",
                         tools::BytesText(model->bytes).c_str(), options_.pool.sessions,
                         tools::BytesText(used).c_str(), tools::BytesText(options_.memory).c_str());
  }
  RONDO_RETURN_IF_ERROR(LoadForm(plan, found.folder, model.get()));
  model->loaded = std::time(nullptr);
  return model;
}

// A decoder continues texts, unless it is of a kind that can only serve tensors.
Status Catalog::LoadForm(const Plan& plan, const std::string& folder, LoadedModel* model) const {
  if (LanguageModel::IsOne(plan.data())) {
    Result<std::unique_ptr<LanguageModel>> language =
        LanguageModel::Load(backend_, plan, options_.pool, options_.python, folder, model->counts);
    if (language.ok()) {
      model->language = language.Take();
      RONDO_ASSIGN_OR_RETURN(model->forms, FindBatchForms(plan.data(), false));
      return Status::Ok();
    }
    if (language.status().code() != Code::kUnsupported) return language.status();
  }
  RONDO_ASSIGN_OR_RETURN(model->plan, ServedPlan::Load(backend_, plan, options_.pool, model->counts));
  model->forms = model->plan->forms();
  return Status::Ok();
}

Status Catalog::Refresh() {
  RONDO_ASSIGN_OR_RETURN(const auto found, ReadModelFolder(options_.folder));
  for (const auto& [name, model] : found) RefreshModel(name, model);
  std::vector<std::shared_ptr<LoadedModel>> gone;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (found.count(it->first) != 0) {
        ++it;
        continue;
      }
      gone.push_back(std::move(it->second.current));
      it = entries_.erase(it);
    }
  }
  for (auto& model : gone) {
    if (model != nullptr) Say("model \"" + model->name + "\" is gone from the folder");
    Retire(std::move(model));
  }
  std::erase_if(retiring_, [](const std::future<void>& one) {
    return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  return Status::Ok();
}

// Loads the greatest version that can be loaded. A version that failed is tried again when its file has
// changed, or when memory may have become free.
void Catalog::RefreshModel(const std::string& name, const FoundModel& found) {
  std::shared_ptr<LoadedModel> old;
  ModelCounts* counts = nullptr;
  std::string failed;
  const uint64_t used = bytes();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = entries_[name];
    old = entry.current;
    if (used >= entry.tried_beside) failed = entry.failed;
    if (!found.problem.empty() && found.versions.empty()) entry.problem = found.problem;
    std::unique_ptr<ModelCounts>& own = counts_[name];
    if (own == nullptr) own = std::make_unique<ModelCounts>();
    counts = own.get();
  }
  for (auto it = found.versions.rbegin(); it != found.versions.rend(); ++it) {
    const auto& [number, version] = *it;
    if (old != nullptr && old->version == number && old->fingerprint == version.fingerprint) return;
    if (failed == version.fingerprint) continue;
    Result<std::shared_ptr<LoadedModel>> loaded = Load(name, number, found, counts);
    const std::string what = "model \"" + name + "\", version " + std::to_string(number);
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = entries_[name];
    if (!loaded.ok()) {
      ++counts->failed_loads;
      const std::string problem = loaded.status().message();
      if (entry.problem != problem) Say(what + ": " + problem);
      entry.problem = problem;
      entry.failed_version = number;
      entry.failed = version.fingerprint;
      entry.tried_beside = loaded.status().code() == Code::kOutOfMemory ? used : 0;
      if (old != nullptr) return;  // the working version stays
      continue;
    }
    ++counts->loads;
    Say(what + " is ready: " + Describe(**loaded));
    entry = Entry{*loaded, "", "", 0, 0};
    alive_.erase(
        std::remove_if(alive_.begin(), alive_.end(), [](const auto& weak) { return weak.expired(); }),
        alive_.end());
    alive_.push_back(*loaded);
    Retire(std::move(old));
    return;
  }
}

// Drains on a separate thread, because its open requests may take until their deadlines.
void Catalog::Retire(std::shared_ptr<LoadedModel> model) {
  if (model == nullptr) return;
  retiring_.push_back(std::async(std::launch::async, [model = std::move(model)] { model->Drain(); }));
}

void Catalog::Start() {
  thread_ = std::thread([this] {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stopped_.wait_for(lock, options_.poll, [this] { return stop_; })) {
      lock.unlock();
      if (const Status status = Refresh(); !status.ok()) Say(status.message());
      lock.lock();
    }
  });
}

void Catalog::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& model : Loaded()) model->Drain();
  retiring_.clear();  // waits for the threads
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.clear();
}

std::shared_ptr<LoadedModel> Catalog::Find(const std::string& name, const std::string& version,
                                           std::string* why) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(name);
  const std::string quoted = "\"" + name.substr(0, 128) + "\"";
  if (found == entries_.end()) {
    *why = "there is no model " + quoted;
    return nullptr;
  }
  const std::shared_ptr<LoadedModel>& current = found->second.current;
  if (current == nullptr) {
    *why = "the model " + quoted + " is not loaded: " + found->second.problem;
    return nullptr;
  }
  if (version.empty() || version == std::to_string(current->version)) return current;
  *why = "the model " + quoted + " has version " + std::to_string(current->version) + " loaded, and not \"" +
         version.substr(0, 32) + "\"";
  return nullptr;
}

std::vector<ModelState> Catalog::States() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<ModelState> states;
  for (const auto& [name, entry] : entries_) {
    if (entry.current != nullptr)
      states.push_back({name, std::to_string(entry.current->version), "READY", ""});
    if (entry.problem.empty()) continue;
    const std::string version = entry.failed_version == 0 ? "" : std::to_string(entry.failed_version);
    states.push_back({name, version, "UNAVAILABLE", entry.problem});
  }
  return states;
}

std::vector<std::shared_ptr<LoadedModel>> Catalog::Loaded() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<LoadedModel>> loaded;
  for (const auto& [name, entry] : entries_) {
    if (entry.current != nullptr) loaded.push_back(entry.current);
  }
  return loaded;
}

}  // namespace rondo::serve
