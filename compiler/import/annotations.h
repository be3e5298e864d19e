// What is said about an ONNX node: by its metadata, by ImportOptions::annotations, and by what is said of the
// call, Loop, Scan or If that it lies in.
//
// Of several that bind one node by one key (kBindingKeys), one holds:
//  1. those of the options go before metadata;
//  2. a name goes before a pattern, and a narrower pattern before a wider one that covers it;
//  3. what is said of the node itself goes before what is said of a call it lies in, a nearer call before a
//     farther one.
// Where none of these decides and the values differ, the compile fails and names both. What is said of a
// region (`region:NAME`) is like what is said of a call: of an inner region before an outer one. Orders
// (IsOrder) add up instead, and stay with the node that they are said of. Regions nest instead: of several
// that hold a node, one that goes before another lies in it.
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

// One annotation that holds of a node.
struct Statement {
  std::string value;
  std::string by;       // `--annotate a:fuse=off`, `metadata rondo.fuse of MatMul "a"`
  int option = -1;      // which of the options says it; -1: metadata
  std::string pattern;  // of the option
  int depth = 0;        // how many calls and bodies further out it is said; 0: of the node itself
  int owner = 0;        // the number of the node that it is said of
  std::vector<Statement> nest = {};  // of a region: all that hold the node, outermost first, itself the last
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

// Whether the annotation of the options is of that node.
bool IsOf(const NodeAnnotation& annotation, const NamedNode& node);
// What binds node number `number`: what its metadata says (keys under "rondo.", and the bare names of the
// compiler's own), `said`, and what binds what it lies in, `outer` (may be null). kInvalidArgument for two
// that contradict each other, and for metadata that is no annotation.
Result<Statements> BindingsOf(const NamedNode& node, int number, const std::vector<NodeAnnotation>& said,
                              const Statements* outer);
// What is said of its order: `after` and `needs`, lists of names.
std::map<std::string, std::string> OrdersOf(const NamedNode& node, const std::vector<NodeAnnotation>& said);
// Whether it is said of this very node, and not of a pattern or of what holds the node.
bool IsNamed(const Statement& said);
// What the IR's nodes are annotated, of a node that these bind.
std::map<std::string, std::string> AnnotationsFor(const Statements& statements);

}  // namespace rondo::importer
