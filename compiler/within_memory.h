// Keeps exceptions inside the compiler: running out of memory becomes a Status.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "core/status.h"

namespace rondo {

// Returns what `f` returns, a Status or a Result; or kOutOfMemory, with `doing`, when memory or threads run
// out. `doing` must be a finished text, since there is no memory to build it then.
template <typename F>
auto WithinMemory(const std::string& doing, const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return Status::Error(Code::kOutOfMemory,
                         "%s: this machine's memory, or what this process may use of it, ran out",
                         doing.c_str());
  } catch (const std::exception& e) {
    return Status::Error(Code::kOutOfMemory, "%s: the model is too large: %s", doing.c_str(), e.what());
  }
}

}  // namespace rondo
