// This file uses longjmp between stacks, which glibc's checked longjmp refuses.
#undef _FORTIFY_SOURCE
#include "tests/cuda/emulated/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace rondo::emulated {
namespace {

constexpr size_t kStack = 256 << 10, kGuard = 4096;

}  // namespace

Fiber::Fiber() : stack_bytes_(kStack + kGuard) {
  stack_ = mmap(nullptr, stack_bytes_, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack_ == MAP_FAILED || mprotect(stack_, kGuard, PROT_NONE) != 0) {
    std::perror("a stack for an emulated thread");
    std::abort();
  }
}

Fiber::~Fiber() { munmap(stack_, stack_bytes_); }

void Fiber::Start(void (*job)(void*), void* argument) {
  job_ = job;
  argument_ = argument;
  done_ = false;
}

void Fiber::Drop() {
  begun_ = false;
  done_ = true;
}

// Makes a stack by makecontext, once, and leaves and enters it by _setjmp and _longjmp, which unlike
// swapcontext need no call of the system.
bool Fiber::Resume() {
  if (_setjmp(outside_) != 0) return done_;
  if (begun_) _longjmp(inside_, 1);
  begun_ = true;
  getcontext(&context_);
  context_.uc_stack.ss_sp = static_cast<char*>(stack_) + kGuard;
  context_.uc_stack.ss_size = kStack;
  context_.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::Main), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  setcontext(&context_);
  std::abort();
}

void Fiber::Suspend() {
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

void Fiber::Main(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
  for (;;) {
    self->job_(self->argument_);
    self->done_ = true;
    self->Suspend();
  }
}

}  // namespace rondo::emulated
