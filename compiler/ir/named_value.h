// NamedValue: a value of a model, and its origin.
#pragma once

#include <string>

namespace rondo {

struct NamedValue {
  std::string value;
  std::string node;  // the producing node: `Op "node"`
};

}  // namespace rondo
