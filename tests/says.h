// EXPECT_SAYS: for tests of the sentences that errors are.
#ifndef RONDO_TESTS_SAYS_H_
#define RONDO_TESTS_SAYS_H_

#include <gtest/gtest.h>

#include <string>

#include "core/status.h"

// `status` is an error whose message has `words`. Ends the function otherwise, if there is no error.
#define EXPECT_SAYS(status, words)                                                                         \
  do {                                                                                                     \
    const Status says_status = (status);                                                                   \
    ASSERT_FALSE(says_status.ok());                                                                        \
    EXPECT_NE(std::string(says_status.message()).find(words), std::string::npos) << says_status.message(); \
  } while (0)

#endif  // RONDO_TESTS_SAYS_H_
