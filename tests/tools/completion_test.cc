// Completion in a real interactive shell: the test types keys and reads the result.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

// An interactive bash in `folder` that has read rondo's completion.
class Bash {
 public:
  explicit Bash(const std::string& folder) {
    winsize size = {.ws_row = 50, .ws_col = 400, .ws_xpixel = 0, .ws_ypixel = 0};
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      if (chdir(folder.c_str()) != 0) std::_Exit(126);
      setenv("TERM", "dumb", 1);
      setenv("PS1", "$ ", 1);
      execlp("bash", "bash", "--norc", "--noprofile", "-i", nullptr);
      std::_Exit(127);
    }
    Type("bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; rondo() { " RONDO_COMMAND
         " \"$@\"; }; source <(rondo completion bash); echo rea''dy\n");
    Until("ready\r\n");
  }
  ~Bash() {
    close(terminal_);
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  // The arguments of the command line that typing `keys` gives.
  std::string Arguments(const std::string& keys) {
    const std::string mark = "line" + std::to_string(++lines_) + ":";
    Type(keys + "\001echo " + mark.substr(0, 2) + "''" + mark.substr(2) + " \005\n");
    const std::string text = Until(mark + " ", "\r\n");
    return text;
  }

 private:
  void Type(const std::string& keys) const {
    ASSERT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Reads up to `begin`. Returns the text from there up to `end`.
  std::string Until(const std::string& begin, const std::string& end = "") {
    for (;;) {
      const size_t at = text_.find(begin);
      const size_t last = at == text_.npos ? at : text_.find(end, at + begin.size());
      if (last != text_.npos) {
        const std::string found = text_.substr(at + begin.size(), last - at - begin.size());
        text_.erase(0, last);
        return found;
      }
      pollfd ready = {terminal_, POLLIN, 0};
      char buffer[4096];
      if (poll(&ready, 1, 20000) <= 0) break;
      const ssize_t n = read(terminal_, buffer, sizeof(buffer));
      if (n <= 0) break;
      text_.append(buffer, static_cast<size_t>(n));
    }
    ADD_FAILURE() << "bash never says " << begin << ":\n" << text_;
    return "";
  }

  int terminal_ = -1, lines_ = 0;
  pid_t child_ = -1;
  std::string text_;
};

TEST(Completion, BashCompletesCommandsOptionsValuesAndFiles) {
  const TemporaryFolder folder;
  std::ofstream(folder.File("model one.onnx")) << "x";
  std::ofstream(folder.File("plan.rondo")) << "x";
  std::filesystem::create_directory(folder.File("outputs"));
  std::ofstream(folder.File("outputs.txt")) << "x";
  Bash bash(folder.string());
  const std::pair<const char*, const char*> cases[] = {
      {"rondo ins\t", "rondo inspect"},
      {"rondo comple\t", "rondo completion"},
      {"rondo completion z\t", "rondo completion zsh"},
      {"rondo help inspe\t", "rondo help inspect"},
      {"rondo run p --repe\t", "rondo run p --repeat"},
      {"rondo bench --json --device-m\t", "rondo bench --json --device-memory"},
      {"rondo compile --matm\t lib\t", "rondo compile --matmuls library"},
      {"rondo run p --format n\t", "rondo run p --format npy"},
      {"rondo run p --format=n\t", "rondo run p --format=npy"},
      {"rondo compile m --target ho\t", "rondo compile m --target host"},
      {"rondo compile m --target cuda:sm_90\t", "rondo compile m --target cuda:sm_90a"},
      {"rondo compile m --target host,cuda:sm_90\t", "rondo compile m --target host,cuda:sm_90a"},
      {"rondo compile m --dump-after recognise_at\t", "rondo compile m --dump-after recognise_attention"},
      {"rondo inspect pl\t", "rondo inspect plan.rondo"},
      {"rondo compile mod\t", "rondo compile model one.onnx"},
      {"rondo run p --input x=pl\t", "rondo run p --input x=plan.rondo"},
      {"rondo run p --output outp\t", "rondo run p --output outputs/"},
      {"rondo run p --threads pl\t", "rondo run p --threads pl"},
  };
  for (const auto& [keys, want] : cases) {
    std::string got = bash.Arguments(keys);
    got.erase(got.find_last_not_of(' ') + 1);
    EXPECT_EQ(got, want) << keys;
  }
}

TEST(Completion, ZshReadsItsScriptAndCompletes) {
  if (Shell("command -v zsh").status != 0) GTEST_SKIP() << "zsh is not installed";
  const TemporaryFolder folder;
  ASSERT_EQ(Shell(std::string(RONDO_COMMAND) + " completion zsh > " + folder.File("_rondo")).status, 0);
  const Outcome checked = Shell("zsh -n " + folder.File("_rondo"));
  EXPECT_EQ(checked.status, 0) << checked.text;
  // Completes in a separate zsh, which prints its list of matches.
  std::ofstream(folder.File("try.zsh"))
      << "zmodload zsh/zpty\nzpty z zsh -f -i\nzpty -w z 'PS1=; TERM=dumb; fpath=(" << folder.string()
      << " $fpath); autoload -Uz compinit; compinit -u -d " << folder.File("dump")
      << "; zstyle \":completion:*\" list-colors; print rea\"\"dy'\nzpty -r -m z log '*ready*'\n"
         "zpty -w -n z $'rondo run p --format n\\t\\x01print -r -- begin\"\"ning \\x05\\n'\n"
         "zpty -r -m z log '*beginning *npy*'\nprint -r -- \"$log\"\nzpty -d z\n";
  const Outcome tried = Shell("timeout 60 zsh -f " + folder.File("try.zsh"));
  EXPECT_PRINTS(tried, "beginning rondo run p --format npy");
}

TEST(Completion, AnotherShellIsRefused) {
  const Outcome outcome = Shell(std::string(RONDO_COMMAND) + " completion fish");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_PRINTS(outcome, "there is no completion for the shell \"fish\"; there are bash and zsh");
}

}  // namespace
}  // namespace rondo
