// A plan of buckets in a file, for tests of the C interface, whose headers do not go with the compiler's.
#ifndef RONDO_TESTS_E2E_BUCKET_PLAN_H_
#define RONDO_TESTS_E2E_BUCKET_PLAN_H_

#include <string>

namespace rondo {

// An encoder (`ids` and `mask` to `hidden` and others) with batches of 1, 4 and 8, and sequences of 16 to 64.
// False if it cannot be made.
bool WriteBucketPlan(const std::string& path);

}  // namespace rondo

#endif  // RONDO_TESTS_E2E_BUCKET_PLAN_H_
