#include "tools/rondo/onnxruntime_values.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "formats/tensor/npy.h"

extern char** environ;

namespace rondo::tools {
namespace {

using nlohmann::json;

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

Result<std::string> Read(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadInputFile(path));
  return std::string(bytes.begin(), bytes.end());
}

std::string LastLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Result<OnnxRuntime> OnnxRuntime::Open(const std::string& python, const std::string& model,
                                      const std::vector<Tensor>& inputs) {
  OnnxRuntime opened;
  std::string folder = (std::filesystem::temp_directory_path() / "rondo-onnxruntime-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    return Status::Error(Code::kIo, "%s: cannot be made: %s", folder.c_str(), std::strerror(errno));
  opened.folder_ = folder;
  opened.python_ = python;
  opened.model_ = model;
  for (const Tensor& input : inputs) {
    const std::string file = "input" + std::to_string(opened.inputs_.size()) + ".npy";
    Write(folder + "/" + file, SerializeNpy(input));
    opened.inputs_.emplace_back(input.name, file);
  }
  return opened;
}

OnnxRuntime::~OnnxRuntime() {
  std::error_code error;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
}

Result<std::vector<Tensor>> OnnxRuntime::Values(const std::vector<std::string>& names) {
  json request = {{"model", model_}, {"values", names}, {"inputs", json::object()}};
  for (const auto& [name, file] : inputs_) request["inputs"][name] = file;
  Write(folder_ + "/request.json", request.dump());
  const std::string said = folder_ + "/said";
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  const char* line[] = {python_.c_str(), "-c", kOnnxRuntimeScript, folder_.c_str(), nullptr};
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, python_.c_str(), &files, nullptr, const_cast<char**>(line), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    return Status::Error(Code::kUnsupported, "%s cannot be started for ONNX Runtime: %s (--python)",
                         python_.c_str(), std::strerror(error));
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    RONDO_ASSIGN_OR_RETURN(const std::string words, Read(said));
    return Status::Error(Code::kUnsupported, "ONNX Runtime does not run %s: %s", model_.c_str(),
                         LastLine(words).c_str());
  }
  RONDO_ASSIGN_OR_RETURN(const std::string text, Read(folder_ + "/answer.json"));
  const json answer = json::parse(text);
  version_ = answer["version"];
  std::vector<Tensor> values;
  for (const auto& [name, file] : answer["values"].items()) {
    const std::string path = folder_ + "/" + file.get<std::string>();
    RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadInputFile(path));
    RONDO_ASSIGN_OR_RETURN(Tensor value, ParseNpy(bytes));
    value.name = name;
    values.push_back(std::move(value));
    std::filesystem::remove(path);
  }
  return values;
}

}  // namespace rondo::tools
