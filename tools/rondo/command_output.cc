#include "tools/rondo/command_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace rondo::tools {
namespace {

constexpr size_t kPipeWidth = 100, kLeastWidth = 40;
constexpr auto kQuiet = std::chrono::seconds(2);
constexpr auto kPause = std::chrono::milliseconds(100);

// Of the terminal that `file` is; 0 if it is none.
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
  options.Flag("--json", &json_, "print one JSON object instead of text")
      .Flag("--wide", &wide_, "do not cut lines to the width of the terminal");
}

size_t CommandOutput::Width(size_t piped) const {
  if (wide_) return kAnyWidth;
  const size_t terminal = TerminalWidth(STDOUT_FILENO);
  return terminal == 0 ? piped : std::max(terminal, kLeastWidth);
}

void CommandOutput::Line(const char* format, ...) {
  if (json_) return;
  va_list args;
  va_start(args, format);
  std::fprintf(stdout, "%s\n", Wrapped(Printable(Formatted(format, args)), Width(kAnyWidth)).c_str());
  va_end(args);
  std::fflush(stdout);
}

void CommandOutput::Print(const Report& report) {
  if (!json_) PrintText(report, stdout, Width(kAnyWidth), Width(kPipeWidth));
}

void CommandOutput::Print(const Section& section) { Print({"", {section}}); }

int CommandOutput::Finish(int status) {
  // Names come from files that nobody vouches for: what is not UTF-8 is replaced.
  if (json_) {
    std::printf("%s\n",
                object_->dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  }
  return status;
}

Progress::Progress() : terminal_(TerminalWidth(STDERR_FILENO) > 0), next_(Clock::now() + kQuiet) {}

void Progress::Show(const char* format, ...) {
  if (!terminal_ || Clock::now() < next_) return;
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
