// Sockets: connections as objects, with time limits. Internal to drivers/processes.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/status.h"

namespace rondo::processes {

// Owns a file descriptor and closes it. -1: none.
class File {
 public:
  File() = default;
  explicit File(int number) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~File() { Close(); }
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  void Close();

 private:
  int number_ = -1;
};

// An address that can be connected to.
struct Place {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

// Nanoseconds of MonotonicNanoseconds; ~0: never.
using Deadline = uint64_t;

// Waits until `file` is ready for `events` (as for poll). False at the deadline.
bool WaitFor(const File& file, short events, Deadline deadline);

// A socket that listens only at `place` (port 0: any port). Errors name the place: kNotFound if it is not an
// address of this machine, kIo if it is taken.
Result<File> ListenAt(const Place& place);
// The same on every address of this machine, at any port.
Result<File> ListenEverywhere();
// The local address of a connection or listener.
Place PlaceOf(const File& file);
uint16_t PortOf(const Place& place);
// "10.0.0.1:29500", "[::1]:29500".
struct PlaceText {
  char text[64] = {};
};
PlaceText TextOf(const Place& place);

// The next connection waiting at `listener`, non-blocking. If there is none, an invalid one, and errno is
// set.
File Accepted(const File& listener);
// A non-blocking connection; invalid if none can be made by the deadline.
File ConnectTo(const Place& place, Deadline deadline);
// Sends (receives) all of `bytes`. False: closed, or too late.
bool SendAll(const File& file, const void* bytes, size_t size, Deadline deadline);
bool TakeAll(const File& file, void* bytes, size_t size, Deadline deadline);

}  // namespace rondo::processes
