// PeerTimesOf: estimates how long devices wait for one another, in pipeline stages and at collectives.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/plan/timeline.h"

namespace rondo {

// One of a program's devices.
struct TimedDevice {
  uint32_t device = 0;
  TimedSteps steps;
  std::vector<int> order;                     // of its steps
  std::vector<std::vector<uint32_t>> groups;  // by collective: its devices
};

// For each device: the index of the first device with the same steps and order.
std::vector<size_t> KindsOf(const std::vector<TimedDevice>& devices);

// Which devices meet at which collective. The n-th collective of a group is the same one on each of its
// devices. Devices of one kind do not wait for one another, since a change on one is a change on all.
// Immutable; stays valid when the devices reorder their steps, as long as devices of one kind keep the same
// order.
class Meetings {
 public:
  explicit Meetings(const std::vector<TimedDevice>& devices);

  bool any() const { return any_; }  // some device may wait
  // By device; empty where no device waits, or where devices wait for one another in a cycle.
  std::vector<PeerTimes> Times(const std::vector<TimedDevice>& devices) const;
  // The time at which all devices are done.
  double EndOfRun(const std::vector<TimedDevice>& devices) const;

 private:
  // One device's end of a collective.
  struct Place {
    size_t device, collective;
  };
  bool Settle(const std::vector<TimedDevice>& devices, std::vector<double> PeerTimes::*member,
              std::vector<double> (*times_of)(const TimedDevice&, const PeerTimes&),
              std::vector<PeerTimes>* peers) const;

  std::vector<std::vector<std::vector<Place>>> others_;  // by device and collective
  bool any_ = false;
};

}  // namespace rondo
