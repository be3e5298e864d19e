// Opens vendor libraries at run time by soname, first in the user's folders, and keeps them open as long as
// the process lives. Not for use outside drivers.
#pragma once

#include <cstddef>
#include <mutex>

#include "core/span.h"
#include "core/status.h"

namespace rondo {

// One entry of a table of functions: a struct of function pointers, filled by name. The macros are for a
// table whose type is called Api.
struct Symbol {
  const char* name;
  size_t offset;          // in the table
  bool optional = false;  // null in the table if the library lacks it
};
#define RONDO_SYMBOL(member, name) \
  { name, offsetof(Api, member) }
#define RONDO_OPTIONAL_SYMBOL(member, name) \
  { name, offsetof(Api, member), true }

struct SharedLibrary {
  const char* what;                 // "NCCL": its name in messages
  Span<const char* const> sonames;  // the first one found is opened
  Span<const Symbol> symbols;       // all must exist, except optional ones
  const char* least;                // "2.14": the version that has them
};

// Opens `library`, first in the folders of `library_path` (separated by ':'; null: none), then in the
// system's places, and fills `table`. kUnsupported, naming the places searched or the function that the
// library lacks.
Status OpenLibrary(const SharedLibrary& library, const char* library_path, void* table);

// A table of functions that is filled once a process. Thread-safe.
template <typename Table>
class OpenedOnce {
 public:
  // The table that `open(Table*)` filled at its first success. It is tried again after a failure, since
  // another path may have the library.
  template <typename F>
  Result<const Table*> Get(F open) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!done_) {
      const Status status = open(&table_);
      if (!status.ok()) return status;
      done_ = true;
    }
    return static_cast<const Table*>(&table_);
  }

 private:
  std::mutex mutex_;
  bool done_ = false;
  Table table_ = {};
};

}  // namespace rondo
