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

inline bool AppliesTo(const NodeAnnotation& annotation, std::string_view node) {
  const std::string_view pattern = annotation.node;
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

}  // namespace rondo

#endif  // RONDO_COMPILER_IR_NODE_ANNOTATION_H_
