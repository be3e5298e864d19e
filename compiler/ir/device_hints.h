// DeviceHints: a model's own statements about the devices it is to be split over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rondo {

// The distribution of one value: seen as [elements / (parts * run), parts, run], device r of a stage holds
// part r / copies along the middle dimension. Parts 1: every device holds all of it.
struct ShareHint {
  std::string value;  // its name in the model
  std::string node;   // `Op "node"` with the hint
  int64_t elements = 0, parts = 1, run = 0, copies = 1;
};

struct DeviceHints {
  // The name of the configuration used; empty: the model has none for this many devices.
  std::string configuration;
  std::vector<ShareHint> shares;      // one for each value
  std::map<std::string, int> stages;  // by `Op "node"`: its pipeline stage
  std::vector<std::string> not_used;  // for people: unused hints, each with its node and the reason
};

}  // namespace rondo
