// Models of opsets newer than those whose definitions this build has.
#include "compiler/import/importer.h"

namespace rondo::importer {
namespace {

// Operators that changed between opset 1 and kOldestOpset, and the opset of their last change. Other
// operators did not change.
struct Change {
  const char* op;
  int64_t opset;
};
constexpr Change kEarlyChanges[] = {{"Abs", 6},        {"Add", 6},         {"BatchNormalization", 6},
                                    {"Cast", 6},       {"Ceil", 6},        {"Clip", 6},
                                    {"Concat", 4},     {"Div", 6},         {"Dropout", 6},
                                    {"Elu", 6},        {"Exp", 6},         {"Floor", 6},
                                    {"GRU", 3},        {"Gemm", 6},        {"GlobalLpPool", 2},
                                    {"Log", 6},        {"HardSigmoid", 6}, {"InstanceNormalization", 6},
                                    {"LeakyRelu", 6},  {"LpPool", 2},      {"Max", 6},
                                    {"Mean", 6},       {"Min", 6},         {"Mul", 6},
                                    {"Neg", 6},        {"Pad", 2},         {"PRelu", 6},
                                    {"Reciprocal", 6}, {"Relu", 6},        {"Reshape", 5},
                                    {"Selu", 6},       {"Sigmoid", 6},     {"Split", 2},
                                    {"Sqrt", 6},       {"Sub", 6},         {"Sum", 6},
                                    {"Tanh", 6},       {"Tile", 6}};

const char* FirstChanged(const onnx::GraphProto& graph, int64_t opset) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (!node.domain().empty() && node.domain() != "ai.onnx") continue;
    for (const Change& change : kEarlyChanges) {
      if (node.op_type() == change.op && opset < change.opset) return change.op;
    }
    for (const onnx::AttributeProto& a : node.attribute()) {
      if (const char* inner = a.has_g() ? FirstChanged(a.g(), opset) : nullptr) return inner;
    }
  }
  return nullptr;
}

}  // namespace

Status Importer::CheckOpset(int64_t opset) {
  if (opset > kNewestOpset) {
    Remark("the model uses opset " + std::to_string(opset) +
           ", and this build knows the operators of opsets up to " + std::to_string(kNewestOpset) +
           ": it takes each for what it was there");
  }
  const char* changed = opset < kOldestOpset ? FirstChanged(model_->proto().graph(), opset) : nullptr;
  if (opset >= 1 && changed == nullptr) return Status::Ok();
  return Status::Error(Code::kUnsupported,
                       "the model uses opset %lld%s%s; opsets %lld to %lld are supported: convert it with "
                       "onnx.version_converter.convert_version(model, 13)",
                       static_cast<long long>(opset),
                       changed == nullptr ? "" : ", whose definition differs of ",
                       changed == nullptr ? "" : changed, static_cast<long long>(kOldestOpset),
                       static_cast<long long>(kNewestOpset));
}

}  // namespace rondo::importer
