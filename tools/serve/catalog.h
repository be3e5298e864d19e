// Catalog: the loaded models of a folder, updated with the folder while requests are served.
//
// A new version, or a changed file, is loaded beside the old one if the bytes that plans state stay within
// the catalog's limit. New requests then go to it, and the old version ends when it has answered its
// requests.
#pragma once

#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tools/serve/backend.h"
#include "tools/serve/language_model.h"
#include "tools/serve/model_counts.h"
#include "tools/serve/model_folder.h"
#include "tools/serve/served_plan.h"

namespace rondo::serve {

struct CatalogOptions {
  std::string folder;
  PoolOptions pool;
  uint64_t memory = 0;                   // bytes of everything loaded; 0: the devices' memory
  std::chrono::milliseconds poll{1000};  // how often the folder is read
  bool silent = false;                   // otherwise loads are reported on standard error
  std::string python = "python3";        // for tokenizers and chat templates
};

// A version in use. It lives as long as someone holds it.
struct LoadedModel {
  std::string name;
  int64_t version = 0;
  std::string fingerprint;
  uint64_t bytes = 0;  // as stated in the plan
  int64_t loaded = 0;  // seconds since 1970
  std::vector<BatchForm> forms;
  std::unique_ptr<ServedPlan> plan;  // exactly one of `plan` and `language` is set
  std::unique_ptr<LanguageModel> language;
  ModelCounts* counts = nullptr;

  // Accepts no more requests, and returns when the accepted ones are answered.
  void Drain() { plan != nullptr ? plan->Drain() : language->Drain(); }
  size_t waiting() const { return plan != nullptr ? plan->waiting() : language->waiting(); }
};

struct ModelState {
  std::string name, version, state, reason;  // state: "READY" or "UNAVAILABLE"
};

class Catalog {
 public:
  Catalog(const Backend& backend, const CatalogOptions& options) : backend_(backend), options_(options) {}
  ~Catalog() { Stop(); }

  // Reads the folder once and loads its models. kIo if it cannot be read. A model that cannot be loaded is no
  // error; the reason is in States.
  Status Refresh();
  // Refreshes on a separate thread from now on.
  void Start();
  // Ends that thread, and ends every model when it has answered its requests.
  void Stop();

  // Null, with the reason, if there is no such model or version. `version`: "" for the one in use.
  std::shared_ptr<LoadedModel> Find(const std::string& name, const std::string& version,
                                    std::string* why) const;
  std::vector<ModelState> States() const;
  std::vector<std::shared_ptr<LoadedModel>> Loaded() const;
  // Counts stay when a model is removed.
  const std::map<std::string, std::unique_ptr<ModelCounts>>& counts() const { return counts_; }
  std::mutex& mutex() const { return mutex_; }  // of counts()
  uint64_t bytes() const;                       // stated by everything loaded, old versions included

 private:
  struct Entry {
    std::shared_ptr<LoadedModel> current;
    std::string problem, failed;  // why the version with fingerprint `failed` is not loaded
    int64_t failed_version = 0;
    uint64_t tried_beside = 0;  // if it lacked memory: the bytes that were loaded then
  };
  void RefreshModel(const std::string& name, const FoundModel& found);
  Result<std::shared_ptr<LoadedModel>> Load(const std::string& name, int64_t number, const FoundModel& found,
                                            ModelCounts* counts);
  Status LoadForm(const Plan& plan, const std::string& folder, LoadedModel* model) const;
  void Retire(std::shared_ptr<LoadedModel> model);
  void Say(const std::string& sentence) const;

  const Backend& backend_;
  const CatalogOptions options_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::unique_ptr<ModelCounts>> counts_;
  std::vector<std::weak_ptr<LoadedModel>> alive_;
  std::vector<std::future<void>> retiring_;  // used by the refreshing thread
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rondo::serve
