// Names that inputs and outputs of models usually have.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace rondo::ir {

// The names that the output of state `input` usually has; some may be empty.
std::vector<std::string> StateOutputNames(const std::string& input);

// The number of the port of `ports` that is called `name`; -1 if none is.
template <typename Ports>
int FindPort(const Ports& ports, const std::string& name) {
  const auto found =
      std::find_if(ports.begin(), ports.end(), [&](const auto& port) { return port.name == name; });
  return found == ports.end() ? -1 : static_cast<int>(found - ports.begin());
}

// How many letters are put in, left out or exchanged between the two; of long ones, of their beginnings.
size_t LettersApart(const std::string& a, const std::string& b);

// Those of `names` that are most like `wanted`, in quotes with commas between; "none" if there are no names.
std::string NearNames(std::vector<std::string> names, const std::string& wanted);

}  // namespace rondo::ir
