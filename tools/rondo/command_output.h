// CommandOutput: a command's standard output. It is text for people, in lines as wide as the terminal, or
// with --json one object for programs. Errors and progress go to standard error.
//
// In a pipe or a file a sentence stays on one line, so that it can be searched; tables are cut to kPipeWidth.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/status.h"
#include "tools/rondo/options.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

class CommandOutput {
 public:
  CommandOutput();
  ~CommandOutput();
  CommandOutput(const CommandOutput&) = delete;

  // Adds --json, --wide and --quiet.
  void Declare(OptionSet& options);
  bool json() const { return json_; }
  bool quiet() const { return quiet_; }

  // Text, unless --json or --quiet was given: a line (without its final newline; broken at words if it is
  // longer than the terminal), or a report.
  void Line(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void Print(const Report& report);
  void Print(const Section& section);

  // The object that --json prints. Fill it in even without --json if that costs little.
  nlohmann::ordered_json& object() { return *object_; }
  // Prints the object if --json was given; only the first call does. The last call of a command; returns
  // `status`.
  int Finish(int status);

  // Prints an error: "rondo COMMAND: the sentence" on standard error, and with --json the object's member
  // "error", {"command", "message", "exit_status"}.
  void SayError(const char* command, const Status& status);
  // SayError as the last call of a command; returns exit status 1.
  int Fail(const char* command, const Status& status);
  // The same for a wrong command line; returns exit status 2.
  int Misuse(const char* command, const std::string& sentence);

 private:
  // The width of a line: the terminal's, or `piped` without a terminal; without limit with --wide.
  size_t Width(size_t piped) const;

  std::unique_ptr<nlohmann::ordered_json> object_;
  bool json_ = false, wide_ = false, quiet_ = false, finished_ = false;
};

// For errors before a command has its options: prints as CommandOutput::Misuse and Fail do, with the object
// if `json`. `command`: "" for `rondo` itself. Returns `status`, an exit status.
int SayUsageError(const std::string& command, const std::string& sentence, bool json, int status);

// A line of progress on standard error, if that is a terminal. It appears when the work has taken two
// seconds, is updated at most ten times a second, and is removed by the destructor. Single-threaded.
class Progress {
 public:
  // Nothing is shown if `output`, which must outlive this, is quiet.
  explicit Progress(const CommandOutput* output);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;

  void Show(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // Removes the line before other output.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  const CommandOutput* const output_;
  const bool terminal_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace rondo::tools
