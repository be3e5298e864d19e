// FlightDriver: another driver with a record of all its calls in a file (flight_file.h).
//
// A graph is one entry, which lists its steps. The devices' progress with collectives is noted when the
// runtime's watchdog asks for it, several times a second. Recording an entry takes less than 0.1 µs. If
// NVTX's headers were found, graphs and waits are also ranges, which Nsight Systems shows.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/forwarding_driver.h"
#include "drivers/flight/flight_file.h"

namespace rondo::flight {

class FlightDevice;

class FlightDriver : public ForwardingDriver {
 public:
  // `inner` must outlive it. kIo.
  static Result<FlightDriver*> Create(Driver* inner, const std::string& path);
  ~FlightDriver() override;

  Status Expect(const PlanData& plan) override { return inner_->Expect(plan); }
  Result<Device*> Open(uint32_t index) override;
  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t> devices) override;
  void DestroyCollectives(Collectives* collectives) override;
  void AbortCollectives(Collectives* collectives, const Status& why, bool wait) override;
  Status Progress(Collectives* collectives, uint32_t device, CollectiveProgress* progress) override;

 private:
  // One program's collectives, by device of the program: the driver's device, its sync points as a text, and
  // the progress noted last.
  struct Part {
    uint32_t device = 0;
    uint64_t text = 0;
    uint64_t noted = 0;
  };
  FlightDriver(Driver* inner, FlightFile* file);

  const std::unique_ptr<FlightFile> file_;
  std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<FlightDevice>> devices_;
  std::map<Collectives*, std::vector<Part>> collectives_;
};

}  // namespace rondo::flight
