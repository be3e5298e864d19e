#include "tools/rondo/options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "formats/plan/format.h"

namespace rondo::tools {
namespace {

// Decimal digits, and nothing else: CLI11's own reading takes 010 for 8, and what 64 bits do not hold for the
// greatest number that they do. What is left in `text` is read as it is meant.
CLI::Validator DecimalWithin(int64_t least, int64_t most) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  const auto check = [=](std::string& text) -> std::string {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
      return "Value " + text + " not in range " + range;
    text = std::to_string(number);
    return "";
  };
  return CLI::Validator(check, "INT in [" + std::to_string(least) + " - " + std::to_string(most) + "]");
}

constexpr size_t kHelpWidth = 100, kHelpColumn = 30;  // characters of a line, and before what it says

// What an option is for, in lines that end at a word.
class Formatter : public CLI::Formatter {
 public:
  Formatter() { column_width(kHelpColumn); }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::istringstream words(CLI::Formatter::make_option_desc(option));
    std::string text, word;
    size_t used = 0;  // of the line
    while (words >> word) {
      const bool fits = used + 1 + word.size() <= kHelpWidth - kHelpColumn;
      if (!text.empty()) text += fits ? ' ' : '\n';
      used = fits && used > 0 ? used + 1 + word.size() : word.size();
      text += word;
    }
    return text;
  }
};

std::string Footer(const char* examples) { return std::string("Examples:\n") + examples; }

std::string VersionText() {
  return "rondo " RONDO_VERSION ", plan format " + std::to_string(kPlanMajor) + "." +
         std::to_string(kPlanMinor);
}

// What was printed may still wait in a buffer: a full disk shows only now.
int WithOutputWritten(const char* command, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fprintf(stderr, "rondo %s: standard output cannot be written\n", command);
  return status == 0 ? 1 : status;
}

}  // namespace

OptionSet& OptionSet::Flag(const char* names, bool* value, const char* help) {
  app_->add_flag(names, *value, help);
  return *this;
}

OptionSet& OptionSet::Text(const char* names, std::string* value, const char* help, const char* form,
                           bool required) {
  app_->add_option(names, *value, help)->type_name(form)->required(required);
  return *this;
}

OptionSet& OptionSet::Texts(const char* names, std::vector<std::string>* values, const char* help,
                            const char* form) {
  app_->add_option(names, *values, help)->type_name(form)->allow_extra_args(false);
  return *this;
}

OptionSet& OptionSet::Integer(const char* names, int64_t* value, int64_t least, int64_t most,
                              const char* help, const char* form) {
  app_->add_option(names, *value, help)->transform(DecimalWithin(least, most))->type_name(form);
  return *this;
}

OptionSet& OptionSet::Number(const char* names, double* value, const char* help, const char* form) {
  app_->add_option(names, *value, help)->type_name(form);
  return *this;
}

OptionSet& OptionSet::NotTogether(const char* name, const char* other) {
  app_->get_option(name)->excludes(app_->get_option(other));
  return *this;
}

OptionSet& OptionSet::Positional(const char* name, std::vector<std::string>* values, int least, int most,
                                 const char* help) {
  CLI::Option* option = app_->add_option(name, *values, help)->type_name("");
  option->expected(least, most < 0 ? CLI::detail::expected_max_vector_size : most);
  if (least > 0) option->required();
  return *this;
}

namespace {

// Reads the command line and runs the command that it names.
int Run(const std::vector<CommandEntry>& commands, int argc, char** argv) {
  CLI::App app("Rondo compiles ONNX models into plans, ahead of time, and replays them.", "rondo");
  app.formatter(std::make_shared<Formatter>());
  app.require_subcommand(1);
  app.set_version_flag("--version", VersionText(), "print the version, and which plans it reads");
  app.footer(
      "Exit status: 0, 1 when the thing failed, 2 when used wrongly. `rondo COMMAND --help` says more.");
  app.failure_message(CLI::FailureMessage::simple);

  std::vector<std::unique_ptr<Command>> made;
  std::vector<CLI::App*> parsers;
  for (const CommandEntry& entry : commands) {
    CLI::App* parser = app.add_subcommand(entry.name, entry.summary);
    parser->footer(Footer(entry.examples));
    made.push_back(entry.make());
    OptionSet options(parser);
    made.back()->Declare(options);
    parsers.push_back(parser);
  }
  const auto is_asked_for = [&](const CommandEntry& entry) { return std::string(entry.name) == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::none_of(commands.begin(), commands.end(), is_asked_for)) {
    std::string names;
    for (const CommandEntry& entry : commands) names += std::string(" ") + entry.name;
    std::fprintf(stderr, "rondo: there is no command \"%s\"; there are:%s\n", argv[1], names.c_str());
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (size_t i = 0; i < made.size(); ++i) {
    if (parsers[i]->parsed()) return WithOutputWritten(commands[i].name, made[i]->Run());
  }
  return 2;
}

}  // namespace

namespace {

const char* running = "";  // the command, for WithoutMemory
constexpr char kNoMemory[] = "this machine's memory, or what this process may use of it, ran out";

// Where memory runs out in a destructor, or in a thread of a library, no exception gets to RunCommandLine.
[[noreturn]] void WithoutMemory() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "rondo %s: %s\n", running, kNoMemory);
    _exit(1);
  } catch (...) {
    // Another defect, with which the process is better seen to end.
  }
  std::abort();
}

}  // namespace

int RunCommandLine(const std::vector<CommandEntry>& commands, int argc, char** argv) {
  if (argc > 1) running = argv[1];
  std::set_terminate(WithoutMemory);
  try {
    return Run(commands, argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "rondo %s: %s\n", running, kNoMemory);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rondo %s: %s\n", running, e.what());
  }
  return 1;
}

}  // namespace rondo::tools
