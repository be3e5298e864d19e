// Vendor libraries, opened at run time: found by soname, in folders of the user's first, and kept open as
// long as the process lives. Not for use outside drivers.
#pragma once

#include <cstddef>
#include <mutex>

#include "core/span.h"
#include "core/status.h"

namespace rondo {

// One entry of a table of functions: a struct of function pointers that is filled by name. The macros are for
// a table whose type is called Api.
struct Symbol {
  const char* name;
  size_t offset;          // in the table
  bool optional = false;  // null in the table where the library has none
};
#define RONDO_SYMBOL(member, name) \
  { name, offsetof(Api, member) }
#define RONDO_OPTIONAL_SYMBOL(member, name) \
  { name, offsetof(Api, member), true }

struct SharedLibrary {
  const char* what;                 // "NCCL": what messages call it
  Span<const char* const> sonames;  // the first that is found is taken
  Span<const Symbol> symbols;       // all that are not optional must be there
  const char* least;                // "2.14": the version that has them
};

// Opens `library`, looked for in the folders of `library_path` (separated by ':'; null: none), then where the
// system looks, and fills `table`. kUnsupported, saying where it was looked for, if it is not there, or which
// function it lacks.
Status OpenLibrary(const SharedLibrary& library, const char* library_path, void* table);

// A table of functions that is filled once a process. Thread-safe.
template <typename Table>
class OpenedOnce {
 public:
  // What `open(Table*)` made of it, the first time that it succeeded: another path may have what this one
  // lacks.
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
