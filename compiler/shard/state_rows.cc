#include "compiler/shard/state_rows.h"

#include <algorithm>
#include <map>

#include "compiler/ir/versions.h"

namespace rondo::shard {
namespace {

// Bounds of the storage elements that the first step of a view can reach; never less than the view covers.
std::pair<int64_t, int64_t> Bounds(const ir::View& view) {
  const ir::ViewStep& step = view.steps[0];
  int64_t low = step.offset, high = step.offset;
  for (int d = 0; d < step.shape.rank; ++d) {
    const int64_t reach = step.strides[d] * (step.shape[d] - 1);
    (reach > 0 ? high : low) += reach;
  }
  return {low, high};
}

class Finder {
 public:
  // `shown`: by node, the number of outputs that show it.
  Finder(const Graph& graph, const ir::Users& users, const std::vector<int>& shown)
      : g_(graph), users_(users), shown_(shown) {}

  StateRows Find(const ir::StatePair& pair) {
    input_ = g_.inputs[static_cast<size_t>(pair.input)].node;
    output_ = g_.outputs[static_cast<size_t>(pair.output)].node;
    FindRows(g_.node(input_).shape);
    FindVersions();
    for (NodeId version : out_.versions) {
      for (NodeId user : users_[static_cast<size_t>(version)]) {
        const Node& reader = g_.node(user);
        if (reader.op != Op::kView) {
          Touch(user, version, nullptr);
          continue;
        }
        for (NodeId behind : users_[static_cast<size_t>(user)])
          Touch(behind, user, &reader.As<ir::ViewAttrs>().view);
      }
    }
    // If the state is not updated in place, its new value writes all rows.
    if (!in_place_) All(g_.BaseOf(output_));
    out_.divides = in_place_ && !IsShown();
    for (const auto& [node, rows] : found_) out_.touches.push_back({node, rows});
    return std::move(out_);
  }

 private:
  void FindRows(const Shape& shape) {
    while (out_.axis < shape.rank && shape[out_.axis] == 1) ++out_.axis;
    if (out_.axis == shape.rank) out_.axis = 0;
    if (shape.rank > 0) out_.rows = std::max<int64_t>(shape[out_.axis], 1);
    out_.row_elements = std::max<int64_t>(shape.elements() / out_.rows, 1);
  }

  void FindVersions() {
    NodeId at = output_;
    while (at != input_) {
      const ir::VersionStep step = ir::VersionStepOf(g_, at);
      if (step.runs == ir::kNoNode) break;
      out_.versions.push_back(at);
      at = g_.node(step.runs).inputs[step.slot];
    }
    in_place_ = at == input_;
    if (!in_place_) out_.versions.clear();
    out_.versions.push_back(input_);
    std::reverse(out_.versions.begin(), out_.versions.end());
  }

  // Whether an output other than the state itself shows a version of it.
  bool IsShown() const {
    return std::any_of(out_.versions.begin(), out_.versions.end(), [&](NodeId version) {
      return shown_[static_cast<size_t>(version)] > (version == output_ ? 1 : 0);
    });
  }

  // `reader` reads `what`, which is a version, or `view` of one.
  void Touch(NodeId reader, NodeId what, const ir::View* view) {
    const Node& node = g_.node(reader);
    if (node.op == Op::kCallResult) return;  // of a call that is itself a reader
    const bool by_index = node.op == Op::kIndexedRead || node.op == Op::kIndexedWrite;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      if (node.inputs[slot] != what) continue;
      if (view != nullptr) {
        const auto [low, high] = Bounds(*view);
        Add(reader, low, high);
      } else if (slot == 0 && by_index) {
        Add(reader, node.As<ir::IndexedAttrs>());
      } else {
        All(reader);
      }
    }
  }

  void Add(NodeId node, const ir::IndexedAttrs& attrs) {
    auto [low, high] = Bounds(attrs.map);
    for (const ir::IndexedDim& dim : attrs.dims) {
      const int64_t reach = dim.stride * (dim.extent - 1);
      (reach > 0 ? high : low) += reach;
    }
    Add(node, low, high);
  }

  void Add(NodeId node, int64_t low, int64_t high) {
    if (low > high) return;  // of no element
    const RowRange rows{std::max<int64_t>(low / out_.row_elements, 0),
                        std::min(high / out_.row_elements + 1, out_.rows)};
    const auto [entry, added] = found_.try_emplace(node, rows);
    entry->second.first = std::min(entry->second.first, rows.first);
    entry->second.end = std::max(entry->second.end, rows.end);
  }

  void All(NodeId node) { Add(node, 0, out_.rows * out_.row_elements - 1); }

  const Graph& g_;
  const ir::Users& users_;
  const std::vector<int>& shown_;
  NodeId input_ = ir::kNoNode, output_ = ir::kNoNode;
  bool in_place_ = false;
  std::map<NodeId, RowRange> found_;
  StateRows out_;
};

}  // namespace

std::vector<StateRows> FindStateRows(const Graph& graph) {
  const ir::Users users = graph.AllUsers();
  std::vector<int> shown(static_cast<size_t>(graph.size()), 0);
  for (const ir::GraphOutput& output : graph.outputs) ++shown[static_cast<size_t>(graph.BaseOf(output.node))];
  std::vector<StateRows> states;
  for (const ir::StatePair& pair : graph.states) states.push_back(Finder(graph, users, shown).Find(pair));
  return states;
}

std::vector<RowSpan> RowSpans(const StateRows& state, const std::vector<int>& position) {
  std::vector<RowSpan> spans(static_cast<size_t>(state.rows));
  RowSpan all;
  const auto cover = [](int at, RowSpan* span) {
    span->first = span->first < 0 ? at : std::min(span->first, at);
    span->last = std::max(span->last, at);
  };
  for (const auto& [node, rows] : state.touches) {
    const int at = position[static_cast<size_t>(node)];
    if (at < 0) continue;
    cover(at, &all);
    for (int64_t row = rows.first; row < rows.end; ++row) cover(at, &spans[static_cast<size_t>(row)]);
  }
  bool up = true, down = true;
  int before = -1;
  for (const RowSpan& span : spans) {
    if (span.first < 0) continue;
    up = up && (before < 0 || span.first >= before);
    down = down && (before < 0 || span.first <= before);
    before = span.first;
  }
  if (!state.divides || (!up && !down)) spans.assign(spans.size(), all);
  return spans;
}

}  // namespace rondo::shard
