#include "runtime/testing/allocation_watch.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "runtime/testing/allocation_counter.h"

namespace rondo {
namespace {

constexpr int kStacks = 3, kFrames = 24, kShownFrames = 8;

struct Stack {
  void* frames[kFrames] = {};
  int depth = 0;
  const void* caller = nullptr;  // where the counted call returns to: the first frame to show
};

Stack stacks[kStacks];
std::atomic<int> seen{0};

void Observe(const void* caller) {
  const int index = seen.fetch_add(1, std::memory_order_relaxed);
  if (index >= kStacks) return;
  stacks[index].caller = caller;
  stacks[index].depth = backtrace(stacks[index].frames, kFrames);
}

std::string FrameText(void* frame) {
  Dl_info info = {};
  if (dladdr(frame, &info) == 0 || info.dli_fname == nullptr) return "an unknown place";
  char place[64];
  const auto offset = [&](void* base) {
    return static_cast<size_t>(static_cast<char*>(frame) - static_cast<char*>(base));
  };
  if (info.dli_sname == nullptr) {
    std::snprintf(place, sizeof(place), " + 0x%zx", offset(info.dli_fbase));
    return info.dli_fname + std::string(place);
  }
  int status = 0;
  char* readable = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string text = readable != nullptr ? readable : info.dli_sname;
  std::free(readable);
  std::snprintf(place, sizeof(place), " + 0x%zx", offset(info.dli_saddr));
  return text + place + " in " + info.dli_fname;
}

std::string StackText(const Stack& stack) {
  int first = 0;  // the first frame to show, after the counter's own functions
  for (int i = 0; i < stack.depth && first == 0; ++i) first = stack.frames[i] == stack.caller ? i : 0;
  std::string text;
  for (int i = first; i < std::min(stack.depth, first + kShownFrames); ++i)
    text += "    " + FrameText(stack.frames[i]) + "\n";
  return text;
}

}  // namespace

AllocationWatch::AllocationWatch() {
  void* frames[2];
  backtrace(frames, 2);  // a process's first call loads a library
  seen.store(0);
  ResetAllocationCount();
  ObserveAllocations(Observe);
  ResetAllocationCount();
}

void AllocationWatch::Stop() {
  if (stopped_) return;
  count_ = AllocationCount();
  ObserveAllocations(nullptr);
  stopped_ = true;
}

std::string AllocationWatch::Callers() const {
  std::string text;
  const int shown = std::min(seen.load(), kStacks);
  for (int i = 0; i < shown; ++i)
    text += "  call " + std::to_string(i + 1) + ", from\n" + StackText(stacks[i]);
  return text;
}

}  // namespace rondo
