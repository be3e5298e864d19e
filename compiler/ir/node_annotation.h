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

// Whether `pattern`, a name or one with '*' at its end, is of the node called `node`.
inline bool AppliesTo(std::string_view pattern, std::string_view node) {
  if (pattern.empty() || pattern.back() != '*') return node == pattern;
  return node.substr(0, pattern.size() - 1) == pattern.substr(0, pattern.size() - 1);
}

// Whether the annotation `key` says in what order nodes run, with names (NAME or NAME*, commas between) as
// its value: the node runs `after` those, or `needs` them: then they are kept as long as it is.
inline bool IsOrder(std::string_view key) { return key == "after" || key == "needs"; }

}  // namespace rondo

#endif  // RONDO_COMPILER_IR_NODE_ANNOTATION_H_
