// TextWorker: a Python process that knows a model's tokenizer, chat template and grammars (text_worker.py).
//
// There is no kept library in C or C++ that reads tokenizer.json, or renders chat templates as Jinja does,
// and llguidance comes as a Python module. A process of its own cannot take the server with it: one that
// dies, or does not answer in time, is started anew with the next request.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "core/status.h"

namespace rondo::serve {

// One request after the other; any thread.
class TextWorker {
 public:
  // `python`: a Python with tokenizers, jinja2 and llguidance; `folder`: the model's, or "".
  TextWorker(std::string python, std::string folder)
      : python_(std::move(python)), folder_(std::move(folder)) {}
  ~TextWorker() { End(); }
  TextWorker(const TextWorker&) = delete;

  // `tail`: the bytes behind the answer. kInvalidArgument: the worker's own sentence. kAborted: it died, or
  // took longer than 20 s.
  Result<nlohmann::json> Ask(const nlohmann::json& request, std::string* tail = nullptr);

 private:
  // The line that answers `line`, of a new process where the one there was had died.
  Result<std::string> Exchange(const std::string& line);
  Status Begin();
  void End();
  Status Write(const std::string& line);
  Result<std::string> ReadLine();
  Result<std::string> ReadBytes(size_t count);
  // More of what the process writes, until a time.
  Status Read(std::chrono::steady_clock::time_point until);

  const std::string python_, folder_;
  std::mutex mutex_;
  pid_t process_ = 0;
  int to_ = -1, from_ = -1;
  std::string read_;
};

}  // namespace rondo::serve
