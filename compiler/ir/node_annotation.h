// NodeAnnotation: what somebody says about nodes of a model, from outside of it.
#ifndef RONDO_COMPILER_IR_NODE_ANNOTATION_H_
#define RONDO_COMPILER_IR_NODE_ANNOTATION_H_

#include <string>
#include <string_view>

namespace rondo {

struct NodeAnnotation {
  std::string node;        // the name of an ONNX node; '*' stands for any characters, or none
  std::string key, value;  // "stream", "1"
};

// Whether `pattern`, in which '*' stands for any characters, is of the node called `node`.
inline bool AppliesTo(std::string_view pattern, std::string_view node) {
  size_t at = 0, in = 0;                             // in the pattern, in the name
  size_t star = std::string_view::npos, resume = 0;  // the last '*', and how far it has gone
  while (in < node.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      resume = in;
    } else if (at < pattern.size() && pattern[at] == node[in]) {
      ++at;
      ++in;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in = ++resume;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

// Whether the annotation `key` says in what order nodes run, with names (each may have '*', commas between)
// as its value: the node runs `after` those, or `needs` them: then they are kept as long as it is.
inline bool IsOrder(std::string_view key) { return key == "after" || key == "needs"; }

}  // namespace rondo

#endif  // RONDO_COMPILER_IR_NODE_ANNOTATION_H_
