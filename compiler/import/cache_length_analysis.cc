#include "compiler/import/cache_length_analysis.h"

#include <algorithm>

#include "compiler/import/op_context.h"

namespace rondo::importer {

using ir::Node;
using ir::NodeId;
using ir::Op;

Extent CacheLengthAnalysis::ExtentOf(const ir::Size& size) const {
  if (size.known()) return Extent::kFixed;
  if (size == past_) return Extent::kPast;
  if (size == total()) return Extent::kTotal;
  const std::optional<ir::Size> times = ir::Size::Divide(size, total());
  if (times && times->known() && times->extent() > 1) return Extent::kTimesTotal;
  const ir::Size beyond = size - total();
  return beyond.known() && beyond.extent() > 0 ? Extent::kBeyondTotal : Extent::kOther;
}

Status CacheLengthAnalysis::ReadExtents() {
  const NodeId end = model_.size();
  extents_.resize(static_cast<size_t>(end));
  cached_.resize(static_cast<size_t>(end));
  for (NodeId id = 0; id < end; ++id) {
    const Node& n = model(id);
    if (n.dead) continue;
    for (int d = 0; d < n.shape.rank; ++d) {
      const ir::Size size = sizes_->Of(id, d);
      if (size.unknown()) {
        return Named(Refuse("how long dimension " + std::to_string(d) + " of shape " + Text(n.shape) +
                            " is does not follow from the number of cached positions"),
                     id);
      }
      extents_[static_cast<size_t>(id)].push_back(ExtentOf(size));
    }
    const auto from_cache = [&](NodeId in) { return cached_[static_cast<size_t>(in)]; };
    cached_[static_cast<size_t>(id)] =
        CacheAt(id) >= 0 || (Grows(id) && std::any_of(n.inputs.begin(), n.inputs.end(), from_cache));
  }
  return Status::Ok();
}

bool CacheLengthAnalysis::Grows(NodeId id) const {
  const std::vector<Extent>& extents = extents_[static_cast<size_t>(id)];
  return std::any_of(extents.begin(), extents.end(), [](Extent e) { return e != Extent::kFixed; });
}

bool CacheLengthAnalysis::HasRowsInOne(NodeId id) const {
  const std::vector<Extent>& extents = extents_[static_cast<size_t>(id)];
  return std::find(extents.begin(), extents.end(), Extent::kTimesTotal) != extents.end();
}

int CacheLengthAnalysis::CacheAt(NodeId id) const {
  for (size_t i = 0; i < g_->inputs.size(); ++i) {
    if (g_->inputs[i].node != id) continue;
    for (const GrowingCache& cache : ports_.caches) {
      if (cache.past == g_->inputs[i].name) return static_cast<int>(i);
    }
  }
  return -1;
}

bool CacheLengthAnalysis::IsOfPositions(NodeId id) const {
  const std::vector<std::string>& names = ports_.total_inputs;
  return std::any_of(g_->inputs.begin(), g_->inputs.end(), [&](const ir::GraphInput& input) {
    return input.node == id && std::find(names.begin(), names.end(), input.name) != names.end();
  });
}

bool CacheLengthAnalysis::MasksCaches(NodeId id) const {
  std::vector<bool> of(static_cast<size_t>(model_.size()), false);
  of[static_cast<size_t>(id)] = true;
  for (NodeId at = id + 1; at < model_.size(); ++at) {
    const Node& n = model(at);
    bool any = false, meets = false;
    for (size_t k = 0; k < n.inputs.size() && !n.dead; ++k) {
      const auto in = static_cast<size_t>(n.inputs[k]);
      any = any || of[in];
      meets = meets || (cached_[in] && n.op == Op::kPointwise);
      const bool index = n.op == Op::kIndexedWrite && k >= 2 && cached_[static_cast<size_t>(n.inputs[0])];
      if (of[in] && (index || (n.op == Op::kAttention && k >= 3))) return true;
    }
    if (any && meets) return true;
    const bool moves =
        n.op == Op::kPointwise || n.op == Op::kView || n.op == Op::kIndexedRead || n.op == Op::kConcat;
    // Integers computed from the mask count too: their sum says where rows are written.
    of[static_cast<size_t>(at)] =
        any && (Grows(at) ? moves : !IsFloat(n.dtype) && (moves || n.op == Op::kReduce));
  }
  return false;
}

Status CacheLengthAnalysis::Refuse(const std::string& why) const {
  return Status::Error(
      Code::kUnsupported,
      "--cache-length %lld: %s; export the model so that attention alone depends on how much is cached "
      "(GroupQueryAttention, Attention), or with a cache of a fixed length, or compile it for one number of "
      "cached positions (--shape)",
      static_cast<long long>(length_), why.c_str());
}

Status CacheLengthAnalysis::Named(const Status& status, NodeId id) const {
  const Node& n = g_->node(id);
  if (n.sources.empty() || status.source_node()[0] != '\0') return status;
  return status.At("%.400s", n.sources[0].c_str()).FromNode(n.sources[0]);
}

}  // namespace rondo::importer
