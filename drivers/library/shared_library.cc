#include "drivers/library/shared_library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

namespace rondo {
namespace {

// The first of the sonames in `folder`; an empty one: where the system looks.
void* OpenIn(const char* folder, int length, Span<const char* const> sonames) {
  char place[4096];
  for (const char* soname : sonames) {
    const int written =
        std::snprintf(place, sizeof(place), "%.*s%s%s", length, folder, length > 0 ? "/" : "", soname);
    if (written <= 0 || static_cast<size_t>(written) >= sizeof(place)) continue;
    struct stat there = {};
    if (length > 0 && (stat(place, &there) != 0 || !S_ISREG(there.st_mode)))
      continue;  // a FIFO has dlopen wait
    if (void* library = dlopen(place, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

void* Find(const SharedLibrary& library, const char* library_path) {
  for (const char* at = library_path == nullptr ? "" : library_path; *at != 0;) {
    const int length = static_cast<int>(std::strcspn(at, ":"));
    if (void* found = length > 0 ? OpenIn(at, length, library.sonames) : nullptr) return found;
    at += length;
    if (*at == ':') ++at;
  }
  return OpenIn("", 0, library.sonames);
}

}  // namespace

Status OpenLibrary(const SharedLibrary& library, const char* library_path, void* table) {
  void* opened = Find(library, library_path);
  if (opened == nullptr) {
    const char* why = dlerror();
    char names[256] = "";
    size_t used = 0;
    for (const char* soname : library.sonames) {
      const int n =
          std::snprintf(names + used, sizeof(names) - used, "%s%s", used == 0 ? "" : " or ", soname);
      if (n > 0 && used + static_cast<size_t>(n) < sizeof(names)) used += static_cast<size_t>(n);
    }
    return Status::Error(Code::kUnsupported,
                         "%s cannot be opened: %s; looked for %s in \"%s\" and where the system looks",
                         library.what, why != nullptr ? why : "no reason given", names,
                         library_path == nullptr ? "" : library_path);
  }
  for (const Symbol& symbol : library.symbols) {
    void* function = dlsym(opened, symbol.name);
    if (function == nullptr && !symbol.optional) {
      return Status::Error(Code::kUnsupported, "%s is too old: it has no %s; %s is needed", library.what,
                           symbol.name, library.least);
    }
    *reinterpret_cast<void**>(static_cast<char*>(table) + symbol.offset) = function;
  }
  return Status::Ok();
}

}  // namespace rondo
