// Assertions by value (`--annotate NODE:assert=finite`): each float output of the node gets an IR node that
// checks it, and all readers of the output read that IR node (ir::IsAssertion).
#include <algorithm>

#include "compiler/import/importer.h"

namespace rondo::importer {

bool Importer::IsAsserted(const onnx::NodeProto& node, const Frame& frame) const {
  const NamedNode named = {node, frame.prefix + NodeName(node), frame.prefix};
  const auto asserts = [&](const NodeAnnotation& one) { return one.key == kAssertKey && IsOf(one, named); };
  if (frame.bindings.count(kAssertKey) != 0) return true;
  if (std::any_of(options_.annotations.begin(), options_.annotations.end(), asserts)) return true;
  return std::any_of(node.metadata_props().begin(), node.metadata_props().end(),
                     [](const auto& entry) { return entry.key() == std::string("rondo.") + kAssertKey; });
}

Status Importer::Assert(const onnx::NodeProto& node, int output, const Frame& frame,
                        const Statements& bindings, bool computes, Value* value) {
  const auto found = bindings.find(kAssertKey);
  if (found == bindings.end()) return Status::Ok();
  const bool named = IsNamed(found->second);
  const std::string name = frame.prefix + node.output(output);
  const std::string source = node.op_type() + " \"" + frame.prefix + NodeName(node) + "\"";
  if (value->is_sequence || value->data_size != nullptr) {
    const char* const why = value->is_sequence ? "it is a sequence" : "data decide its length";
    if (named)
      return Status::Error(Code::kUnsupported, "%.300s cannot be asserted of its output \"%.200s\": %s",
                           found->second.by.c_str(), name.c_str(), why);
    Remark(found->second.by + " is not asserted of output \"" + name + "\" of " + source + ": " + why);
    return Status::Ok();
  }
  // A pattern does not assert nodes that compute nothing: they only show the values of other nodes.
  if (!IsFloat(builder_.dtype(value->node)) || value->bits != 0 || (!computes && !named)) return Status::Ok();
  if (asserted_.empty()) report_->asserted.clear();
  const auto [entry, added] = asserted_.try_emplace(name, static_cast<int64_t>(asserted_.size()));
  const NodeId checked = builder_.AssertFinite(value->node, entry->second);
  const bool known = !ir::IsAssertion(builder_.graph().node(builder_.graph().BaseOf(checked)));
  if (known && added) {
    asserted_.erase(entry);  // a constant, which is finite
  } else if (added) {
    report_->asserted.push_back({name, source});
  }
  value->node = checked;
  return Status::Ok();
}

}  // namespace rondo::importer
