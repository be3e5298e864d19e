#include "formats/plan/peer_times.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rondo {
namespace {

constexpr double kEqual = 1e-9;             // times that differ by a smaller share of the whole are equal
constexpr int64_t kMostWork = 100'000'000;  // steps that are looked at

bool Alike(const TimedDevice& a, const TimedDevice& b) {
  const auto same = [](const TimedStep& x, const TimedStep& y) {
    return x.kind == y.kind && x.stream == y.stream && x.collective == y.collective && x.time == y.time &&
           x.deps == y.deps;
  };
  return a.order == b.order && std::equal(a.steps.steps.begin(), a.steps.steps.end(), b.steps.steps.begin(),
                                          b.steps.steps.end(), same);
}

std::vector<double> Arrivals(const TimedDevice& device, const PeerTimes& peers) {
  std::vector<double> times;
  for (const CollectiveTimes& c : Simulate(device.steps, device.order, peers).collectives)
    times.push_back(c.arrive);
  return times;
}

std::vector<double> Remaining(const TimedDevice& device, const PeerTimes& peers) {
  return RemainingTimes(device.steps, device.order, peers);
}

}  // namespace

std::vector<size_t> KindsOf(const std::vector<TimedDevice>& devices) {
  std::vector<size_t> kinds, firsts;
  for (size_t d = 0; d < devices.size(); ++d) {
    const auto known =
        std::find_if(firsts.begin(), firsts.end(), [&](size_t f) { return Alike(devices[f], devices[d]); });
    kinds.push_back(known == firsts.end() ? d : *known);
    if (kinds[d] == d) firsts.push_back(d);
  }
  return kinds;
}

Meetings::Meetings(const std::vector<TimedDevice>& devices) : others_(devices.size()) {
  const std::vector<size_t> kinds = KindsOf(devices);
  std::map<std::pair<std::vector<uint32_t>, size_t>, std::vector<Place>> met;  // by group and number
  for (size_t d = 0; d < devices.size(); ++d) {
    std::map<std::vector<uint32_t>, size_t> count;
    others_[d].resize(devices[d].groups.size());
    for (size_t c = 0; c < devices[d].groups.size(); ++c) {
      const std::vector<uint32_t>& group = devices[d].groups[c];
      met[{group, count[group]++}].push_back({d, c});
    }
  }
  for (const auto& [key, places] : met) {
    for (const Place& at : places) {
      for (const Place& other : places) {
        if (at.collective == other.collective && kinds[at.device] == kinds[other.device]) continue;
        others_[at.device][at.collective].push_back(other);
        any_ = true;
      }
    }
  }
}

// Finds the least times by collective that equal what `times_of(device, peers)` gives for the other devices.
// `times_of` must not fall when the peers' times rise. False if there are none.
bool Meetings::Settle(const std::vector<TimedDevice>& devices, std::vector<double> PeerTimes::*member,
                      std::vector<double> (*times_of)(const TimedDevice&, const PeerTimes&),
                      std::vector<PeerTimes>* peers) const {
  double longest = 0;
  for (const TimedDevice& device : devices) {
    for (const TimedStep& step : device.steps.steps) longest += step.time;
  }
  for (size_t d = 0; d < devices.size(); ++d) ((*peers)[d].*member).assign(devices[d].steps.collectives, 0);
  std::vector<std::vector<double>> times(devices.size());
  std::vector<bool> stale(devices.size(), true);
  int64_t work = kMostWork;
  while (std::find(stale.begin(), stale.end(), true) != stale.end()) {
    for (size_t d = 0; d < devices.size(); ++d) {
      if (!stale[d]) continue;
      work -= static_cast<int64_t>(devices[d].order.size());
      times[d] = times_of(devices[d], (*peers)[d]);
      stale[d] = false;
    }
    if (work < 0) return false;
    for (size_t d = 0; d < devices.size(); ++d) {
      for (size_t c = 0; c < others_[d].size(); ++c) {
        double& known = ((*peers)[d].*member)[c];
        for (const Place& other : others_[d][c]) {
          const double now = times[other.device][other.collective];
          if (now <= known + kEqual * longest) continue;
          if (now > longest * (1 + kEqual)) return false;
          known = now;
          stale[d] = true;
        }
      }
    }
  }
  return true;
}

std::vector<PeerTimes> Meetings::Times(const std::vector<TimedDevice>& devices) const {
  std::vector<PeerTimes> peers(devices.size());
  if (!any_ || (Settle(devices, &PeerTimes::arrive, Arrivals, &peers) &&
                Settle(devices, &PeerTimes::remain, Remaining, &peers)))
    return peers;
  return std::vector<PeerTimes>(devices.size());
}

double Meetings::EndOfRun(const std::vector<TimedDevice>& devices) const {
  std::vector<PeerTimes> peers(devices.size());
  if (any_ && !Settle(devices, &PeerTimes::arrive, Arrivals, &peers)) peers.assign(devices.size(), {});
  double end = 0;
  for (size_t d = 0; d < devices.size(); ++d)
    end = std::max(end, Simulate(devices[d].steps, devices[d].order, peers[d]).end);
  return end;
}

}  // namespace rondo
