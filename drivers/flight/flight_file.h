// The file of a flight recorder: the latest calls on each device and their results, kept in a mapped file, so
// that it can be read while the process hangs, and after it has been killed.
//
//   page 0       FlightHeader
//   then         for each device, a ring of `records` FlightRecords
//   then         texts, each ended by a zero byte: what graphs and sync points are, and errors
//
// Written by one process (FlightFile), read by any (ReadFlight). Numbers are of the machine that writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/span.h"
#include "core/status.h"

namespace rondo::flight {

inline constexpr uint32_t kDevices = 64;  // of a driver, at most; others are not recorded
inline constexpr uint32_t kRecords = 1024;
inline constexpr uint64_t kTextBytes = uint64_t{4} << 20;

enum class Kind : uint32_t {
  kLaunch = 1,      // a graph is launched; text: its program, partition and steps
  kStep = 2,        // a step by itself; step
  kCollective = 3,  // a collective starts by itself; step
  kCopyIn = 4,      // value: bytes
  kCopyOut = 5,
  kWait = 6,      // the host waits for the stream ...
  kDone = 7,      // ... which has finished all its work
  kFault = 8,     // ... or reports an error; text, step
  kProgress = 9,  // value: collectives that the device has reached << 32 | that have ended; text: their names
  kAbort = 10,    // all collectives of a run are aborted; text: why
};

struct FlightRecord {
  std::atomic<uint64_t> number;  // from 1 on; 0 while it is written
  int64_t time;                  // nanoseconds since 1970
  Kind kind;
  uint32_t step;  // kNone: not known
  uint64_t stream;
  uint64_t value;
  uint64_t text;  // offset among the texts; 0: none
  uint64_t unused[2];
};
static_assert(sizeof(FlightRecord) == 64);

struct FlightHeader {
  char magic[8];
  uint32_t devices, records;
  uint64_t text_bytes;
  int64_t started;  // nanoseconds since 1970
  int64_t process;
  std::atomic<uint64_t> text_used;
  std::atomic<uint64_t> next[kDevices];  // number of the latest record
};

// The writing end. Any thread.
class FlightFile {
 public:
  // Creates a new file. kIo.
  static Result<FlightFile*> Create(const std::string& path);
  ~FlightFile();
  FlightFile(const FlightFile&) = delete;

  // The offset of a text; 0 when there is no more room.
  uint64_t Text(std::string_view text);
  // Allocates nothing.
  void Add(uint32_t device, Kind kind, uint64_t stream, uint32_t step, uint64_t value, uint64_t text);

 private:
  explicit FlightFile(void* mapping) : mapping_(mapping) {}
  FlightHeader* header() const { return static_cast<FlightHeader*>(mapping_); }
  void* const mapping_;
};

// An entry as read.
struct Entry {
  uint64_t number = 0;
  int64_t time = 0;
  Kind kind = Kind::kStep;
  uint32_t step = 0;
  uint64_t stream = 0, value = 0;
  std::string text;
};

struct Flight {
  int64_t started = 0, process = 0;
  std::vector<std::vector<Entry>> devices;  // the latest entries of each device, oldest first
};

// kCorrupt if it is not such a file; other damage only loses entries.
Result<Flight> ReadFlight(Span<const uint8_t> bytes);

}  // namespace rondo::flight
