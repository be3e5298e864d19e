// The GPU side of a DLPack consumer, by functions of the NVIDIA driver that are opened at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace rondo::python {

// One stream for each GPU that arrays come from. A producer orders its work before this stream (the argument
// `stream` of __dlpack__), and a run begins once the stream is done. Uses the devices' primary contexts, as
// Rondo and the frameworks do. Any thread.
class Gpus {
 public:
  // Null, and the reason in `why`, if there is no NVIDIA driver.
  static std::unique_ptr<Gpus> Open(std::string* why);
  ~Gpus();

  // The stream as the integer that DLPack wants; 0 and a text in `error` if there is none.
  uintptr_t Stream(int device, std::string* error);
  // Waits for all work that producers ordered before the stream. Returns "" or an error's text.
  std::string Wait(int device);
  // Device memory for use on any stream; 0 if it ran out. Free waits until the device is idle.
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
