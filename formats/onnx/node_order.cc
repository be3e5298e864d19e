#include "formats/onnx/node_order.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "formats/onnx/onnx.pb.h"

namespace rondo::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;
using Names = std::unordered_set<std::string_view>;

void AddReads(const NodeProto& node, Names* names);

// Adds the outer names that a subgraph reads.
void AddReads(const GraphProto& graph, Names* names) {
  Names reads;
  for (const NodeProto& node : graph.node()) AddReads(node, &reads);
  for (const ValueInfoProto& output : graph.output()) reads.insert(output.name());
  for (const NodeProto& node : graph.node()) {
    for (const std::string& own : node.output()) reads.erase(own);
  }
  for (const ValueInfoProto& own : graph.input()) reads.erase(own.name());
  for (const TensorProto& own : graph.initializer()) reads.erase(own.name());
  for (const SparseTensorProto& own : graph.sparse_initializer()) reads.erase(own.values().name());
  names->insert(reads.begin(), reads.end());
}

void AddReads(const NodeProto& node, Names* names) {
  names->insert(node.input().begin(), node.input().end());
  for (const AttributeProto& a : node.attribute()) {
    if (a.has_g()) AddReads(a.g(), names);
    for (const GraphProto& g : a.graphs()) AddReads(g, names);
  }
}

// A depth-first search from each node, in file order, through the nodes that it reads. The path is a vector,
// because it may be as long as the graph.
class Order {
 public:
  explicit Order(const Nodes& nodes) : nodes_(nodes), seen_(static_cast<size_t>(nodes.size())) {
    for (int i = 0; i < nodes.size(); ++i) {
      for (const std::string& name : nodes.Get(i).output()) {
        if (!name.empty()) giver_.emplace(name, i);
      }
    }
    for (int i = 0; i < nodes.size(); ++i) Add(i);
  }
  const std::vector<int>& order() const { return order_; }

 private:
  struct Open {
    int node;
    std::vector<int> reads;
    size_t next = 0;
  };

  void Add(int root) {
    std::vector<Open> path;
    Begin(root, &path);
    while (!path.empty()) {
      Open& last = path.back();
      if (last.next < last.reads.size()) {
        Begin(last.reads[last.next++], &path);
        continue;
      }
      order_.push_back(last.node);
      path.pop_back();
    }
  }

  void Begin(int node, std::vector<Open>* path) {
    if (seen_[static_cast<size_t>(node)]) return;
    seen_[static_cast<size_t>(node)] = true;
    Names names;
    AddReads(nodes_.Get(node), &names);
    Open open{node, {}};
    for (const std::string_view name : names) {
      if (const auto giver = giver_.find(name); giver != giver_.end()) open.reads.push_back(giver->second);
    }
    std::sort(open.reads.begin(), open.reads.end());
    path->push_back(std::move(open));
  }

  const Nodes& nodes_;
  std::unordered_map<std::string_view, int> giver_;
  std::vector<bool> seen_;
  std::vector<int> order_;
};

void Sort(Nodes* nodes) {
  for (NodeProto& node : *nodes) {
    for (AttributeProto& a : *node.mutable_attribute()) {
      if (a.has_g()) Sort(a.mutable_g()->mutable_node());
      for (GraphProto& g : *a.mutable_graphs()) Sort(g.mutable_node());
    }
  }
  const Order order(*nodes);
  if (std::is_sorted(order.order().begin(), order.order().end())) return;
  const std::vector<NodeProto*> before(nodes->pointer_begin(), nodes->pointer_end());
  auto place = nodes->pointer_begin();
  for (const int node : order.order()) *place++ = before[static_cast<size_t>(node)];
}

}  // namespace

void SortNodes(ModelProto* model) {
  if (model->has_graph()) Sort(model->mutable_graph()->mutable_node());
  for (FunctionProto& function : *model->mutable_functions()) Sort(function.mutable_node());
}

}  // namespace rondo::onnx
