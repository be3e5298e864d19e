// OptionSet: what the command line of one subcommand may say. A thin face over CLI11, so that only options.cc
// and completion.cc compile it.
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

// Words that an option's value may be, or begin with, beside those of its form: what shells complete.
using Suggestions = std::map<const CLI::Option*, std::vector<std::string>>;

// What is said of options beside what CLI11 knows.
struct OptionNotes {
  Suggestions suggestions;
  std::set<const CLI::Option*> rare;  // shown by --help-all, not by --help
};

// Declares options whose values go into the caller's variables, which must outlive the parsing and keep their
// value when the option is not given. Names are as CLI11 takes them: "-o,--output".
class OptionSet {
 public:
  OptionSet(CLI::App* app, OptionNotes* notes) : app_(app), notes_(notes) {}

  // The options declared from here on stand under this title.
  OptionSet& Group(const char* title);

  OptionSet& Flag(const char* names, bool* value, const char* help);
  // A `form` of words with '|' between, as "npy|pb", allows these alone.
  OptionSet& Text(const char* names, std::string* value, const char* help, const char* form = "TEXT",
                  bool required = false);
  // May be given several times, each with one value.
  OptionSet& Texts(const char* names, std::vector<std::string>* values, const char* help,
                   const char* form = "TEXT");
  OptionSet& Integer(const char* names, int64_t* value, int64_t least, int64_t most, const char* help,
                     const char* form = "N");
  OptionSet& Number(const char* names, double* value, const char* help, const char* form = "X");
  // Options that are declared already, and are not given together.
  OptionSet& NotTogether(const char* name, const char* other);
  // Arguments without a name. `most` < 0: any number.
  OptionSet& Positional(const char* name, std::vector<std::string>* values, int least, int most,
                        const char* help);
  // The option declared last is one that few need: --help-all shows it, --help does not.
  OptionSet& Rare();
  // What shells offer for the option that was declared last.
  OptionSet& Suggest(std::vector<std::string> words);

  // After parsing, and as long as the command runs: the options that were given, but those of `without`
  // (their long names), as text in the order in which they were declared: "--tp 2 --shape x=1". Of paths
  // given to those of `bare`, the last part.
  std::string Given(const std::vector<std::string>& without, const std::vector<std::string>& bare) const;

 private:
  // Puts an option that was declared now under its title.
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
  // Does the work after the command line was understood. Returns the exit status: 0, 1 (it failed) or 2
  // (used wrongly); errors have been printed to standard error.
  virtual int Run() = 0;
};

// Gives `command`, called `name` in what it says, `words` as its command line, and runs it: for commands
// whose work begins with another's. Returns its exit status.
int RunAs(const char* name, Command* command, const std::vector<std::string>& words);

struct CommandEntry {
  const char* name;
  const char* summary;   // one sentence without a final full stop
  const char* examples;  // lines of commands, shown by --help
  std::unique_ptr<Command> (*make)();
};

// Parses the command line, runs what it names, returns the exit status. Once a process: where memory runs
// out, the process ends with a sentence and 1.
int RunCommandLine(const std::vector<CommandEntry>& commands, int argc, char** argv);

}  // namespace rondo::tools
