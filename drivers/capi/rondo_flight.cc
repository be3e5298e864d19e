#include "drivers/capi/rondo_flight.h"

#include <new>

#include "core/driver_handle.h"
#include "drivers/flight/flight_driver.h"

namespace {

struct FlightHandle : rondo_driver {
  rondo_driver* inner = nullptr;
};

void Destroy(rondo_driver* driver) {
  auto* handle = static_cast<FlightHandle*>(driver);
  delete static_cast<rondo::flight::FlightDriver*>(handle->driver);
  handle->inner->destroy(handle->inner);
  delete handle;
}

}  // namespace

extern "C" rondo_driver* rondo_flight_driver_create(rondo_driver* driver, const char* path) {
  if (driver == nullptr) return nullptr;
  auto* handle = new (std::nothrow) FlightHandle;
  if (handle == nullptr) return nullptr;
  handle->inner = driver;
  handle->destroy = Destroy;
  handle->status = driver->status;
  if (driver->driver == nullptr) return handle;
  if (path == nullptr) {
    handle->status =
        rondo::Status::Error(rondo::Code::kInvalidArgument, "rondo_flight_driver_create: path is NULL");
    return handle;
  }
  rondo::Result<rondo::flight::FlightDriver*> flight =
      rondo::flight::FlightDriver::Create(driver->driver, path);
  if (flight.ok()) {
    handle->driver = *flight;
  } else {
    handle->status = flight.status();
  }
  return handle;
}
