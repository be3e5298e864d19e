#include "compiler/codegen/sync_points.h"

#include <algorithm>

namespace rondo {
namespace {

using Collectives = std::vector<PlannedSyncPoint>;

Collectives Collect(const LoweredProgram& program, const std::vector<uint32_t>& all) {
  Collectives found;
  for (const LoweredOp& op : program.ops) {
    if (op.kind != LoweredKind::kCollectiveStart) continue;
    found.push_back({program.collectives[static_cast<size_t>(op.collective)], 0, op.sources});
    if (found.back().collective.group.empty()) found.back().collective.group = all;
  }
  return found;
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

// Merges the devices' collectives into one order. Of the collectives that all their devices have reached, it
// takes the first device's.
class Merge {
 public:
  explicit Merge(const std::vector<DeviceProgram>& devices) : devices_(devices) {
    for (const DeviceProgram& device : devices) all_.push_back(device.device);
    for (const DeviceProgram& device : devices) found_.push_back(Collect(*device.lowered, all_));
    at_.assign(devices.size(), 0);
    out_.numbers.resize(devices.size());
  }

  Result<PlannedSyncPoints> Run() {
    for (;;) {
      bool over = true, moved = false;
      for (size_t d = 0; d < devices_.size() && !moved; ++d) {
        if (at_[d] == found_[d].size()) continue;
        over = false;
        const Missing missing = WhoMisses(d);
        if (missing.broken) return Disagree(d, missing.member);
        if (missing.member != kNobody) continue;
        Take(d);
        moved = true;
      }
      if (over) return std::move(out_);
      if (!moved) return Stuck();
    }
  }

 private:
  static constexpr size_t kNobody = ~size_t{0};
  // A member of the group of a device's next collective that has not reached it (kNobody: all have), and
  // whether this can never be resolved: its own next collective does not match.
  struct Missing {
    size_t member = kNobody;
    bool broken = false;
  };

  size_t IndexOf(uint32_t device) const {
    return static_cast<size_t>(std::find(all_.begin(), all_.end(), device) - all_.begin());
  }
  const PlannedSyncPoint& Next(size_t d) const { return found_[d][at_[d]]; }

  Missing WhoMisses(size_t d) const {
    const PlannedSyncPoint& mine = Next(d);
    for (uint32_t device : mine.collective.group) {
      const size_t m = IndexOf(device);
      if (m == devices_.size() || at_[m] == found_[m].size()) return {m, true};
      const PlannedSyncPoint& its = Next(m);
      if (its.collective.group != mine.collective.group) return {m, false};
      if (!SameWork(mine.collective, its.collective) || StandsElsewhere(d, m)) return {m, true};
    }
    return {};
  }

  // Whether the node of `m`'s next collective is one that `d` has elsewhere, in the same group.
  bool StandsElsewhere(size_t d, size_t m) const {
    const PlannedSyncPoint &mine = Next(d), &its = Next(m);
    if (its.sources.empty() || NodeOf(mine) == NodeOf(its)) return false;
    return std::any_of(found_[d].begin(), found_[d].end(), [&](const PlannedSyncPoint& other) {
      return other.collective.group == its.collective.group && NodeOf(other) == NodeOf(its);
    });
  }

  void Take(size_t d) {
    PlannedSyncPoint point = Next(d);
    const auto known = std::find(groups_.begin(), groups_.end(), point.collective.group);
    point.communicator = static_cast<uint32_t>(known - groups_.begin());
    if (known == groups_.end()) groups_.push_back(point.collective.group);
    for (uint32_t device : point.collective.group) {
      const size_t m = IndexOf(device);
      out_.numbers[m].push_back(static_cast<uint32_t>(out_.points.size()));
      ++at_[m];
    }
    out_.points.push_back(std::move(point));
  }

  Status Error(const std::string& text, const PlannedSyncPoint& point) const {
    return Status::Error(Code::kInvalidArgument, "program \"%s\": %s", devices_[0].lowered->name.c_str(),
                         text.c_str())
        .FromNode(NodeOf(point));
  }

  std::string DeviceText(size_t d) const {
    return "device " + std::to_string(d < all_.size() ? all_[d] : uint32_t{0});
  }

  // The error where `d` has reached a collective that `m` lacks or has differently.
  Status Disagree(size_t d, size_t m) const {
    const PlannedSyncPoint& mine = Next(d);
    if (m < devices_.size() && at_[m] < found_[m].size()) {
      return Error("devices disagree about sync point " + std::to_string(out_.points.size()) + ": it is " +
                       Describe(mine) + " on " + DeviceText(d) + ", " + Describe(Next(m)) + " on " +
                       DeviceText(m),
                   Next(m));
    }
    if (m == devices_.size())
      return Error(Describe(mine) + " on " + DeviceText(d) + " is of a device that has no part in it", mine);
    // Names the device with the lower number first.
    const size_t low = std::min(d, m), high = std::max(d, m);
    return Error(DeviceText(low) + " has " + std::to_string(found_[low].size()) + " collectives, " +
                     DeviceText(high) + " has " + std::to_string(found_[high].size()) + ": sync point " +
                     std::to_string(out_.points.size()) + ", " + Describe(mine) + ", is on " + DeviceText(d) +
                     " only",
                 mine);
  }

  Status Stuck() const {
    size_t d = 0;
    while (at_[d] == found_[d].size()) ++d;
    const size_t m = WhoMisses(d).member;
    return Error("the devices would wait for one another: " + DeviceText(d) + " comes to " +
                     Describe(Next(d)) + ", " + DeviceText(m) + " to " + Describe(Next(m)),
                 Next(d));
  }

  const std::vector<DeviceProgram>& devices_;
  std::vector<uint32_t> all_;
  std::vector<Collectives> found_;  // by device program, in program order
  std::vector<size_t> at_;          // how many of them are in out_
  std::vector<std::vector<uint32_t>> groups_;
  PlannedSyncPoints out_;
};

}  // namespace

Result<PlannedSyncPoints> SyncPointsOf(const std::vector<DeviceProgram>& devices) {
  return Merge(devices).Run();
}

}  // namespace rondo
