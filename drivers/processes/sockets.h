// Sockets: connections as objects, with time limits. Internal to drivers/processes.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/status.h"

namespace rondo::processes {

// A file descriptor that is closed with its owner. -1: none.
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

// A place that one can connect to.
struct Place {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

// Nanoseconds of MonotonicNanoseconds; ~0: never.
using Deadline = uint64_t;

// Waits until `file` has what `events` (of poll) ask for. False at the deadline.
bool WaitFor(const File& file, short events, Deadline deadline);

// A socket that listens at `place` alone (port 0: any port). Naming the place: kNotFound where that is no
// address of this machine, kIo where it is taken.
Result<File> ListenAt(const Place& place);
// The same on every address of this machine, at any port.
Result<File> ListenEverywhere();
// This side's end of a connection, or where a listener listens.
Place PlaceOf(const File& file);
uint16_t PortOf(const Place& place);
// "10.0.0.1:29500", "[::1]:29500".
struct PlaceText {
  char text[64] = {};
};
PlaceText TextOf(const Place& place);

// The next connection that waits at `listener`; an invalid one, and errno, where there is none. Non-blocking.
File Accepted(const File& listener);
// A connection, non-blocking; an invalid one when there is none to be had by the deadline.
File ConnectTo(const Place& place, Deadline deadline);
// All of `bytes`, or false: closed, or too late.
bool SendAll(const File& file, const void* bytes, size_t size, Deadline deadline);
bool TakeAll(const File& file, void* bytes, size_t size, Deadline deadline);

}  // namespace rondo::processes
