// Text: an error's sentence, built piece by piece in a fixed buffer. Internal to runtime/.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string_view>

namespace rondo {

class Text {
 public:
  void Add(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list args;
    va_start(args, format);
    int n = std::vsnprintf(text_ + used_, sizeof(text_) - used_, format, args);
    va_end(args);
    if (n > 0) used_ += static_cast<size_t>(n);
    if (used_ >= sizeof(text_)) used_ = sizeof(text_) - 1;
  }
  // A name in quotes, cut at 64 bytes: names come from files and callers.
  void AddName(std::string_view name) {
    Add("\"%.*s\"", static_cast<int>(name.size() < 64 ? name.size() : 64), name.data());
  }
  // Adds one item of a list, or, when space runs short, how many there are left (and returns false).
  bool AddItem(size_t index, size_t count, std::string_view name, const char* suffix = "") {
    if (used_ + 160 > sizeof(text_)) {
      Add(", and %zu more", count - index);
      return false;
    }
    if (index != 0) Add(", ");
    AddName(name);
    Add("%s", suffix);
    return true;
  }
  const char* get() const { return text_; }

 private:
  char text_[1200] = "";
  size_t used_ = 0;
};

}  // namespace rondo
