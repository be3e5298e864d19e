#include "compiler/codegen/sync_points.h"

#include <algorithm>

namespace rondo {
namespace {

using SyncPoints = std::vector<PlannedSyncPoint>;

SyncPoints Collect(const LoweredProgram& program) {
  SyncPoints points;
  for (const LoweredOp& op : program.ops) {
    if (op.kind != LoweredKind::kCollectiveStart) continue;
    points.push_back({program.collectives[static_cast<size_t>(op.collective)], op.sources});
  }
  return points;
}

std::string NodeOf(const PlannedSyncPoint& point) {
  return point.sources.empty() ? "no source node" : point.sources.front();
}

std::string Describe(const PlannedSyncPoint& point) {
  return std::string(Name(point.collective.op)) + " of " + std::to_string(point.collective.bytes) +
         " bytes of " + Name(point.collective.dtype) + " (" + NodeOf(point) + ")";
}

bool SameWork(const LoweredCollective& a, const LoweredCollective& b) {
  return a.op == b.op && a.dtype == b.dtype && a.bytes == b.bytes;
}

// Whether `point` comes from a node that `others` have, but not at `index`.
bool StandsElsewhere(const SyncPoints& others, size_t index, const PlannedSyncPoint& point) {
  if (point.sources.empty() || NodeOf(others[index]) == NodeOf(point)) return false;
  return std::any_of(others.begin(), others.end(),
                     [&](const PlannedSyncPoint& other) { return NodeOf(other) == NodeOf(point); });
}

Status Compare(const std::string& program, const SyncPoints& first, const SyncPoints& points, size_t device) {
  const size_t common = std::min(first.size(), points.size());
  for (size_t i = 0; i < common; ++i) {
    if (SameWork(first[i].collective, points[i].collective) && !StandsElsewhere(first, i, points[i])) {
      continue;
    }
    return Status::Error(Code::kInvalidArgument,
                         "program \"%s\": devices disagree about sync point %zu: it is %s on device 0, %s on "
                         "device %zu",
                         program.c_str(), i, Describe(first[i]).c_str(), Describe(points[i]).c_str(), device)
        .FromNode(NodeOf(points[i]));
  }
  if (first.size() == points.size()) return Status::Ok();
  const bool more = points.size() > first.size();
  const PlannedSyncPoint& extra = more ? points[common] : first[common];
  return Status::Error(
             Code::kInvalidArgument,
             "program \"%s\": device 0 has %zu collectives, device %zu has %zu: sync point %zu, %s, is "
             "on device %zu only",
             program.c_str(), first.size(), device, points.size(), common, Describe(extra).c_str(),
             more ? device : size_t{0})
      .FromNode(NodeOf(extra));
}

}  // namespace

Result<SyncPoints> SyncPointsOf(const std::vector<const LoweredProgram*>& devices) {
  SyncPoints first = Collect(*devices[0]);
  for (size_t d = 1; d < devices.size(); ++d) {
    RONDO_RETURN_IF_ERROR(Compare(devices[0]->name, first, Collect(*devices[d]), d));
  }
  return first;
}

}  // namespace rondo
