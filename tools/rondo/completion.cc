#include "tools/rondo/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

namespace rondo::tools {
namespace {

// What an option or argument takes.
struct Takes {
  enum Kind { kNothing, kAnything, kWords, kFile, kFolder, kNamedFile } kind = kAnything;
  std::vector<std::string> words;  // of kWords
  std::string form;
};

constexpr std::pair<const char*, Takes::Kind> kForms[] = {
    {"F", Takes::kFile},      {"FILE", Takes::kFile},
    {"F.json", Takes::kFile}, {"PLAN", Takes::kFile},
    {"LIB.so", Takes::kFile}, {"MODEL", Takes::kFile},
    {"CSV", Takes::kFile},    {"DIR", Takes::kFolder},
    {"DIRS", Takes::kFolder}, {"NAME=FILE", Takes::kNamedFile}};

std::string Joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

Takes TakesOf(const CLI::Option& option, const Suggestions& suggestions) {
  Takes takes;
  takes.form = option.get_positional() ? option.get_name(true) : option.get_type_name();
  if (option.get_items_expected_max() == 0) {
    takes.kind = Takes::kNothing;
    return takes;
  }
  takes.words = WordsOfForm(takes.form);
  if (const auto found = suggestions.find(&option); found != suggestions.end()) takes.words = found->second;
  if (!takes.words.empty()) takes.kind = Takes::kWords;
  for (const auto& [form, kind] : kForms) {
    if (takes.form == form && takes.words.empty()) takes.kind = kind;
  }
  return takes;
}

std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return names;
}

// `text` between single quotes of a shell.
std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// --- bash

// The argument of the script's function _rondo_values: words, or a mark.
std::string BashValues(const Takes& takes) {
  switch (takes.kind) {
    case Takes::kWords: return Joined(takes.words, " ");
    case Takes::kFile:
    case Takes::kNamedFile: return "@file";
    case Takes::kFolder: return "@folder";
    case Takes::kNothing: return "";
    case Takes::kAnything: return "@anything";
  }
  return "";
}

constexpr char kBash[] = R"bash(
# Completes the word that the cursor is behind. Words are those between blanks: readline parts them at = and :, too.
_rondo() {
  local line=${COMP_LINE:0:COMP_POINT} command= values= word= head= i
  local -a given
  read -r -a given <<<"$line"
  [[ $line == *[[:space:]] ]] && given+=("")
  local last=$((${#given[@]} - 1))
  local full=${given[last]} previous=
  ((last > 1)) && previous=${given[last - 1]}
  for ((i = 1; i < last; ++i)); do
    [[ ${given[i]} == -* ]] || { command=${given[i]}; break; }
  done
  COMPREPLY=()
  compopt +o default 2>/dev/null
  if [[ -z $command ]]; then
    COMPREPLY=($(compgen -W "$(_rondo_options "")" -- "$full"))
    return
  fi
  word=$full
  if [[ $full == --*=* ]]; then
    values=$(_rondo_values "$command ${full%%=*}") word=${full#*=}
  elif [[ $previous == -* ]]; then
    values=$(_rondo_values "$command $previous")
  fi
  if [[ -z $values && $full == -* ]]; then
    COMPREPLY=($(compgen -W "$(_rondo_options "$command")" -- "$full"))
    return
  fi
  [[ -n $values ]] || values=$(_rondo_values "$command")
  case $values in
    @file) compopt -o default 2>/dev/null ;;  # readline's own, which quotes names
    @folder) compopt -o dirnames 2>/dev/null ;;
    @anything | '') ;;
    *)
      # Of a list with commas the last; what readline has parted off is not to be repeated.
      head=${word%"${word##*,}"}
      COMPREPLY=($(compgen -P "$head" -W "$values" -- "${word##*,}"))
      [[ $COMP_WORDBREAKS == *:* ]] && head=${word%"${word##*[:=]}"} || head=${word%"${word##*=}"}
      COMPREPLY=("${COMPREPLY[@]#"$head"}")
      ;;
  esac
}
complete -F _rondo rondo
)bash";

std::string BashScript(const CLI::App& app, const Suggestions& suggestions) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : NamesOf(*option)) names.push_back(name);
  }
  std::string options = "  case $1 in\n    '') echo " + Quoted(Joined(names, " ")) + " ;;\n";
  std::string values = "  case $1 in\n";
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    std::vector<std::string> own;
    for (const CLI::Option* option : command->get_options()) {
      const std::string takes = BashValues(TakesOf(*option, suggestions));
      if (option->get_positional())
        values += "    " + command->get_name() + ") echo " + Quoted(takes) + " ;;\n";
      if (option->get_positional()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : NamesOf(*option)) {
        own.push_back(name);
        patterns.push_back(Quoted(command->get_name() + " " + name));
      }
      if (!takes.empty()) values += "    " + Joined(patterns, " | ") + ") echo " + Quoted(takes) + " ;;\n";
    }
    options += "    " + command->get_name() + ") echo " + Quoted(Joined(own, " ")) + " ;;\n";
  }
  return "# Completion of rondo for bash, as `rondo completion bash` writes it.\n\n"
         "# The options of a command; of none, the commands.\n_rondo_options() {\n" +
         options +
         "  esac\n}\n\n# What an option (\"run --format\") or a command's arguments (\"run\") may be.\n"
         "_rondo_values() {\n" +
         values + "  esac\n}\n" + kBash;
}

// --- zsh

// Escapes the characters that end a part of an _arguments specification.
std::string ZshText(const std::string& text, const char* special) {
  std::string escaped;
  for (const char c : text) {
    if (std::string(special).find(c) != std::string::npos) escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string ZshAction(const Takes& takes) {
  switch (takes.kind) {
    case Takes::kWords: {
      std::vector<std::string> words;
      for (const std::string& word : takes.words) words.push_back(ZshText(word, ":()"));
      return "(" + Joined(words, " ") + ")";
    }
    case Takes::kFile: return "_files";
    case Takes::kNamedFile: return "{compset -P \"*=\"; _files}";
    case Takes::kFolder: return "_files -/";
    default: return " ";
  }
}

std::string ZshScript(const CLI::App& app, const Suggestions& suggestions) {
  std::string commands, cases;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    commands += "    " + Quoted(ZshText(command->get_name(), ":") + ":" + command->get_description()) + "\n";
    cases += "    " + command->get_name() + ")\n      _arguments -s";
    for (const CLI::Option* option : command->get_options()) {
      const Takes takes = TakesOf(*option, suggestions);
      const std::string what = ":" + ZshText(takes.form, ":") + ":" + ZshAction(takes);
      if (option->get_positional()) cases += " \\\n        " + Quoted("*" + what);
      if (option->get_positional()) continue;
      for (const std::string& name : NamesOf(*option)) {
        const bool with_value = takes.kind != Takes::kNothing, is_long = name.size() > 2;
        cases += " \\\n        " +
                 Quoted("*" + name + (with_value ? (is_long ? "=" : "+") : "") + "[" +
                        ZshText(option->get_description(), "[]:\\") + "]" + (with_value ? what : ""));
      }
    }
    cases += "\n      ;;\n";
  }
  return "#compdef rondo\n# Completion of rondo for zsh, as `rondo completion zsh` writes it.\n\n_rondo() {\n"
         "  local -a commands=(\n" +
         commands +
         "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n  shift words\n"
         "  ((--CURRENT))\n  case $words[1] in\n" +
         cases +
         "  esac\n}\n\nif [[ $funcstack[1] == _rondo ]]; then _rondo \"$@\"; else compdef _rondo rondo; fi\n";
}

}  // namespace

std::vector<std::string> WordsOfForm(const std::string& form) {
  std::vector<std::string> words(1);
  for (const char c : form) {
    if (c == '|') {
      words.emplace_back();
    } else if (std::isupper(static_cast<unsigned char>(c)) != 0) {
      return {};
    } else {
      words.back() += c;
    }
  }
  return words.size() < 2 ? std::vector<std::string>() : words;
}

std::string CompletionScript(const CLI::App& app, const Suggestions& suggestions, const std::string& shell) {
  if (shell == "bash") return BashScript(app, suggestions);
  return shell == "zsh" ? ZshScript(app, suggestions) : "";
}

}  // namespace rondo::tools
