// Fiber: a stack that runs on the thread that resumes it, until it suspends itself. The threads of a kernel
// are fibers: thousands of them meet at barriers, for which threads of the operating system are too slow.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>

namespace rondo::emulated {

// Made once and used for one job after another. Destroying a fiber drops an incomplete job with everything on
// its stack.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Sets the job that the next Resume begins.
  void Start(void (*job)(void*), void* argument);
  // Runs the job until it suspends itself or is complete. Returns whether it is complete.
  bool Resume();
  // Called inside the running fiber's job: returns to the caller of Resume.
  void Suspend();
  // Drops a suspended job.
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
