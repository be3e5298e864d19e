#include "compiler/import/allowance.h"

#include <algorithm>

#include "compiler/import/importer.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

constexpr int64_t kEntriesPerNode = 8;
// A model larger than kSmall bytes may expand to one more node for each kBytesPerNode of its bytes.
constexpr int64_t kSmall = 1 << 20, kBytesPerNode = 4;
constexpr int64_t kMostBytes = int64_t{1} << 28;
constexpr int64_t kFoldingWork = int64_t{1} << 30, kFoldedBytes = int64_t{1} << 28;

int64_t EntriesOf(const onnx::GraphProto& graph);

int64_t EntriesOf(const onnx::NodeProto& node) {
  int64_t entries =
      1 + node.input_size() + node.output_size() + node.attribute_size() + node.metadata_props_size();
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.has_g()) entries += EntriesOf(a.g());
    for (const onnx::GraphProto& graph : a.graphs()) entries += EntriesOf(graph);
  }
  return entries;
}

int64_t EntriesOf(const onnx::GraphProto& graph) {
  int64_t entries = graph.initializer_size() + graph.input_size() + graph.output_size();
  for (const onnx::NodeProto& node : graph.node()) entries += EntriesOf(node);
  return entries;
}

}  // namespace

Allowance::Allowance(int64_t file_bytes, int64_t most_nodes, ir::Graph* graph)
    : graph_(graph), most_{kEntriesPerNode * most_nodes, most_nodes, kMostBytes} {
  graph->folding = {kFoldingWork, kFoldedBytes};
  Raise(file_bytes);
}

// Raises the limits on expansion and on folding with the model's bytes.
void Allowance::Raise(int64_t model_bytes) {
  const int64_t before = std::max(model_bytes_, kSmall);
  model_bytes_ += model_bytes;
  const int64_t nodes = std::max(model_bytes_ - before, int64_t{0}) / kBytesPerNode;
  most_.nodes += nodes;
  most_.entries += kEntriesPerNode * nodes;
  most_.bytes += 64 * model_bytes;
  graph_->folding.work += 64 * model_bytes;
  graph_->folding.bytes += 4 * model_bytes;
}

void Allowance::Begin(const onnx::NodeProto& node) { begun_.push_back({&node, Made()}); }

void Allowance::Enter(const onnx::FunctionProto& body) {
  int64_t& entries = entries_of_[&body];
  if (entries == 0) {
    entries = 1 + body.opset_import_size() + body.input_size() + body.attribute_proto_size();
    for (const onnx::NodeProto& node : body.node()) entries += EntriesOf(node);
  }
  entries_ += entries;
}

void Allowance::Enter(const onnx::GraphProto& body) {
  int64_t& entries = entries_of_[&body];
  if (entries == 0) entries = 1 + EntriesOf(body);
  entries_ += entries;
}

void Allowance::Load(const onnx::TensorValue& tensor) {
  const int64_t bytes = tensor.shape.elements() * ByteSize(tensor.dtype);
  bytes_ += bytes;
  if (tensor.location.empty()) return;
  int64_t& read = files_[tensor.location];
  const int64_t end = static_cast<int64_t>(tensor.offset) + bytes;
  if (end > read) Raise(end - read);
  read = std::max(read, end);
}

Status Allowance::Refuse(int64_t Amounts::*unit, int64_t most, const char* what) const {
  const onnx::NodeProto* largest = nullptr;
  int64_t amount = -1, after = Made().*unit;
  for (size_t i = begun_.size(); i-- > 0;) {
    const int64_t before = begun_[i].before.*unit;
    if (after - before > amount) {
      amount = after - before;
      largest = begun_[i].node;
    }
    after = before;
  }
  const std::string name = largest == nullptr ? "" : largest->op_type() + " \"" + NodeName(*largest) + "\"";
  return Status::Error(
             Code::kUnsupported,
             "written out, with its functions, loops and what operators become, the model has more than "
             "%lld %s, the most for %lld bytes of file and weights; %.300s alone stands for %lld: call "
             "functions less often, give loops fewer rounds, or put the weights beside the model",
             static_cast<long long>(most), what, static_cast<long long>(model_bytes_), name.c_str(),
             static_cast<long long>(amount))
      .FromNode(name);
}

Status Allowance::Check() const {
  const Amounts made = Made();
  if (made.nodes > most_.nodes) return Refuse(&Amounts::nodes, most_.nodes, "operations");
  if (made.entries > most_.entries)
    return Refuse(&Amounts::entries, most_.entries, "nodes, inputs and outputs");
  if (made.bytes > most_.bytes) return Refuse(&Amounts::bytes, most_.bytes, "bytes of names and lists");
  return Status::Ok();
}

}  // namespace rondo::importer
