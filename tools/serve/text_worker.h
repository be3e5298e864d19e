// TextWorker: a Python process for a model's tokenizer, chat template and grammars (text_worker.py).
//
// No maintained C or C++ library reads tokenizer.json or renders chat templates as Jinja does, and llguidance
// is a Python module. Because the process is separate, its failure does not end the server: a process that
// dies, or does not answer in time, is started again with the next request.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "core/status.h"

namespace rondo::serve {

// Handles one request after the other. May be used by any thread.
class TextWorker {
 public:
  // `python`: a Python with tokenizers, jinja2 and llguidance; `folder`: the model's folder, or "".
  TextWorker(std::string python, std::string folder)
      : python_(std::move(python)), folder_(std::move(folder)) {}
  ~TextWorker() { End(); }
  TextWorker(const TextWorker&) = delete;

  // `tail`: gets the bytes after the answer. kInvalidArgument: the worker's own message. kAborted: the worker
  // died, or took longer than 20 s.
  Result<nlohmann::json> Ask(const nlohmann::json& request, std::string* tail = nullptr);

 private:
  // The line that answers `line`. Starts a new process if the old one has died.
  Result<std::string> Exchange(const std::string& line);
  Status Begin();
  void End();
  Status Write(const std::string& line);
  Result<std::string> ReadLine();
  Result<std::string> ReadBytes(size_t count);
  // Reads more of the process's output, until that time at most.
  Status Read(std::chrono::steady_clock::time_point until);

  const std::string python_, folder_;
  std::mutex mutex_;
  pid_t process_ = 0;
  int to_ = -1, from_ = -1;
  std::string read_;
};

}  // namespace rondo::serve
