// Refuses a model with operators that nothing knows: one error lists all of them.
#include <algorithm>

#include "compiler/import/importer.h"

namespace rondo::importer {
namespace {

// Advice for a com.microsoft operator that the model could be exported without; "" for others.
struct Instead {
  const char* op;
  const char* what;
};
constexpr const char* kSearches =
    "; a search has its decoder inside it: export the decoder itself (as Optimum and onnxruntime-genai do), "
    "and "
    "continue texts with rondo generate";
constexpr const char* kPages =
    "; its cache is in pages that a server hands out: export the model with GroupQueryAttention, whose "
    "caches a "
    "session keeps";
constexpr const char* kLayouts =
    "; its numbers lie as cuBLASLt has them: export the model with QuantizeLinear and DequantizeLinear";
constexpr const char* kPacks =
    "; its weights are in blocks as GGUF files have them: export the model with MatMulNBits, "
    "GatherBlockQuantized and QMoE";
constexpr const char* kReplays =
    "; it takes back tokens that were guessed: export the model without speculative decoding";
constexpr Instead kInstead[] = {
    {"BeamSearch", kSearches},
    {"ConvStateReplay", kReplays},
    {"DequantizeWithOrder", kLayouts},
    {"GatedDeltaNetStateReplay", kReplays},
    {"GatherPacked", kPacks},
    {"GreedySearch", kSearches},
    {"Mamba2Verify", kReplays},
    {"MatMulFpQ4",
     "; its bytes are packed for ONNX Runtime's own kernels: export the model with MatMulNBits"},
    {"MatMulPacked", kPacks},
    {"MoEPacked", kPacks},
    {"PagedAttention", kPages},
    {"QOrderedAttention", kLayouts},
    {"QOrderedGelu", kLayouts},
    {"QOrderedLayerNormalization", kLayouts},
    {"QOrderedLongformerAttention", kLayouts},
    {"QOrderedMatMul", kLayouts},
    {"QuantizeWithOrder", kLayouts},
    {"RMSNormRotary",
     "; export the model with its norms and RotaryEmbedding as operators of their own, or "
     "GroupQueryAttention"},
    {"Sampling", kSearches},
    {"SparsePagedAttention", kPages},
    {"SpeculativePrefixCommit", kReplays},
    {"WhisperBeamSearch", kSearches},
};

const char* InsteadOf(const std::string& op) {
  for (const Instead& one : kInstead) {
    if (op == std::string("com.microsoft::") + one.op) return one.what;
  }
  return "";
}

}  // namespace

void Importer::CollectUnknown(const Nodes& nodes, const std::vector<bool>* needed, const Frame& frame,
                              int depth, std::map<std::string, std::vector<std::string>>* unknown) {
  if (depth > kMaxCallDepth) return;  // ImportNode refuses it
  for (int i = 0; i < nodes.size(); ++i) {
    if (needed != nullptr && !(*needed)[static_cast<size_t>(i)]) continue;
    const onnx::NodeProto& node = nodes.Get(i);
    if (FindCustom(node, frame) != nullptr) continue;
    if (FindFunction(node) != nullptr) continue;  // each function is looked at once, below
    if (FindOp(node.domain(), node.op_type(), OpsetFor(frame, node.domain())) == nullptr) {
      std::string op = (node.domain().empty() ? "ai.onnx" : node.domain()) + "::" + node.op_type();
      if (KnowsOp(node.domain(), node.op_type())) {
        op += " of opset " + std::to_string(OpsetFor(frame, node.domain()));
      }
      (*unknown)[op].push_back(NodeName(node));
    }
    // The branches of an If are looked at when one is taken.
    if (node.op_type() == "If") continue;
    for (const onnx::AttributeProto& a : node.attribute()) {
      if (a.has_g()) CollectUnknown(a.g().node(), nullptr, frame, depth + 1, unknown);
    }
  }
}

Status Importer::ListUnknown(const Nodes& nodes, const std::vector<bool>& needed, const Frame& frame) {
  std::map<std::string, std::vector<std::string>> unknown;
  CollectUnknown(nodes, &needed, frame, frame.depth, &unknown);
  // The functions that needed nodes call, directly or through other functions.
  std::vector<const onnx::FunctionProto*> queue;
  std::unordered_set<const onnx::FunctionProto*> seen;
  auto visit = [&](const onnx::NodeProto& node, auto&& self) -> void {
    const onnx::FunctionProto* f = FindFunction(node);
    if (f != nullptr && seen.insert(f).second) queue.push_back(f);
    if (node.op_type() == "If") return;
    for (const onnx::AttributeProto& a : node.attribute()) {
      for (const onnx::NodeProto& inner : a.g().node()) self(inner, self);
    }
  };
  for (int i = 0; i < nodes.size(); ++i) {
    if (needed[static_cast<size_t>(i)]) visit(nodes.Get(i), visit);
  }
  for (size_t q = 0; q < queue.size(); ++q) {
    Frame inner;
    inner.opsets = Opsets(queue[q]->opset_import());
    CollectUnknown(queue[q]->node(), nullptr, inner, frame.depth + 1, &unknown);
    for (const onnx::NodeProto& node : queue[q]->node()) visit(node, visit);
  }
  if (unknown.empty()) return Status::Ok();
  std::string list;
  const char* instead = "";
  for (const auto& [op, names] : unknown) {
    if (*InsteadOf(op) != '\0') instead = InsteadOf(op);
    list += (list.empty() ? "" : "; ") + op + " (";
    constexpr size_t kShown = 8;
    for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
      list += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
    if (names.size() > kShown) list += " and " + std::to_string(names.size() - kShown) + " more nodes";
    list += ")";
  }
  return Status::Error(
      Code::kUnsupported, "%zu operator%s not supported: %s%s", unknown.size(),
      unknown.size() == 1 ? " is" : "s are", list.c_str(),
      *instead != '\0' ? instead : "; a library of custom ops can add operators (--ops LIB.so)");
}

}  // namespace rondo::importer
