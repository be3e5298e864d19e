// CaughtFaults: during its life, faults of this thread's memory accesses are told to a handler.
#pragma once

#include <csignal>

namespace rondo::emulated {

// Signals of a fault: an address without memory, and what a sanitizer's trap raises.
inline constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGILL};

// Calls `handler` for each of kFaults that this thread raises. If the handler returns, the process ends as it
// would without this. One at a time.
class CaughtFaults {
 public:
  using Handler = void (*)(void* argument, int signal, const void* address);
  CaughtFaults(Handler handler, void* argument);
  ~CaughtFaults();
  CaughtFaults(const CaughtFaults&) = delete;
  CaughtFaults& operator=(const CaughtFaults&) = delete;
};

}  // namespace rondo::emulated
