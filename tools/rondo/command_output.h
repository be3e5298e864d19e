// CommandOutput: what a command prints on standard output: text for people, in lines that a terminal holds,
// or, with --json, one object for programs. Errors and progress go to standard error.
//
// Into a pipe or a file a sentence stays one line, for those who search it; tables are cut to kPipeWidth.
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

  // Text, unless --json or --quiet was given: a line (without its final newline; cut into several at words
  // where it is longer than the terminal), or a report.
  void Line(const char* format, ...) __attribute__((format(printf, 2, 3)));
  void Print(const Report& report);
  void Print(const Section& section);

  // What --json prints; fill it in whether or not --json was given, where that costs little.
  nlohmann::ordered_json& object() { return *object_; }
  // Prints the object if --json was given, the first time. Last; returns `status`.
  int Finish(int status);

  // What went wrong: "rondo COMMAND: the sentence" on standard error, and with --json the member "error" of
  // the object, {"command", "message", "exit_status"}.
  void SayError(const char* command, const Status& status);
  // The same, last; returns exit status 1.
  int Fail(const char* command, const Status& status);
  // Likewise of a command line that makes no sense; returns exit status 2.
  int Misuse(const char* command, const std::string& sentence);

 private:
  // Characters of a line: of the terminal, or, where there is none, `piped`; with --wide, as many as there
  // are.
  size_t Width(size_t piped) const;

  std::unique_ptr<nlohmann::ordered_json> object_;
  bool json_ = false, wide_ = false, quiet_ = false, finished_ = false;
};

// For what goes wrong before a command has its options: as CommandOutput::Misuse and Fail do, with the object
// if `json`. `command`: "" for `rondo` itself. Returns `status`, an exit status.
int SayUsageError(const std::string& command, const std::string& sentence, bool json, int status);

// One line on standard error that says what is going on, if that is a terminal: shown when the work has taken
// two seconds, then at most ten times a second, and wiped out by the destructor. Single-threaded.
class Progress {
 public:
  // Nothing is shown if `output`, which must outlive this, is quiet.
  explicit Progress(const CommandOutput* output);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;

  void Show(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // Wipes the line out, for other output to come.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  const CommandOutput* const output_;
  const bool terminal_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace rondo::tools
