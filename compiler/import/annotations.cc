#include "compiler/import/annotations.h"

#include <algorithm>

#include "compiler/ir/region.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

constexpr const char* kBare[] = {"fuse", "keep", "stream", "after"};
constexpr std::string_view kPrefix = "rondo.";

// The annotation key in an entry of a node's metadata; "" for other entries.
std::string KeyOf(const std::string& entry) {
  if (entry.rfind(kPrefix, 0) == 0) return entry.substr(kPrefix.size());
  const bool bare =
      std::any_of(std::begin(kBare), std::end(kBare), [&](const char* b) { return entry == b; });
  return bare ? entry : "";
}

std::string SourceOf(const NamedNode& node) { return node.proto.op_type() + " \"" + node.name + "\""; }

Status Contradiction(const NamedNode& node, const std::string& key, const Statement& a, const Statement& b) {
  const std::string source = SourceOf(node);
  return Status::Error(Code::kInvalidArgument,
                       "%.300s is annotated %s: %.50s by %.300s and %s: %.50s by %.300s, and neither goes "
                       "before the other: take one away",
                       source.c_str(), key.c_str(), a.value.c_str(), a.by.c_str(), key.c_str(),
                       b.value.c_str(), b.by.c_str())
      .FromNode(source);
}

// Compares the precedence of two annotations from options: negative if `a` wins, positive if `b` wins.
int Compare(const Statement& a, const Statement& b) {
  const bool one_a = NamesOne(a.pattern), one_b = NamesOne(b.pattern);
  if (a.option == b.option || (one_a && one_b)) return a.depth - b.depth;
  if (one_a && a.depth == 0) return -1;
  if (one_b && b.depth == 0) return 1;
  const bool wide_a = Covers(a.pattern, b.pattern), wide_b = Covers(b.pattern, a.pattern);
  return static_cast<int>(wide_a) - static_cast<int>(wide_b);
}

// Of the options' annotations, the one that wins over all others or agrees with them.
Result<Statement> Choose(const NamedNode& node, const std::string& key, const std::vector<Statement>& all) {
  const auto yields = [](const Statement& a, const Statement& b) {  // whether b takes precedence over a
    const int order = Compare(b, a);
    return order < 0 || (order == 0 && a.value == b.value);
  };
  for (const Statement& one : all) {
    if (std::all_of(all.begin(), all.end(), [&](const Statement& other) { return yields(other, one); }))
      return one;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (!yields(all[i], all[k]) && !yields(all[k], all[i])) return Contradiction(node, key, all[k], all[i]);
    }
  }
  return all[0];
}

// The node's annotations from its own metadata.
Result<Statements> FromMetadata(const NamedNode& node, int number) {
  Statements statements;
  for (const auto& entry : node.proto.metadata_props()) {
    const std::string key = KeyOf(entry.key());
    if (key.empty()) continue;
    const Statement said = {entry.value(), "metadata " + entry.key() + " of " + SourceOf(node), -1, "", 0,
                            number};
    if (const std::string why = WhyNoAnnotation(key, said.value); !why.empty()) {
      return Status::Error(Code::kInvalidArgument, "metadata %.50s: %.50s of %.300s is %s",
                           entry.key().c_str(), said.value.c_str(), SourceOf(node).c_str(), why.c_str())
          .FromNode(SourceOf(node));
    }
    if (IsOrder(key)) continue;
    const auto [known, added] = statements.emplace(key, said);
    if (!added && known->second.value != said.value) return Contradiction(node, key, known->second, said);
  }
  return statements;
}

// For two regions that hold a node: negative if `a` lies in `b`, positive if `b` lies in `a`.
int LiesIn(const Statement& a, const Statement& b) {
  if (a.depth != b.depth) return a.depth - b.depth;
  if (a.value.rfind(b.value + "/", 0) == 0) return -1;
  if (b.value.rfind(a.value + "/", 0) == 0) return 1;
  return Compare(a, b);
}

// The regions that hold the node: `own` from its metadata, if not null; those from options; and those of the
// surrounding calls and loops.
Result<std::vector<Statement>> NestOf(const NamedNode& node, int number, const Statement* own,
                                      const std::vector<NodeAnnotation>& said, const Statement* outer) {
  std::vector<Statement> nest;
  if (outer != nullptr) nest = outer->nest;
  for (Statement& one : nest) ++one.depth;
  const size_t inherited = nest.size();
  for (size_t i = 0; i < said.size(); ++i) {
    const auto option = static_cast<int>(i);
    const bool known =
        std::any_of(nest.begin(), nest.end(), [&](const Statement& s) { return s.option == option; });
    if (said[i].key != kRegionKey || !IsOf(said[i], node) || known) continue;
    nest.push_back({said[i].value, "--annotate " + TextOf(said[i]), option, said[i].node, 0, number});
  }
  if (own != nullptr && nest.size() == inherited) nest.push_back(*own);
  for (size_t i = inherited; i < nest.size(); ++i) {
    for (size_t k = inherited; k < i; ++k) {
      if (nest[i].value != nest[k].value && LiesIn(nest[i], nest[k]) == 0)
        return Contradiction(node, kRegionKey, nest[k], nest[i]);
    }
  }
  std::stable_sort(nest.begin(), nest.end(),
                   [](const Statement& a, const Statement& b) { return LiesIn(b, a) < 0; });
  const auto same = [](const Statement& a, const Statement& b) { return a.value == b.value; };
  nest.erase(std::unique(nest.begin(), nest.end(), same), nest.end());
  std::string path;
  for (Statement& one : nest) {  // names may be given as paths from the outermost region
    if (one.value.rfind(path + "/", 0) == 0 && !path.empty()) one.value.erase(0, path.size() + 1);
    path += (path.empty() ? "" : "/") + one.value;
  }
  return nest;
}

}  // namespace

bool IsOf(const NodeAnnotation& annotation, const NamedNode& node) {
  const std::vector<std::string> outputs(node.proto.output().begin(), node.proto.output().end());
  return AppliesTo(annotation.node, node.name, node.prefix, outputs);
}

Result<Statements> BindingsOf(const NamedNode& node, int number, const std::vector<NodeAnnotation>& said,
                              const Statements* outer) {
  RONDO_ASSIGN_OR_RETURN(Statements statements, FromMetadata(node, number));
  const auto find = [](const Statements& all) {
    const auto found = all.find(kRegionKey);
    return found == all.end() ? nullptr : &found->second;
  };
  RONDO_ASSIGN_OR_RETURN(std::vector<Statement> nest, NestOf(node, number, find(statements), said,
                                                             outer == nullptr ? nullptr : find(*outer)));
  std::string region;
  if (!nest.empty()) {
    Statement innermost = nest.back();
    for (const Statement& one : nest) region += (region.empty() ? "" : "/") + one.value;
    innermost.value = region;
    innermost.nest = std::move(nest);
    statements[kRegionKey] = std::move(innermost);
  }
  std::map<std::string, std::vector<Statement>> options;
  for (size_t i = 0; i < said.size(); ++i) {
    if (IsOrder(said[i].key) || said[i].key == kRegionKey) continue;
    const int above = RegionsAbove(said[i].node, region);
    if (above < 0 && !IsOf(said[i], node)) continue;
    options[said[i].key].push_back({said[i].value, "--annotate " + TextOf(said[i]), static_cast<int>(i),
                                    said[i].node, above + 1, number});
  }
  for (const auto& [key, outside] : outer != nullptr ? *outer : Statements()) {
    if (key == kRegionKey) continue;
    Statement inherited = outside;
    ++inherited.depth;
    if (inherited.option < 0) {
      statements.emplace(key, inherited);
    } else {
      options[key].push_back(inherited);
    }
  }
  for (const auto& [key, all] : options) {
    RONDO_ASSIGN_OR_RETURN(statements[key], Choose(node, key, all));
  }
  const auto matmul = statements.find("matmul"), deterministic = statements.find("deterministic");
  if (matmul != statements.end() && deterministic != statements.end() && matmul->second.value == "library")
    return Status::Error(
               Code::kInvalidArgument,
               "%.300s: deterministic by %.300s does not go with a matmul of a library by %.300s: another "
               "version of it may choose another algorithm",
               SourceOf(node).c_str(), deterministic->second.by.c_str(), matmul->second.by.c_str())
        .FromNode(SourceOf(node));
  return statements;
}

std::map<std::string, std::string> OrdersOf(const NamedNode& node, const std::vector<NodeAnnotation>& said) {
  std::map<std::string, std::string> orders;
  const auto add = [&](const std::string& key, const std::string& value) {
    std::string& all = orders[key];
    all = all.empty() ? value : all + "," + value;
  };
  for (const auto& entry : node.proto.metadata_props()) {
    if (const std::string key = KeyOf(entry.key()); IsOrder(key)) add(key, entry.value());
  }
  for (const NodeAnnotation& one : said) {
    if (IsOrder(one.key) && IsOf(one, node)) add(one.key, one.value);
  }
  return orders;
}

namespace {

// The places of a node, one per region that holds it. A place is named by the origin of the annotation, so
// that all nodes of one place agree. An annotated call or loop is a place of its own, and so are the nodes
// that one pattern marks.
std::string PlacesOf(const Statement& region) {
  std::vector<std::string> places;
  for (const Statement& one : region.nest) {
    const bool alone = one.option < 0 || NamesOne(one.pattern);
    const std::string by = one.depth > 0 ? kCallPlace + std::to_string(one.owner)
                           : alone       ? "named"
                                         : std::to_string(one.option);
    for (const std::string& name : ir::PlacesIn(one.value)) places.push_back(name + "#" + by);
  }
  return ir::RegionOfPlaces(places);
}

}  // namespace

bool IsNamed(const Statement& said) { return said.depth == 0 && (said.option < 0 || NamesOne(said.pattern)); }

std::map<std::string, std::string> AnnotationsFor(const Statements& statements) {
  std::map<std::string, std::string> annotations;
  for (const auto& [key, said] : statements) {
    if (key == kAssertKey) continue;
    annotations[key] = key == kRegionKey ? PlacesOf(said) : said.value;
    if (key == "fuse") annotations[kOwnerKey] = std::to_string(said.owner);
  }
  return annotations;
}

}  // namespace rondo::importer
