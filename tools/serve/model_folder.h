// ModelFolder: what lies in the folder that a server serves, looked at without opening a plan.
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
  std::string plan;  // the file
  std::string
      fingerprint;  // another one: another file lies there, or another signature or other texts beside it
};

struct FoundModel {
  std::string folder;                        // of the model's own; "" for a single file
  std::map<int64_t, FoundVersion> versions;  // none: `problem` says why
  std::string problem;
};

// By name. kIo if the folder cannot be read. Hidden files and folders are no models.
Result<std::map<std::string, FoundModel>> ReadModelFolder(const std::string& folder);

}  // namespace rondo::serve
