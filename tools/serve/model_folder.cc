#include "tools/serve/model_folder.h"

#include <sys/stat.h>

#include <filesystem>
#include <vector>

namespace rondo::serve {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEnding = ".rondo";
// The files beside a plan that convert between tokens and text.
constexpr const char* kTexts[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                  "generation_config.json", "special_tokens_map.json"};

// Device, inode, size and time: another file, or changed content, has another fingerprint.
std::string FingerprintOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return "";
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + ":" +
         std::to_string(info.st_size) + ":" + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec) + ";";
}

FoundVersion VersionOf(const std::string& plan, const std::string& folder) {
  FoundVersion version{plan, FingerprintOf(plan) + FingerprintOf(plan + ".sig")};
  if (folder.empty()) return version;
  for (const char* text : kTexts) version.fingerprint += FingerprintOf(folder + "/" + text);
  return version;
}

// The only plan in a folder; otherwise "" and `problem`.
std::string OnlyPlan(const fs::path& folder, std::string* problem) {
  std::vector<std::string> plans;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (name[0] != '.' && it->path().extension() == kEnding) plans.push_back(it->path());
  }
  if (error) *problem = folder.string() + ": " + error.message();
  if (plans.size() == 1 && !error) return plans[0];
  if (problem->empty())
    *problem = folder.string() + " has " + (plans.empty() ? "no" : std::to_string(plans.size())) +
               " plan (*.rondo); one is needed";
  return "";
}

// The number of 1 to 18 digits, with which Triton and KServe name folders of versions; 0 for any other name.
int64_t VersionNumber(const std::string& name) {
  if (name.empty() || name.size() > 18 || name.find_first_not_of("0123456789") != name.npos) return 0;
  return std::stoll(name);
}

FoundModel ReadOne(const fs::path& folder) {
  FoundModel model;
  model.folder = folder;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const int64_t number = VersionNumber(it->path().filename());
    std::error_code ignored;
    if (number == 0 || !it->is_directory(ignored)) continue;
    const std::string plan = OnlyPlan(it->path(), &model.problem);
    if (!plan.empty()) model.versions[number] = VersionOf(plan, model.folder);
  }
  if (!model.versions.empty() || !model.problem.empty()) return model;
  const std::string plan = OnlyPlan(folder, &model.problem);
  if (!plan.empty()) model.versions[1] = VersionOf(plan, model.folder);
  return model;
}

}  // namespace

Result<std::map<std::string, FoundModel>> ReadModelFolder(const std::string& folder) {
  std::map<std::string, FoundModel> models;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path& path = it->path();
    const std::string name = path.filename();
    std::error_code ignored;
    if (name[0] == '.') continue;
    if (it->is_directory(ignored)) {
      models[name] = ReadOne(path);
    } else if (path.extension() == kEnding) {
      models[path.stem()].versions[1] = VersionOf(path, "");
    }
  }
  if (error) return Status::Error(Code::kIo, "%s: %s", folder.c_str(), error.message().c_str());
  return models;
}

}  // namespace rondo::serve
