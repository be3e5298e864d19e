// Where the library's threads come from: the embedder may start them itself (to name, pin or count them).
#pragma once

namespace rondo {

// `start` makes a thread that calls entry(argument) and sets *thread to what `join` needs. It returns 0, or
// another number, which errors repeat. `join` returns when entry has returned. `user` is passed to both and
// must outlive every thread. Both null: DefaultThreadHooks().
struct ThreadHooks {
  int (*start)(void* user, void* (*entry)(void*), void* argument, void** thread) = nullptr;
  void (*join)(void* user, void* thread) = nullptr;
  void* user = nullptr;
};

// POSIX threads with every signal blocked: an embedding process's handlers run on its own threads.
const ThreadHooks& DefaultThreadHooks();

}  // namespace rondo
