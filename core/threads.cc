#include "core/threads.h"

#include <pthread.h>
#include <signal.h>

namespace rondo {
namespace {

static_assert(sizeof(pthread_t) <= sizeof(void*));

int Start(void*, void* (*entry)(void*), void* argument, void** thread) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t made;
  const int error = pthread_create(&made, nullptr, entry, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) *thread = reinterpret_cast<void*>(made);
  return error;
}

void Join(void*, void* thread) { pthread_join(reinterpret_cast<pthread_t>(thread), nullptr); }

constexpr ThreadHooks kDefault = {Start, Join, nullptr};

}  // namespace

const ThreadHooks& DefaultThreadHooks() { return kDefault; }

}  // namespace rondo
