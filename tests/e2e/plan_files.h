// Plans in files, for tests of the C interface, whose headers do not go with the compiler's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

// An encoder (`ids` and `mask` to `hidden` and others) with batches of 1, 4 and 8, and sequences of 16 to 64.
// False if it cannot be made.
bool WriteBucketPlan(const std::string& path);
// "y" = -"x" with the order of dims reversed; "x" is f32 of `dims`. False if it cannot be made.
bool WriteReversedPlan(const std::string& path, const std::vector<int64_t>& dims);

}  // namespace rondo
