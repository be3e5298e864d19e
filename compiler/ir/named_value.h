// NamedValue: a value of a model, and where it comes from.
#ifndef RONDO_COMPILER_IR_NAMED_VALUE_H_
#define RONDO_COMPILER_IR_NAMED_VALUE_H_

#include <string>

namespace rondo {

struct NamedValue {
  std::string value;
  std::string node;  // that makes it: `Op "node"`
};

}  // namespace rondo

#endif  // RONDO_COMPILER_IR_NAMED_VALUE_H_
