// CompletionScript: a script that makes a shell complete rondo's command line, generated from the
// declarations of its options.
#pragma once

#include <string>
#include <vector>

#include "tools/rondo/options.h"

namespace rondo::tools {

// The words of "npy|pb"; none if the form is not such a list.
std::vector<std::string> WordsOfForm(const std::string& form);

// For `shell`, bash or zsh; "" for another. Completed are subcommands, options, values from `suggestions` and
// from forms that are lists of words, and names of files and folders where a form says so (FILE, DIR, ...).
std::string CompletionScript(const CLI::App& app, const Suggestions& suggestions, const std::string& shell);

}  // namespace rondo::tools
