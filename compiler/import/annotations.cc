#include "compiler/import/annotations.h"

#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

constexpr const char* kBare[] = {"fuse", "keep", "stream", "after"};
constexpr std::string_view kPrefix = "rondo.";

void Say(const std::string& key, const std::string& value, std::map<std::string, std::string>* annotations) {
  std::string& all = (*annotations)[key];
  all = IsOrder(key) && !all.empty() ? all + "," + value : value;
}

}  // namespace

std::map<std::string, std::string> AnnotationsOf(const onnx::NodeProto& node, std::string_view name,
                                                 const std::vector<NodeAnnotation>& said,
                                                 std::vector<bool>* used) {
  std::map<std::string, std::string> annotations;
  for (const auto& entry : node.metadata_props()) {
    const std::string& key = entry.key();
    if (key.rfind(kPrefix, 0) == 0) Say(key.substr(kPrefix.size()), entry.value(), &annotations);
    for (const char* bare : kBare) {
      if (key == bare) Say(key, entry.value(), &annotations);
    }
  }
  for (size_t i = 0; i < said.size(); ++i) {
    if (!AppliesTo(said[i].node, name)) continue;
    Say(said[i].key, said[i].value, &annotations);
    if (used != nullptr) (*used)[i] = true;
  }
  return annotations;
}

}  // namespace rondo::importer
