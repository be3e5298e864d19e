// OptionSet: the command-line options of one subcommand. A thin layer over CLI11, so that only options.cc and
// completion.cc compile it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rondo::tools {

// Words that an option's value may be or begin with, in addition to those of its form; for shell completion.
using Suggestions = std::map<const CLI::Option*, std::vector<std::string>>;

// Notes on options that CLI11 does not hold.
struct OptionNotes {
  Suggestions suggestions;
  std::set<const CLI::Option*> rare;  // shown by --help-all, not by --help
};

// Declares options whose values go into the caller's variables. These must outlive the parsing, and keep
// their value if the option is not given. Names are in CLI11's form: "-o,--output".
class OptionSet {
 public:
  OptionSet(CLI::App* app, OptionNotes* notes) : app_(app), notes_(notes) {}

  // Options declared after this call are listed under this title.
  OptionSet& Group(const char* title);

  OptionSet& Flag(const char* names, bool* value, const char* help);
  // A `form` of words separated by '|', such as "npy|pb", allows only these words.
  OptionSet& Text(const char* names, std::string* value, const char* help, const char* form = "TEXT",
                  bool required = false);
  // An option that may be given several times, each time with one value.
  OptionSet& Texts(const char* names, std::vector<std::string>* values, const char* help,
                   const char* form = "TEXT");
  OptionSet& Integer(const char* names, int64_t* value, int64_t least, int64_t most, const char* help,
                     const char* form = "N");
  OptionSet& Number(const char* names, double* value, const char* help, const char* form = "X");
  // Two declared options that must not be given together.
  OptionSet& NotTogether(const char* name, const char* other);
  // Arguments without a name. `most` < 0: any number.
  OptionSet& Positional(const char* name, std::vector<std::string>* values, int least, int most,
                        const char* help);
  // Marks the last declared option as rare: --help-all shows it, but --help does not.
  OptionSet& Rare();
  // Adds words that shells offer for the last declared option.
  OptionSet& Suggest(std::vector<std::string> words);

  // After parsing, while the command runs: the given options without those in `without` (long names), as text
  // in the order of declaration: "--tp 2 --shape x=1". Paths given to options in `bare` are reduced to their
  // last part.
  std::string Given(const std::vector<std::string>& without, const std::vector<std::string>& bare) const;

 private:
  // Puts the just declared option under the current title.
  CLI::Option* Grouped(CLI::Option* option) const;

  CLI::App* app_;
  OptionNotes* notes_;
  std::string group_ = "Options";
};

// One subcommand of `rondo`.
class Command {
 public:
  virtual ~Command() = default;
  // Adds its options. Called once.
  virtual void Declare(OptionSet& options) = 0;
  // Does the work after the command line was parsed. Returns the exit status: 0, 1 (failed) or 2 (wrong
  // usage). Errors have been printed to standard error.
  virtual int Run() = 0;
};

// Runs `command` with the command line `words`; its messages call it `name`. For commands that begin with
// another command's work. Returns its exit status.
int RunAs(const char* name, Command* command, const std::vector<std::string>& words);

struct CommandEntry {
  const char* name;
  const char* summary;   // one sentence without a final full stop
  const char* examples;  // lines of commands, shown by --help
  std::unique_ptr<Command> (*make)();
};

// Parses the command line, runs the named command and returns the exit status. Called once per process. If
// memory runs out, the process ends with a message and status 1.
int RunCommandLine(const std::vector<CommandEntry>& commands, int argc, char** argv);

}  // namespace rondo::tools
