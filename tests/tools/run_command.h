// Running programs as a user does: what they print, and how they end.
#ifndef RONDO_TESTS_TOOLS_RUN_COMMAND_H_
#define RONDO_TESTS_TOOLS_RUN_COMMAND_H_

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace rondo {

struct Outcome {
  int status = -1;   // exit status; -1 when a signal ended it
  std::string text;  // standard output and standard error together
};

// `command` is a line for the shell.
inline Outcome Shell(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) outcome.text.append(buffer, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

}  // namespace rondo

// What a program printed has `words`.
#define EXPECT_PRINTS(outcome, words) \
  EXPECT_NE((outcome).text.find(words), std::string::npos) << (outcome).text

#endif  // RONDO_TESTS_TOOLS_RUN_COMMAND_H_
