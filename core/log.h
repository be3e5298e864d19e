// The logging hook. Rondo prints nothing of its own: whoever embeds it passes a LogHook down.
#pragma once

#include <cstdint>

namespace rondo {

enum class LogLevel : int32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// Called from any thread; must not call back into the object that logs. `text` is zero-terminated and
// valid during the call only.
struct LogHook {
  void (*write)(void* user, LogLevel level, const char* text) = nullptr;
  void* user = nullptr;
  LogLevel least = LogLevel::kInfo;

  void operator()(LogLevel level, const char* text) const {
    if (write != nullptr && level >= least) write(user, level, text);
  }
};

}  // namespace rondo
