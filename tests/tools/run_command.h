// Runs programs like a user; returns their output and exit status.
#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
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

// The same on a terminal with `columns` columns. Lines end with \r\n, as on terminals.
inline Outcome ShellOnTerminal(const std::string& command, unsigned short columns) {
  Outcome outcome;
  winsize size = {.ws_row = 50, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) return outcome;
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    std::_Exit(127);
  }
  char buffer[4096];
  for (ssize_t n; (n = read(terminal, buffer, sizeof(buffer))) > 0;) outcome.text.append(buffer, n);
  close(terminal);
  int status = 0;
  if (waitpid(child, &status, 0) == child && WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

}  // namespace rondo

// Expects that a program printed `words`.
#define EXPECT_PRINTS(outcome, words) \
  EXPECT_NE((outcome).text.find(words), std::string::npos) << (outcome).text
