// NamedValue: a value of a model, and where it comes from.
#pragma once

#include <string>

namespace rondo {

struct NamedValue {
  std::string value;
  std::string node;  // that makes it: `Op "node"`
};

}  // namespace rondo
