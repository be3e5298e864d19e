// ModelFolder: the contents of the folder that a server serves, read without opening a plan.
//
//   FOLDER/m.rondo               model m, version 1
//   FOLDER/m/model.rondo         the same; the only *.rondo of the folder
//   FOLDER/m/3/model.rondo       model m, version 3: of several, the greatest is served
//   FOLDER/m/tokenizer.json ...  makes m's tokens text (language_model.h)
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/status.h"

namespace rondo::serve {

struct FoundVersion {
  std::string plan;         // the plan file
  std::string fingerprint;  // changes when the file, its signature or the texts beside it change
};

struct FoundModel {
  std::string folder;                        // the model's own folder; "" for a single file
  std::map<int64_t, FoundVersion> versions;  // empty: `problem` says why
  std::string problem;
};

// By name. kIo if the folder cannot be read. Hidden files and folders are ignored.
Result<std::map<std::string, FoundModel>> ReadModelFolder(const std::string& folder);

}  // namespace rondo::serve
