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
#include "runtime/verify/value_names.h"
#include "tools/rondo/build.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/completion.h"

namespace rondo::tools {
namespace {

// Accepts only decimal digits. CLI11 itself reads 010 as 8, and clamps numbers beyond 64 bits. `text` is
// changed so that CLI11 reads it as meant.
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

std::string Joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

constexpr size_t kHelpWidth = 100, kHelpColumn = 30;  // characters of a line, and before the help

// Formats the help of options, with lines broken at words.
class Formatter : public CLI::Formatter {
 public:
  explicit Formatter(const OptionNotes* notes) : notes_(notes) { column_width(kHelpColumn); }
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return make_description(app) + make_usage(app, name) + make_positionals(app) + Groups(app, mode) +
           make_subcommands(app, mode) + "\n" + make_footer(app);
  }
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

 private:
  // Options by group in the order of declaration; help itself comes in the last group.
  std::string Groups(const CLI::App* app, CLI::AppFormatMode mode) const {
    std::vector<std::pair<std::string, std::vector<const CLI::Option*>>> groups;
    std::vector<const CLI::Option*> helps;
    size_t left_out = 0;
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) continue;
      if (option == app->get_help_ptr() || option == app->get_help_all_ptr()) {
        helps.push_back(option);
        continue;
      }
      if (notes_->rare.count(option) != 0 && mode != CLI::AppFormatMode::All) {
        ++left_out;
        continue;
      }
      const auto is_its = [&](const auto& group) { return group.first == option->get_group(); };
      auto group = std::find_if(groups.begin(), groups.end(), is_its);
      if (group == groups.end()) group = groups.insert(groups.end(), {option->get_group(), {}});
      group->second.push_back(option);
    }
    if (groups.empty()) groups.push_back({"Options", {}});
    groups.back().second.insert(groups.back().second.end(), helps.begin(), helps.end());
    std::string text;
    for (const auto& [title, options] : groups) text += make_group(title, false, options);
    if (left_out > 0) {
      text += "\n" + std::to_string(left_out) + " options that few need: rondo " + app->get_name() +
              " --help-all\n";
    }
    return text;
  }

  const OptionNotes* const notes_;
};

std::string Footer(const char* examples) { return std::string("Examples:\n") + examples; }

std::string VersionText() {
  return std::string(kBuild) + ", plan format " + std::to_string(kPlanMajor) + "." +
         std::to_string(kPlanMinor);
}

// Accepts one of `words`. The message ends a sentence that begins with the option.
CLI::Validator OneOf(const std::vector<std::string>& words) {
  const auto check = [words](std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    return text + " is none of " + Joined(words, ", ");
  };
  return CLI::Validator(check, "");
}

// Output may still be in a buffer: a full disk is only noticed here.
int WithOutputWritten(const char* command, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fprintf(stderr, "rondo %s: standard output cannot be written\n", command);
  return status == 0 ? 1 : status;
}

}  // namespace

std::string OptionSet::Given(const std::vector<std::string>& without,
                             const std::vector<std::string>& bare) const {
  const auto among = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::string text;
  for (const CLI::Option* option : app_->get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (among(without, name)) continue;
    const bool flag = option->get_items_expected_max() == 0;
    for (const std::string& value : option->results()) {
      const size_t slash = among(bare, name) ? value.rfind('/') : std::string::npos;
      text += (text.empty() ? "--" : " --") + name;
      if (!flag) text += " " + (slash == std::string::npos ? value : value.substr(slash + 1));
    }
  }
  return text;
}

OptionSet& OptionSet::Group(const char* title) {
  group_ = title;
  return *this;
}

OptionSet& OptionSet::Rare() {
  notes_->rare.insert(app_->get_options().back());
  return *this;
}

CLI::Option* OptionSet::Grouped(CLI::Option* option) const { return option->group(group_); }

OptionSet& OptionSet::Flag(const char* names, bool* value, const char* help) {
  Grouped(app_->add_flag(names, *value, help));
  return *this;
}

OptionSet& OptionSet::Text(const char* names, std::string* value, const char* help, const char* form,
                           bool required) {
  CLI::Option* option = Grouped(app_->add_option(names, *value, help))->type_name(form)->required(required);
  if (const std::vector<std::string> words = WordsOfForm(form); !words.empty()) option->check(OneOf(words));
  return *this;
}

OptionSet& OptionSet::Texts(const char* names, std::vector<std::string>* values, const char* help,
                            const char* form) {
  Grouped(app_->add_option(names, *values, help))->type_name(form)->allow_extra_args(false);
  return *this;
}

OptionSet& OptionSet::Integer(const char* names, int64_t* value, int64_t least, int64_t most,
                              const char* help, const char* form) {
  Grouped(app_->add_option(names, *value, help))->transform(DecimalWithin(least, most))->type_name(form);
  return *this;
}

OptionSet& OptionSet::Number(const char* names, double* value, const char* help, const char* form) {
  Grouped(app_->add_option(names, *value, help))->type_name(form);
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

OptionSet& OptionSet::Suggest(std::vector<std::string> words) {
  notes_->suggestions[app_->get_options().back()] = std::move(words);
  return *this;
}

namespace {

// The option of `parser` called `name` ("--shape", "-o"); null if there is none.
const CLI::Option* OptionOf(const CLI::App& parser, const std::string& name) {
  return parser.get_option_no_throw(name);
}

std::string Nearest(const CLI::App& parser, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::Option* option : parser.get_options()) {
    for (const std::string& one : option->get_lnames()) names.push_back("--" + one);
    for (const std::string& one : option->get_snames()) names.push_back("-" + one);
  }
  return std::string(NearestName(name, {names.begin(), names.end()}));
}

// Arguments of a command that do not match its options.
struct Misfit {
  std::string unknown;                   // an option that the command does not have
  std::vector<std::string> positionals;  // arguments without a name
};

// Divides `words` after the command's name as CLI11 does.
Misfit PartWords(const CLI::App& parser, const std::vector<std::string>& words) {
  Misfit found;
  bool options_end = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (options_end || word.size() < 2 || word[0] != '-') {
      found.positionals.push_back(word);
      continue;
    }
    if (word == "--") {
      options_end = true;
      continue;
    }
    const bool is_long = word[1] == '-';
    const size_t equals = word.find('=');
    for (size_t at = 1; at < (is_long ? 2 : word.size()); ++at) {
      const std::string name = is_long ? word.substr(0, equals) : std::string("-") + word[at];
      const CLI::Option* option = OptionOf(parser, name);
      if (option == nullptr) {
        found.unknown = name;
        return found;
      }
      if (option->get_items_expected_max() == 0) continue;
      const bool holds_value = is_long ? equals != word.npos : at + 1 < word.size();
      i += holds_value ? 0 : 1;
      break;
    }
  }
  return found;
}

// What is wrong with `words`, before CLI11 reports it in its own way; "" if nothing is.
std::string WhatIsWrong(const CLI::App& parser, const std::vector<std::string>& words) {
  const Misfit found = PartWords(parser, words);
  if (!found.unknown.empty()) {
    return "there is no option " + found.unknown + " of rondo " + parser.get_name() + "; the nearest is " +
           Nearest(parser, found.unknown);
  }
  int most = 0;
  std::string name = "argument without an option";
  for (const CLI::Option* option : parser.get_options()) {
    if (!option->get_positional()) continue;
    most = option->get_items_expected_max();
    name = option->get_name(true);
  }
  if (found.positionals.size() <= static_cast<size_t>(most)) return "";
  return "at most " + std::to_string(most) + " " + name + " can be given, and here are " +
         std::to_string(found.positionals.size()) + ": " + Joined(found.positionals, ", ");
}

// Parses the command line and runs the command that it names.
class CommandLine {
 public:
  CommandLine(const std::vector<CommandEntry>& commands, int argc, char** argv)
      : commands_(commands), words_(argv + 1, argv + std::max(argc, 1)) {
    const auto end = std::find(words_.begin(), words_.end(), "--");
    json_ = std::find(words_.begin(), end, "--json") != end;
    app_.formatter(std::make_shared<Formatter>(&notes_));
    app_.require_subcommand(1);
    app_.set_version_flag("--version", VersionText(), "print the version, and which plans it reads");
    app_.footer(
        "Exit status: 0, 1 when the thing failed, 2 when used wrongly. `rondo help COMMAND` says more.");
    for (const CommandEntry& entry : commands) {
      CLI::App* parser = app_.add_subcommand(entry.name, entry.summary);
      parser->footer(Footer(entry.examples));
      made_.push_back(entry.make());
      OptionSet options(parser, &notes_);
      made_.back()->Declare(options);
      if (HasRare(*parser)) parser->set_help_all_flag("--help-all", "the same, with options that few need");
      parsers_.push_back(parser);
    }
    help_ = app_.add_subcommand("help", "Say what a command does and which options it has");
    OptionSet(help_, &notes_).Positional("COMMAND", &help_of_, 0, 1, "the command; by default all");
    std::vector<std::string> names;
    for (const CommandEntry& entry : commands) names.emplace_back(entry.name);
    notes_.suggestions[help_->get_options().back()] = names;
    completion_ = app_.add_subcommand("completion", "Print what makes a shell complete rondo's options");
    completion_->footer(
        Footer("  source <(rondo completion bash)\n"
               "  rondo completion bash > ~/.local/share/bash-completion/completions/rondo\n"
               "  rondo completion zsh > ~/.zfunc/_rondo    # in a folder of $fpath\n"));
    OptionSet(completion_, &notes_).Positional("SHELL", &shell_, 1, 1, "bash or zsh");
    notes_.suggestions[completion_->get_options().back()] = {"bash", "zsh"};
  }

  int Run() {
    const CLI::App* parser = nullptr;
    if (!words_.empty() && words_[0].rfind('-', 0) != 0) {
      parser = Find(words_[0]);
      if (parser == nullptr) return NoCommand(words_[0]);
      running_ = parser->get_name();
      if (const std::string wrong = WhatIsWrong(*parser, {words_.begin() + 1, words_.end()}); !wrong.empty())
        return SayUsageError(running_, wrong, json_, 2);
    }
    try {
      std::vector<std::string> backwards(words_.rbegin(), words_.rend());
      app_.parse(backwards);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);
      return SayUsageError(running_, error.what(), json_, 2);
    }
    if (help_->parsed()) return Help();
    if (completion_->parsed()) return Completion();
    for (size_t i = 0; i < made_.size(); ++i) {
      if (parsers_[i]->parsed()) return WithOutputWritten(commands_[i].name, made_[i]->Run());
    }
    return 2;
  }

  // The command that runs, or "". json(): whether --json was given.
  const std::string& running() const { return running_; }
  bool json() const { return json_; }

 private:
  bool HasRare(const CLI::App& parser) const {
    const std::vector<const CLI::Option*> options = parser.get_options();
    return std::any_of(options.begin(), options.end(),
                       [&](const CLI::Option* option) { return notes_.rare.count(option) != 0; });
  }

  // Null if there is no such command.
  CLI::App* Find(const std::string& name) {
    for (CLI::App* one : app_.get_subcommands(nullptr)) {
      if (one->get_name() == name) return one;
    }
    return nullptr;
  }

  int NoCommand(const std::string& name) {
    std::vector<std::string> names;
    for (const CLI::App* one : app_.get_subcommands(nullptr)) names.push_back(one->get_name());
    return SayUsageError("", "there is no command \"" + name + "\"; there are: " + Joined(names, " "), json_,
                         2);
  }

  int Help() {
    const CLI::App* of = &app_;
    if (!help_of_.empty()) of = Find(help_of_[0]);
    if (of == nullptr) return NoCommand(help_of_[0]);
    const std::string name = app_.get_name() + (of == &app_ ? "" : " " + of->get_name());
    std::fputs(app_.get_formatter()->make_help(of, name, CLI::AppFormatMode::Normal).c_str(), stdout);
    return WithOutputWritten("help", 0);
  }

  int Completion() {
    const std::string script = CompletionScript(app_, notes_.suggestions, shell_[0]);
    if (script.empty())
      return SayUsageError(
          "completion", "there is no completion for the shell \"" + shell_[0] + "\"; there are bash and zsh",
          json_, 2);
    std::fputs(script.c_str(), stdout);
    return WithOutputWritten("completion", 0);
  }

  const std::vector<CommandEntry>& commands_;
  std::vector<std::string> words_, help_of_, shell_;
  std::string running_;
  bool json_ = false;
  CLI::App app_{"Rondo compiles ONNX models into plans, ahead of time, and replays them.", "rondo"};
  CLI::App *help_ = nullptr, *completion_ = nullptr;
  OptionNotes notes_;
  std::vector<std::unique_ptr<Command>> made_;
  std::vector<CLI::App*> parsers_;
};

char running[32] = "";  // the command, for WithoutMemory
constexpr char kNoMemory[] = "this machine's memory, or what this process may use of it, ran out";

// If memory runs out in a destructor, or in a library's thread, no exception reaches RunCommandLine.
[[noreturn]] void WithoutMemory() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "rondo %s: %s\n", running, kNoMemory);
    _exit(1);
  } catch (...) {
    // Another defect: the process should end visibly.
  }
  std::abort();
}

}  // namespace

int RunAs(const char* name, Command* command, const std::vector<std::string>& words) {
  CLI::App parser("", name);
  OptionNotes notes;
  OptionSet options(&parser, &notes);
  command->Declare(options);
  try {
    std::vector<std::string> backwards(words.rbegin(), words.rend());
    parser.parse(backwards);
  } catch (const CLI::ParseError& error) {
    return SayUsageError(name, error.what(), false, 2);
  }
  return command->Run();
}

int RunCommandLine(const std::vector<CommandEntry>& commands, int argc, char** argv) {
  for (const CommandEntry& entry : commands) {
    if (argc > 1 && std::string_view(entry.name) == argv[1])
      std::snprintf(running, sizeof(running), "%s", entry.name);
  }
  std::set_terminate(WithoutMemory);
  std::string failure;
  bool json = false;
  try {
    CommandLine line(commands, argc, argv);
    json = line.json();
    return line.Run();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "rondo %s: %s\n", running, kNoMemory);
    if (json)
      std::printf("{\"error\": {\"command\": \"%s\", \"message\": \"%s\", \"exit_status\": 1}}\n", running,
                  kNoMemory);
    return 1;
  } catch (const std::exception& e) {
    failure = e.what();
  }
  return SayUsageError(running, failure, json, 1);
}

}  // namespace rondo::tools
