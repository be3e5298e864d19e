// FlightDriver: another driver, and a record of what is asked of it in a file (flight_file.h).
//
// A graph is one entry, with the steps that it holds; where devices stand with collectives is noted when the
// runtime's watchdog asks, several times a second. Recording an entry takes less than 0.1 µs. Where NVTX's
// headers were found, graphs and waits are ranges, too, which Nsight Systems shows.
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

  Result<Device*> Open(uint32_t index) override;
  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t> devices) override;
  void DestroyCollectives(Collectives* collectives) override;
  void AbortCollectives(Collectives* collectives, const Status& why, bool wait) override;
  Status Progress(Collectives* collectives, uint32_t device, CollectiveProgress* progress) override;

 private:
  // Of one program's collectives: by device of the program, which of the driver's it is, its sync points as a
  // text, and what was noted last.
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
