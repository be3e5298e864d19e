// EXPECT_SAYS: for tests of errors' sentences.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/status.h"

namespace rondo {

// Whether `message` has some "step N" more than once.
inline bool NamesAStepTwice(const std::string& message) {
  std::set<std::string> steps;
  const std::string word = "step ";
  for (size_t at = message.find(word); at != std::string::npos; at = message.find(word, at + 1)) {
    const size_t first = at + word.size(), end = message.find_first_not_of("0123456789", first);
    const std::string number = message.substr(first, end == std::string::npos ? end : end - first);
    if (!number.empty() && !steps.insert(number).second) return true;
  }
  return false;
}

}  // namespace rondo

// Expects that `status` is an error whose message has `words` and names no step twice. If there is no error,
// ends the calling function.
#define EXPECT_SAYS(status, words)                                                                         \
  do {                                                                                                     \
    const ::rondo::Status says_status = (status);                                                          \
    ASSERT_FALSE(says_status.ok());                                                                        \
    EXPECT_NE(std::string(says_status.message()).find(words), std::string::npos) << says_status.message(); \
    EXPECT_FALSE(::rondo::NamesAStepTwice(says_status.message())) << says_status.message();                \
  } while (0)
