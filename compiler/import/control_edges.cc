#include "compiler/import/control_edges.h"

#include <algorithm>
#include <numeric>

#include "compiler/import/annotations.h"
#include "compiler/import/executable_nodes.h"
#include "compiler/import/importer.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

using ir::Graph;
using ir::Node;
using ir::Op;

constexpr int64_t kMostPairs = 1 << 20;  // limit on edges between kernels

template <typename Visit>
void ForEachInner(const onnx::NodeProto& node, const Visit& visit) {
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.has_g()) {
      for (const onnx::NodeProto& inner : a.g().node()) visit(inner);
    }
    for (const onnx::GraphProto& graph : a.graphs()) {
      for (const onnx::NodeProto& inner : graph.node()) visit(inner);
    }
  }
}

bool SaysOrder(const onnx::NodeProto& node) {
  bool says = !OrdersOf({node, "", ""}, {}).empty();
  ForEachInner(node, [&](const onnx::NodeProto& inner) { says = says || SaysOrder(inner); });
  return says;
}

void SortUnique(std::vector<NodeId>* list) {
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
}

// The edit distance: the letters to insert, delete or change to turn `a` into `b`.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i + 1;
    for (size_t k = 0; k < b.size(); ++k) {
      const size_t change = corner + (a[i] != b[k]);
      corner = row[k + 1];
      row[k + 1] = std::min({row[k] + 1, row[k + 1] + 1, change});
    }
  }
  return row.back();
}

}  // namespace

ControlEdges::ControlEdges(const onnx::ModelProto& model, const std::vector<NodeAnnotation>& said)
    : said_(said), used_(said.size(), false) {
  for (const NodeAnnotation& annotation : said) any_ = any_ || IsOrder(annotation.key);
  for (const onnx::NodeProto& node : model.graph().node()) any_ = any_ || SaysOrder(node);
  for (const onnx::FunctionProto& function : model.functions()) {
    for (const onnx::NodeProto& node : function.node()) any_ = any_ || SaysOrder(node);
  }
}

bool ControlEdges::Needs(const std::map<std::string, std::string>& orders, const NamedNode& other) {
  const auto needs = orders.find("needs");
  if (needs == orders.end()) return false;
  const std::vector<std::string> names = NamesIn(needs->second);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return IsOf({name, "", ""}, other);
  });
}

void ControlEdges::Exists(const onnx::NodeProto& node, const std::string& prefix) {
  if (!any_ && said_.empty()) return;
  const std::string name = prefix + NodeName(node);
  const NamedNode named = {node, name, prefix};
  for (size_t i = 0; i < said_.size(); ++i) used_[i] = used_[i] || IsOf(said_[i], named);
  ForEachInner(node, [&](const onnx::NodeProto& inner) { Exists(inner, prefix); });
  if (!any_) return;
  Unit& unit = units_[name];
  if (unit.type.empty()) {
    const std::map<std::string, std::string> orders = OrdersOf(named, said_);
    unit.type = node.op_type();
    for (const std::string& output : node.output())
      unit.values.push_back(output.empty() ? "" : prefix + output);
    if (const auto after = orders.find("after"); after != orders.end()) unit.after = NamesIn(after->second);
    if (const auto needs = orders.find("needs"); needs != orders.end()) unit.needs = NamesIn(needs->second);
  }
}

void ControlEdges::Imported(const std::string& name, std::pair<NodeId, NodeId> nodes,
                            const std::vector<NodeId>& outputs, const std::string& loop) {
  if (!any_) return;
  Unit& unit = units_[name];
  unit.nodes.push_back(nodes);
  unit.outputs.insert(unit.outputs.end(), outputs.begin(), outputs.end());
  if (!loop.empty()) unit.loop = loop;
}

Status ControlEdges::NotFound(const Units::value_type& unit, const std::string& pattern) const {
  std::string nearest;
  size_t least = SIZE_MAX, tried = 0;
  for (const auto& [name, other] : units_) {
    if (name.size() * pattern.size() > 1 << 16 || ++tried > 20'000) continue;
    const size_t distance = Distance(pattern, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  const std::string hint = nearest.empty() ? "" : "; the nearest name is \"" + nearest + "\"";
  return Status::Error(Code::kInvalidArgument,
                       "%s \"%.200s\" is to run after \"%.200s\", but the model has no node of that name%s",
                       unit.second.type.c_str(), unit.first.c_str(), pattern.c_str(), hint.c_str());
}

Status ControlEdges::InLoop(const Units::value_type& unit) {
  return Status::Error(Code::kUnsupported,
                       "%s \"%.200s\" has a place in an order, but lies in the body of \"%.200s\", whose "
                       "rounds repeat it: order \"%.200s\"",
                       unit.second.type.c_str(), unit.first.c_str(), unit.second.loop.c_str(),
                       unit.second.loop.c_str());
}

// Adds the units that the patterns of `unit` name to `unit->before`.
Status ControlEdges::FindNamed(Units::value_type* unit) {
  for (const bool strong : {false, true}) {
    for (const std::string& pattern : strong ? unit->second.needs : unit->second.after) {
      // A pattern matches names that begin like it up to its first special character; a pattern without one
      // matches one name.
      const std::string first =
          pattern.rfind("value:", 0) == 0 ? "" : pattern.substr(0, pattern.find_first_of("*\\"));
      const bool many = first != pattern;
      bool found = false;
      for (auto at = units_.lower_bound(first); at != units_.end(); ++at) {
        if (many ? at->first.compare(0, first.size(), first) != 0 : at->first != first) break;
        if (++named_ > kMostPairs) return TooMany();
        if (many && !AppliesTo(pattern, at->first, "", at->second.values)) continue;
        found = true;
        if (many && &*at == unit) continue;
        if (!at->second.loop.empty()) return InLoop(*at);
        unit->second.before.emplace_back(&*at, strong);
      }
      if (!found) return NotFound(*unit, pattern);
    }
  }
  if (!unit->second.before.empty() && !unit->second.loop.empty()) return InLoop(*unit);
  return Status::Ok();
}

Status ControlEdges::TooMany() {
  return Status::Error(Code::kUnsupported,
                       "the orders that are asked for are of more than %lld pairs of nodes",
                       static_cast<long long>(kMostPairs));
}

// Sorts the units so that each follows those that must run before it. An error if units wait for each other.
Result<std::vector<ControlEdges::Units::value_type*>> ControlEdges::InOrder() {
  std::map<Units::value_type*, std::vector<Units::value_type*>> later;
  std::map<Units::value_type*, size_t> waiting;
  std::vector<Units::value_type*> order;
  for (auto& unit : units_) {
    waiting[&unit] = unit.second.before.size();
    for (const auto& [before, strong] : unit.second.before) later[before].push_back(&unit);
    if (unit.second.before.empty()) order.push_back(&unit);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (Units::value_type* unit : later[order[next]]) {
      if (--waiting[unit] == 0) order.push_back(unit);
    }
  }
  if (order.size() == units_.size()) return order;
  // There is a cycle: each unit that still waits is waiting for another such unit.
  Units::value_type* at =
      &*std::find_if(units_.begin(), units_.end(), [&](auto& u) { return waiting[&u] > 0; });
  std::vector<Units::value_type*> way;
  while (std::find(way.begin(), way.end(), at) == way.end()) {
    way.push_back(at);
    const auto& before = at->second.before;
    at = std::find_if(before.begin(), before.end(), [&](const auto& b) {
           return waiting[b.first] > 0;
         })->first;
  }
  way.erase(way.begin(), std::find(way.begin(), way.end(), at));
  way.push_back(at);
  std::string text;
  for (size_t i = 0; i + 1 < way.size(); ++i) {
    text += (i == 0 ? "" : "; ") + way[i]->second.type + " \"" + way[i]->first + "\" is to run after " +
            way[i + 1]->second.type + " \"" + way[i + 1]->first + "\"";
  }
  return Contradiction(text);
}

Status ControlEdges::Contradiction(const std::string& cycle) {
  return Status::Error(Code::kInvalidArgument, "no order does all that is asked for: %s", cycle.c_str());
}

// Finds the IR nodes that run for the unit. Others wait for these or, if the unit runs none, for the
// producers of its outputs and for everything that it waits for.
void ControlEdges::Settle(const Graph& graph, Unit* unit) const {
  for (const auto& [first, end] : unit->nodes) {
    for (NodeId id = first; id < end; ++id) {
      if (IsExecutable(graph.node(id))) unit->runs.push_back(id);
    }
  }
  SortUnique(&unit->runs);
  unit->stands = unit->runs;
  if (!unit->runs.empty()) return;
  for (NodeId output : unit->outputs) {
    const NodeId maker = MakerOf(graph, output);
    if (maker != kNoNode) unit->stands.push_back(maker);
  }
  for (const auto& [before, strong] : unit->before) {
    const std::vector<NodeId>& stands = before->second.stands;
    unit->stands.insert(unit->stands.end(), stands.begin(), stands.end());
  }
  SortUnique(&unit->stands);
}

Status ControlEdges::AddTo(Graph* graph) {
  if (!any_) return Status::Ok();
  for (auto& unit : units_) RONDO_RETURN_IF_ERROR(FindNamed(&unit));
  RONDO_ASSIGN_OR_RETURN(const std::vector<Units::value_type*> order, InOrder());
  for (Units::value_type* unit : order) Settle(*graph, &unit->second);
  int64_t pairs = 0;
  for (const auto& [name, unit] : units_) {
    for (const auto& [before, strong] : unit.before) {
      pairs += static_cast<int64_t>(unit.runs.size() * before->second.stands.size());
      if (pairs > kMostPairs) return TooMany();
      for (NodeId late : unit.runs) {
        for (NodeId early : before->second.stands) {
          if (graph->Reaches(late, early)) return Contradiction(CycleText(*graph, late, early));
          graph->RunAfter(late, early, strong);
          graph->ordered = true;
        }
      }
    }
  }
  return Status::Ok();
}

}  // namespace rondo::importer
