// AllocationWatch: which calls allocate or free memory while it lives, and who makes them.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

// Counts as in allocation_counter.h from construction to Stop, and keeps the stacks of the first calls. One
// at a time in a process.
class AllocationWatch {
 public:
  AllocationWatch();
  ~AllocationWatch() { Stop(); }
  AllocationWatch(const AllocationWatch&) = delete;

  void Stop();
  // Calls of all threads. After Stop.
  uint64_t count() const { return count_; }
  // The stacks of the first calls, one line for each function: its name if the program exports it (link with
  // -rdynamic), otherwise its offset in its file, for addr2line. Call it after Stop; "" if there was no call.
  std::string Callers() const;

 private:
  bool stopped_ = false;
  uint64_t count_ = 0;
};

}  // namespace rondo
