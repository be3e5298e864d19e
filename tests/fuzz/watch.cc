#include "tests/fuzz/watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/sanitizer.h"

#ifdef RONDO_FUZZ_ASAN
#include <sanitizer/common_interface_defs.h>
// Declared here because g++ does not install sanitizer/allocator_interface.h.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, size_t),
                                                         void (*free_hook)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void* block);
#endif

namespace rondo::fuzz {
namespace {

char current[160] = "before the first input\n";
unsigned seconds_limit = 0;
uint64_t memory_limit = 0;
std::atomic<int64_t> live{0}, greatest{0};

void Say(const char* what) {
  (void)!write(STDERR_FILENO, what, std::strlen(what));
  (void)!write(STDERR_FILENO, current, std::strlen(current));
}

void OnDeath() { Say("\nfuzz: died in "); }

void OnAlarm(int) {
  Say("\nfuzz: too slow: ");
  std::abort();
}

void OnSignal(int number) {
  OnDeath();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

#ifdef RONDO_FUZZ_ASAN
void OnMalloc(const volatile void*, size_t bytes) {
  const int64_t now = live.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes);
  if (now > greatest.load()) greatest.store(now);
  if (memory_limit == 0 || now < static_cast<int64_t>(memory_limit)) return;
  memory_limit = 0;
  Say("\nfuzz: too much memory: ");
  std::abort();
}

void OnFree(const volatile void* block) {
  if (block != nullptr) live.fetch_sub(static_cast<int64_t>(__sanitizer_get_allocated_size(block)));
}
#endif

}  // namespace

void StartWatch(unsigned seconds) {
  seconds_limit = seconds;
  std::signal(SIGALRM, OnAlarm);
  std::signal(SIGABRT, OnSignal);
#ifdef RONDO_FUZZ_ASAN
  __sanitizer_set_death_callback(OnDeath);
#else
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) std::signal(number, OnSignal);
#endif
}

void SetCurrent(const char* target, uint64_t seed, uint64_t number) {
  std::snprintf(current, sizeof(current), "input %llu of target %s: fuzz_run %s --seed %llu --only %llu\n",
                static_cast<unsigned long long>(number), target, target,
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(number));
  if (seconds_limit != 0) alarm(seconds_limit);
}

void StopClock() { alarm(0); }

void LimitMemory(uint64_t limit) {
  memory_limit = limit;
#ifdef RONDO_FUZZ_ASAN
  __sanitizer_install_malloc_and_free_hooks(OnMalloc, OnFree);
#else
  if (limit != 0) {
    const rlimit bound = {limit, limit};
    setrlimit(RLIMIT_AS, &bound);
  }
#endif
}

uint64_t GreatestMemory() {
#ifdef RONDO_FUZZ_ASAN
  return static_cast<uint64_t>(greatest.load());
#else
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

}  // namespace rondo::fuzz

// With g++ the two sanitizers are separate libraries, so this one does not call the other's death callback.
extern "C" void __ubsan_on_report(void);
extern "C" void __ubsan_on_report(void) { rondo::fuzz::OnDeath(); }

// Undefined behaviour ends the process like any other failure.
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:print_stacktrace=1"; }
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=4096";
}
