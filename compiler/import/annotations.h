// What is said about an ONNX node: by its metadata and by ImportOptions::annotations.
#ifndef RONDO_COMPILER_IMPORT_ANNOTATIONS_H_
#define RONDO_COMPILER_IMPORT_ANNOTATIONS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/node_annotation.h"

namespace rondo::onnx {
class NodeProto;
}  // namespace rondo::onnx

namespace rondo::importer {

// The node called `name` in full: what its metadata says (keys under "rondo.", and the bare names of the
// compiler's own), then `said`, which goes before. Orders (IsOrder) add up instead. Marks in `*used`, by
// annotation of `said`, those that the node has; may be null.
std::map<std::string, std::string> AnnotationsOf(const onnx::NodeProto& node, std::string_view name,
                                                 const std::vector<NodeAnnotation>& said,
                                                 std::vector<bool>* used);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_ANNOTATIONS_H_
