// OpenDims: the dims of inputs that a model leaves open, for the error that asks for their values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace rondo::importer {

class OpenDims {
 public:
  bool empty() const { return texts_.empty(); }
  // Adds a symbol and its place. Only the first place of a symbol counts.
  void AddSymbol(const std::string& symbol, const std::string& input, int axis);
  // Adds a dimension without a name.
  void AddAxis(const std::string& input, int axis);
  // Adds an input whose rank is unknown.
  void AddInput(const std::string& input);
  // Adds an input with unnamed dimensions; `dims` has 1 for each open one.
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
