#include "tests/e2e/first_layers.h"

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "formats/onnx/onnx.pb.h"

namespace rondo {
namespace {

using Names = std::set<std::string>;
using Makers = std::map<std::string, const onnx::NodeProto*>;

Makers MakersOf(const onnx::GraphProto& graph) {
  Makers makers;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& name : node.output()) makers[name] = &node;
  }
  return makers;
}

// The residual sums at the end of each layer, from the embedding's rows on: every second addition of a
// matmul.
std::vector<std::string> SumsOfLayers(const onnx::GraphProto& graph, const Makers& makers) {
  std::vector<std::string> sums;
  std::string now;
  int additions = 0;
  for (const onnx::NodeProto& node : graph.node()) {
    if (now.empty() && node.op_type() == "Gather") now = node.output(0);
    if (node.op_type() != "Add" || node.input(0) != now) continue;
    const auto maker = makers.find(node.input(1));
    if (maker == makers.end() || maker->second->op_type() != "MatMul") continue;
    now = node.output(0);
    if (++additions % 2 == 0) sums.push_back(now);
  }
  return sums;
}

// All values that `outputs` need, including themselves.
Names NeededFor(const Makers& makers, const std::vector<std::string>& outputs) {
  Names needed;
  std::vector<std::string> open = outputs;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (!needed.insert(name).second) continue;
    if (const auto maker = makers.find(name); maker != makers.end())
      open.insert(open.end(), maker->second->input().begin(), maker->second->input().end());
  }
  return needed;
}

template <typename Field>
void Keep(Field* field, const std::function<bool(const typename Field::value_type&)>& kept) {
  int count = 0;
  for (int i = 0; i < field->size(); ++i) {
    if (kept(field->Get(i))) field->SwapElements(i, count++);
  }
  field->DeleteSubrange(count, field->size() - count);
}

}  // namespace

Status WriteFirstLayers(const std::string& from, int64_t layers, const std::string& to) {
  onnx::ModelProto model;
  std::ifstream file(from, std::ios::binary);
  if (!model.ParseFromIstream(&file))
    return Status::Error(Code::kInvalidArgument, "\"%s\" is no ONNX model", from.c_str());
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::vector<std::string> sums = SumsOfLayers(graph, MakersOf(graph));
  if (layers < 1 || static_cast<size_t>(layers) > sums.size()) {
    return Status::Error(Code::kInvalidArgument, "\"%s\" has %zu layers, not %lld", from.c_str(), sums.size(),
                         static_cast<long long>(layers));
  }
  const std::string& cut = sums[static_cast<size_t>(layers) - 1];
  // The outputs are the head's, which now reads the cut, and the caches of layers before the cut.
  const Makers all = MakersOf(graph);
  const Names before = NeededFor(all, {cut});
  Keep(graph.mutable_output(), [&](const auto& output) {
    return before.count(output.name()) != 0 || NeededFor(all, {output.name()}).count(sums.back()) != 0;
  });
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& name : *node.mutable_input()) {
      if (name == sums.back()) name = cut;
    }
  }
  std::vector<std::string> outputs;
  for (const auto& output : graph.output()) outputs.push_back(output.name());
  const Names needed = NeededFor(MakersOf(graph), outputs);
  const auto is_needed = [&](const auto& named) { return needed.count(named.name()) != 0; };
  Keep(graph.mutable_input(), is_needed);
  Keep(graph.mutable_initializer(), is_needed);
  Keep(graph.mutable_value_info(), is_needed);
  Keep(graph.mutable_node(), [&](const auto& node) { return needed.count(node.output(0)) != 0; });
  std::ofstream(to, std::ios::binary) << model.SerializeAsString();
  return Status::Ok();
}

}  // namespace rondo
