// PeerTimesOf: how long devices wait for one another, by estimate: stages of a pipeline, and whoever else
// comes to a collective late.
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

// By device: the first whose steps and order are the same.
std::vector<size_t> KindsOf(const std::vector<TimedDevice>& devices);

// Who meets whom at which collective: the n-th collective of a group is the same one on each of its devices.
// Devices that are alike do not wait for one another: one that becomes quicker, or slower, takes those like
// it along. An immutable value; holds for the devices it is made of in whatever order they run their steps,
// as long as those alike run them in the same.
class Meetings {
 public:
  explicit Meetings(const std::vector<TimedDevice>& devices);

  bool any() const { return any_; }  // somebody may wait
  // By device; empty where nobody waits, or where devices wait for one another in a circle.
  std::vector<PeerTimes> Times(const std::vector<TimedDevice>& devices) const;
  // When all devices are done.
  double EndOfRun(const std::vector<TimedDevice>& devices) const;

 private:
  // A collective as a device has it.
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
