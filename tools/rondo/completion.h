// CompletionScript: a script that makes a shell complete rondo's command line. It is generated from the
// options' declarations.
#pragma once

#include <string>
#include <vector>

#include "tools/rondo/options.h"

namespace rondo::tools {

// The words of "npy|pb"; none if the form is not such a list.
std::vector<std::string> WordsOfForm(const std::string& form);

// The script for `shell`, bash or zsh; "" for others. It completes subcommands, options, values from
// `suggestions` and from forms that are lists of words, and names of files and folders if a form says so
// (FILE, DIR, ...).
std::string CompletionScript(const CLI::App& app, const Suggestions& suggestions, const std::string& shell);

}  // namespace rondo::tools
