// OpenDims: the dims of the inputs that a model leaves open, for the error that asks for their values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace rondo::importer {

class OpenDims {
 public:
  bool empty() const { return texts_.empty(); }
  // A symbol, where it stands; only the first place of one counts.
  void AddSymbol(const std::string& symbol, const std::string& input, int axis);
  // A dimension without a name.
  void AddAxis(const std::string& input, int axis);
  // An input of which not even the rank is known.
  void AddInput(const std::string& input);
  // An input that has dimensions without a name, with 1 for what is open.
  void AddShape(const std::string& input, const std::vector<int64_t>& dims);

  // "\"batch\" (input \"x\", axis 0), axis 2 of input \"y\"".
  std::string Text() const;
  // "--shape batch=1 --shape y=1x3x1", for a shell.
  std::string Line() const;

 private:
  void AddOption(const std::string& name, const std::string& value);
  std::set<std::string> symbols_;
  std::vector<std::string> texts_, options_;
};

}  // namespace rondo::importer
