// SourceFiles: the files of the tree that people wrote.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/folders.h"

namespace rondo {

// The files whose names end with one of `extensions`, in order, with paths from the top folder.
inline std::vector<std::string> SourceFiles(const std::vector<std::string>& extensions) {
  namespace fs = std::filesystem;
  const fs::path root = SourceFolder();
  std::vector<std::string> files;
  for (const char* top : {"core", "formats", "compiler", "runtime", "drivers", "tests", "tools"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      if (std::find(extensions.begin(), extensions.end(), entry.path().extension()) != extensions.end())
        files.push_back(fs::relative(entry.path(), root).generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace rondo
