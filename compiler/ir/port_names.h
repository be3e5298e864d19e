// Conventions for names of inputs and outputs.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace rondo::ir {

// The usual names for the output of state `input`; some may be empty.
std::vector<std::string> StateOutputNames(const std::string& input);

// The index of the port of `ports` called `name`; -1 if there is none.
template <typename Ports>
int FindPort(const Ports& ports, const std::string& name) {
  const auto found =
      std::find_if(ports.begin(), ports.end(), [&](const auto& port) { return port.name == name; });
  return found == ports.end() ? -1 : static_cast<int>(found - ports.begin());
}

// The number of letters inserted, omitted or exchanged between the two; for long names only their beginnings
// count.
size_t LettersApart(const std::string& a, const std::string& b);

// The `names` most similar to `wanted`, quoted and separated by commas; "none" if there are no names.
std::string NearNames(std::vector<std::string> names, const std::string& wanted);

}  // namespace rondo::ir
