// The annotations of an ONNX node: from its metadata, from ImportOptions::annotations, and from the call,
// Loop, Scan or If that contains it.
//
// If several annotations give one node a value for one key (kBindingKeys), one of them holds:
//  1. an annotation of the options wins over metadata;
//  2. a name wins over a pattern, and a narrower pattern over a wider one that covers it;
//  3. an annotation of the node itself wins over one of a call that contains it, and an inner call's over an
//     outer call's.
// If none of these rules decides and the values differ, the compilation fails and names both. An annotation
// of a region (`region:NAME`) counts like one of a call, and an inner region wins over an outer one. Two
// kinds follow other rules. Orders (IsOrder) add up, and stay with the node that they annotate. Regions nest:
// of several regions of a node, the one that wins by these rules is inside the other.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/node_annotation.h"
#include "core/status.h"

namespace rondo::onnx {
class NodeProto;
}  // namespace rondo::onnx

namespace rondo::importer {

// An annotation that holds for a node.
struct Statement {
  std::string value;
  std::string by;       // `--annotate a:fuse=off`, `metadata rondo.fuse of MatMul "a"`
  int option = -1;      // the index among the options; -1: metadata
  std::string pattern;  // of the option
  int depth = 0;        // how many calls and bodies further out the annotated node is; 0: the node itself
  int owner = 0;        // the number of the annotated node
  std::vector<Statement> nest = {};  // for a region: all regions of the node, outermost first, this one last
};
// What stands after the '#' of a place (compiler/ir/region.h), until KeepRegions numbers places, where a call
// that holds the node is in the region: all that it holds is of one place.
inline constexpr char kCallPlace[] = "in ";
using Statements = std::map<std::string, Statement>;  // by key: kBindingKeys and kAssertKey

// A node to be annotated: its full name is `prefix` and its own name.
struct NamedNode {
  const onnx::NodeProto& proto;
  std::string name, prefix;
};

// Whether this annotation of the options applies to the node.
bool IsOf(const NodeAnnotation& annotation, const NamedNode& node);
// The annotations that hold for node number `number`: from its metadata (keys under "rondo.", and the bare
// names of the compiler's own), from `said`, and from `outer`, the annotations of the node that contains it
// (may be null). kInvalidArgument for two that contradict each other, and for metadata that is no annotation.
Result<Statements> BindingsOf(const NamedNode& node, int number, const std::vector<NodeAnnotation>& said,
                              const Statements* outer);
// The annotations of its order: `after` and `needs`, lists of names.
std::map<std::string, std::string> OrdersOf(const NamedNode& node, const std::vector<NodeAnnotation>& said);
// Whether the annotation names this node itself, and not a pattern or a node that contains it.
bool IsNamed(const Statement& said);
// The annotations of the IR nodes that are made for a node with these.
std::map<std::string, std::string> AnnotationsFor(const Statements& statements);

}  // namespace rondo::importer
