// A plan of buckets in a file, for tests of the C interface, whose headers do not go with the compiler's.
#pragma once

#include <string>

namespace rondo {

// An encoder (`ids` and `mask` to `hidden` and others) with batches of 1, 4 and 8, and sequences of 16 to 64.
// False if it cannot be made.
bool WriteBucketPlan(const std::string& path);

}  // namespace rondo
