// EXPECT_SAYS(status, words): an error whose sentence has these words.
#ifndef RONDO_TESTS_CUDA_FAKE_SAYS_H_
#define RONDO_TESTS_CUDA_FAKE_SAYS_H_

#include <gtest/gtest.h>

#include <string>

#include "core/status.h"

#define EXPECT_SAYS(status, words)                                                                         \
  do {                                                                                                     \
    const ::rondo::Status says_status = (status);                                                          \
    ASSERT_FALSE(says_status.ok());                                                                        \
    EXPECT_NE(std::string(says_status.message()).find(words), std::string::npos) << says_status.message(); \
  } while (0)

#endif  // RONDO_TESTS_CUDA_FAKE_SAYS_H_
