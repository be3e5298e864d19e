// What DLPack asks of a consumer on a GPU, by the NVIDIA driver's functions, opened at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace rondo::python {

// A stream on each GPU that arrays come from: a producer orders its work before the stream's (the argument
// `stream` of __dlpack__), and a run begins once the stream is done. Uses the devices' shared (primary)
// contexts, as Rondo and the frameworks do. Any thread.
class Gpus {
 public:
  // Null, and why, where there is no NVIDIA driver.
  static std::unique_ptr<Gpus> Open(std::string* why);
  ~Gpus();

  // As an integer, as DLPack wants it; 0 and an error's text if there is none.
  uintptr_t Stream(int device, std::string* error);
  // Waits until all that producers ordered before it is done. "" or an error's text.
  std::string Wait(int device);
  // Memory of the device, which anybody may use on any stream; 0 if there is none. Free waits until the
  // device is idle.
  uint64_t Allocate(int device, uint64_t bytes);
  void Free(int device, uint64_t address);

 private:
  struct Functions;
  struct Device;
  explicit Gpus(std::unique_ptr<Functions> functions);
  Device* DeviceOf(int device, std::string* error);
  std::string ErrorText(const char* function, int result) const;
  std::unique_ptr<Functions> functions_;
  std::unique_ptr<Device[]> devices_;
};

}  // namespace rondo::python
