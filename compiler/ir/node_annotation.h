// NodeAnnotation: what somebody says about nodes of a model, from outside of it.
#ifndef RONDO_COMPILER_IR_NODE_ANNOTATION_H_
#define RONDO_COMPILER_IR_NODE_ANNOTATION_H_

#include <string>
#include <string_view>

namespace rondo {

struct NodeAnnotation {
  std::string node;        // the name of an ONNX node; with '*' at its end, of all that begin so
  std::string key, value;  // "stream", "1"
};

inline bool AppliesTo(const NodeAnnotation& annotation, std::string_view node) {
  const std::string_view pattern = annotation.node;
  if (pattern.empty() || pattern.back() != '*') return node == pattern;
  return node.substr(0, pattern.size() - 1) == pattern.substr(0, pattern.size() - 1);
}

}  // namespace rondo

#endif  // RONDO_COMPILER_IR_NODE_ANNOTATION_H_
