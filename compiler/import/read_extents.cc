#include "compiler/import/read_extents.h"

#include <algorithm>

namespace rondo::importer {
namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;

constexpr int64_t kMostNumbers = 4096;  // larger constants are not compared: weights, tables over positions

Status Refuse(const ir::Graph& graph, NodeId id, const char* why, const char* remedy) {
  std::vector<std::string> sources = graph.node(id).sources;
  for (NodeId user = id + 1; sources.empty() && user < graph.size(); ++user) {
    const std::vector<NodeId>& inputs = graph.node(user).inputs;
    if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) sources = graph.node(user).sources;
  }
  const std::string source = sources.empty() ? ir::Name(graph.node(id).op) : sources[0];
  return Status::Error(Code::kUnsupported, "%.400s: %s: %s", source.c_str(), why, remedy).FromNode(source);
}

bool SameNumbers(const Node& a, const Node& b) {
  if (a.op == Op::kPointwise)
    return a.As<ir::PointwiseAttrs>().op == b.As<ir::PointwiseAttrs>().op &&
           a.As<ir::PointwiseAttrs>().immediate == b.As<ir::PointwiseAttrs>().immediate;
  if (a.op != Op::kConstant || !(a.shape == b.shape) || a.shape.elements() > kMostNumbers) return true;
  const ir::ConstantData &x = *a.As<ir::ConstantAttrs>().data, &y = *b.As<ir::ConstantAttrs>().data;
  return x.synthetic == y.synthetic &&
         std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin(), y.bytes.end());
}

}  // namespace

Status CheckNoExtentIsRead(const ir::Graph& a, const ir::Graph& b, const char* remedy) {
  for (NodeId id = 0; id < std::min(a.size(), b.size()); ++id) {
    const Node &x = a.node(id), &y = b.node(id);
    if (x.op != y.op || x.inputs != y.inputs || x.dtype != y.dtype)
      return Refuse(a, id, "how it is computed depends on how long a padded dimension may be", remedy);
    if (!x.dead && !y.dead && !SameNumbers(x, y))
      return Refuse(a, id, "it computes with the most that a padded dimension may be, not with what it is",
                    remedy);
  }
  return Status::Ok();
}

}  // namespace rondo::importer
