// DeviceHints: what a model itself says of the devices that it is to be shared out over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rondo {

// How one value is dealt out: seen as [elements / (parts * run), parts, run], device r of a stage holds part
// r / copies of the middle. Parts 1: every device holds all of it.
struct ShareHint {
  std::string value;  // its name in the model
  std::string node;   // `Op "node"` that says so
  int64_t elements = 0, parts = 1, run = 0, copies = 1;
};

struct DeviceHints {
  std::string configuration;  // the name of what was read; empty: the model says nothing for so many devices
  std::vector<ShareHint> shares;      // one a value
  std::map<std::string, int> stages;  // by `Op "node"`: of a pipeline
  std::vector<std::string>
      not_used;  // for people: hints that are left out, each with its node and the reason
};

}  // namespace rondo
