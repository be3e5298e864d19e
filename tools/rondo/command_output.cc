#include "tools/rondo/command_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace rondo::tools {
namespace {

constexpr size_t kPipeWidth = 100, kLeastWidth = 40;
constexpr auto kQuiet = std::chrono::seconds(2);
constexpr auto kPause = std::chrono::milliseconds(100);

// The width of the terminal that `file` is; 0 if it is none.
size_t TerminalWidth(int file) {
  winsize size = {};
  if (isatty(file) == 0) return 0;
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Formatted(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, args);
  return text;
}

}  // namespace

CommandOutput::CommandOutput()
    : object_(std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::object())) {}
CommandOutput::~CommandOutput() = default;

void CommandOutput::Declare(OptionSet& options) {
  options.Group("Output")
      .Flag("--json", &json_, "print one JSON object instead of text")
      .Flag("--wide", &wide_, "do not cut lines to the width of the terminal")
      .Flag("-q,--quiet", &quiet_, "print only results that were asked for, and errors");
}

size_t CommandOutput::Width(size_t piped) const {
  if (wide_) return kAnyWidth;
  const size_t terminal = TerminalWidth(STDOUT_FILENO);
  return terminal == 0 ? piped : std::max(terminal, kLeastWidth);
}

void CommandOutput::Line(const char* format, ...) {
  if (json_ || quiet_) return;
  va_list args;
  va_start(args, format);
  std::fprintf(stdout, "%s\n", Wrapped(Printable(Formatted(format, args)), Width(kAnyWidth)).c_str());
  va_end(args);
  std::fflush(stdout);
}

void CommandOutput::Print(const Report& report) {
  if (!json_ && !quiet_) PrintText(report, stdout, Width(kAnyWidth), Width(kPipeWidth));
}

void CommandOutput::Print(const Section& section) { Print({"", {section}}); }

int CommandOutput::Finish(int status) {
  // Names come from untrusted files: bytes that are not UTF-8 are replaced.
  if (json_ && !std::exchange(finished_, true)) {
    std::printf(
        "%s\n",
        JsonText(object_->dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)).c_str());
  }
  return status;
}

namespace {

// The object of an error. Names come from untrusted files, so they are printed as for a terminal.
nlohmann::ordered_json ErrorObject(const std::string& command, const std::string& sentence, int status) {
  return {{"command", command}, {"message", Printable(sentence)}, {"exit_status", status}};
}

// "rondo COMMAND: the sentence", and where to read on if the command was used wrongly.
void PrintError(const std::string& command, const std::string& sentence, int status) {
  std::fflush(stdout);
  const std::string name = command.empty() ? "rondo" : "rondo " + command;
  std::fprintf(stderr, "%s: %s\n", name.c_str(), Printable(sentence).c_str());
  if (status == 2)
    std::fprintf(stderr, "Run `%s --help` for %s.\n", name.c_str(),
                 command.empty() ? "the commands" : "examples");
}

}  // namespace

void CommandOutput::SayError(const char* command, const Status& status) {
  PrintError(command, status.message(), 1);
  object()["error"] = ErrorObject(command, status.message(), 1);
}

int CommandOutput::Fail(const char* command, const Status& status) {
  SayError(command, status);
  return Finish(1);
}

int CommandOutput::Misuse(const char* command, const std::string& sentence) {
  PrintError(command, sentence, 2);
  object()["error"] = ErrorObject(command, sentence, 2);
  return Finish(2);
}

int SayUsageError(const std::string& command, const std::string& sentence, bool json, int status) {
  PrintError(command, sentence, status);
  if (json) {
    const nlohmann::ordered_json object = {{"error", ErrorObject(command, sentence, status)}};
    std::printf(
        "%s\n",
        JsonText(object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)).c_str());
  }
  return status;
}

Progress::Progress(const CommandOutput* output)
    : output_(output), terminal_(TerminalWidth(STDERR_FILENO) > 0), next_(Clock::now() + kQuiet) {}

void Progress::Show(const char* format, ...) {
  if (!terminal_ || output_->quiet() || Clock::now() < next_) return;
  va_list args;
  va_start(args, format);
  std::string text = Printable(Formatted(format, args));
  va_end(args);
  text = CutTo(text, TerminalWidth(STDERR_FILENO) - 1);
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  shown_ = true;
  next_ = Clock::now() + kPause;
}

void Progress::Clear() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace rondo::tools
