// Fiber: a stack of its own that runs until it says so, on the thread that resumes it. The threads of a
// kernel are fibers: thousands of them meet at barriers, which threads of the operating system do too slowly.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>

namespace rondo::emulated {

// Made once and used for one job after another; a job that is not complete when the fiber goes away is
// dropped, with whatever its stack held.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // What the next Resume begins.
  void Start(void (*job)(void*), void* argument);
  // Runs the job until it suspends itself or is complete; whether it is complete.
  bool Resume();
  // Of the fiber that runs, inside its job: back to who resumed it.
  void Suspend();
  // Forgets a job that is suspended.
  void Drop();

 private:
  static void Main(unsigned high, unsigned low);

  void* stack_;
  size_t stack_bytes_;
  ucontext_t context_{};
  jmp_buf inside_, outside_;
  bool begun_ = false, done_ = true;
  void (*job_)(void*) = nullptr;
  void* argument_ = nullptr;
};

}  // namespace rondo::emulated
