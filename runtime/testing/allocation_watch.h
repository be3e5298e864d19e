// AllocationWatch: which calls allocate or free memory while it lives, and who makes them.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

// Counts as allocation_counter.h does, from its making to Stop, and keeps the stacks of the first calls. One
// at a time in a process.
class AllocationWatch {
 public:
  AllocationWatch();
  ~AllocationWatch() { Stop(); }
  AllocationWatch(const AllocationWatch&) = delete;

  void Stop();
  // Calls of all threads. After Stop.
  uint64_t count() const { return count_; }
  // The stacks of the first calls, a line a function: its name, where the program shows it (link with
  // -rdynamic), or its place in its file, for addr2line. After Stop; "" if there was no call.
  std::string Callers() const;

 private:
  bool stopped_ = false;
  uint64_t count_ = 0;
};

}  // namespace rondo
