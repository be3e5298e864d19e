// No exception leaves the compiler: what runs out of memory ends as a Status.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "core/status.h"

namespace rondo {

// What `f` returns, a Status or a Result; kOutOfMemory, with what was being done, where memory or threads run
// out on the way. `doing` is read then, and is not put together from pieces: there is no memory for that.
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
