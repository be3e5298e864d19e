// ControlEdges: turns annotations about the order of ONNX nodes into control edges of the IR.
//
// Everything that runs for a node runs after everything that runs for the nodes that it names. If nothing
// runs for a node (a view, a constant, a node that no output needs), a node ordered after it runs after the
// source of the view, and after the nodes that the first one was ordered after. The body of a Loop or Scan is
// ordered as a whole, under the name of that node. So is a function's call, and its inner nodes also
// separately, as "call/inner".
//
// The importer reports every node; AddTo then makes the edges. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/op_context.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/node_annotation.h"
#include "core/status.h"

namespace rondo::onnx {
class ModelProto;
class NodeProto;
}  // namespace rondo::onnx

namespace rondo::importer {

struct NamedNode;  // annotations.h

class ControlEdges {
 public:
  // `said` must outlive it.
  ControlEdges(const onnx::ModelProto& model, const std::vector<NodeAnnotation>& said);

  // Whether there is any annotation about order. If not, nodes need not be reported.
  bool any() const { return any_; }
  // Reports a node and those of its subgraphs by their full names, whether or not they are imported.
  void Exists(const onnx::NodeProto& node, const std::string& prefix);
  // For each annotation of `said`: whether it applies to any node.
  const std::vector<bool>& used() const { return used_; }
  // Reports that the ONNX node became the nodes [first, end) of the graph, and those that `outputs` show.
  // `loop`: the node whose body contains it, or "".
  void Imported(const std::string& name, std::pair<NodeId, NodeId> nodes, const std::vector<NodeId>& outputs,
                const std::string& loop);
  // Whether a node with these orders (OrdersOf) needs `other`.
  static bool Needs(const std::map<std::string, std::string>& orders, const NamedNode& other);
  // Adds the edges. Errors: a name that no node has, with the nearest one; nodes inside loops; orders that
  // contradict one another or the model, with the whole cycle.
  Status AddTo(ir::Graph* graph);

 private:
  // All nodes of one full name.
  struct Unit;
  using Units = std::map<std::string, Unit>;
  struct Unit {
    std::string type, loop;
    std::vector<std::string> values;        // its outputs, by their full names
    std::vector<std::string> after, needs;  // names as written
    std::vector<std::pair<NodeId, NodeId>> nodes;
    std::vector<NodeId> outputs;
    // By AddTo: the units it names, and whether it needs them; what runs for it; and what those wait for that
    // are put after it: the same, or what stands for it if that is nothing.
    std::vector<std::pair<Units::value_type*, bool>> before;
    std::vector<NodeId> runs, stands;
  };

  Status FindNamed(Units::value_type* unit);
  Status NotFound(const Units::value_type& unit, const std::string& pattern) const;
  static Status InLoop(const Units::value_type& unit);
  static Status TooMany();
  static Status Contradiction(const std::string& cycle);
  Result<std::vector<Units::value_type*>> InOrder();
  void Settle(const ir::Graph& graph, Unit* unit) const;

  const std::vector<NodeAnnotation>& said_;
  std::vector<bool> used_;
  bool any_ = false;
  int64_t named_ = 0;
  Units units_;
};

}  // namespace rondo::importer
