// Processes: the processes that run a plan together, one device each, seen from one of them.
//
// They meet through their launcher (MeetingPlace) and then keep two connections for each pair: one for
// control messages, one for the data of collectives on drivers that have nothing faster. A process that ends,
// for whatever reason, closes them, so the others know at once. An error is permanent: once one process has
// given up or ended too early, they can do nothing together any more, and report why.
//
// Threads: Agree and Gather by one thread at a time; Transfer by one at a time; Abort and state by any, at
// any moment. Only Connect allocates, and Gather when `bytes` exceeds its earlier maximum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/span.h"
#include "core/status.h"
#include "core/stop.h"

namespace rondo {

inline constexpr uint32_t kMaxProcesses = 64;

// Equal in all processes of a machine since its start; 0: unknown.
uint64_t MachineNumber();

// How processes that do not know one another's addresses meet: by `all_gather` if given, otherwise at
// `address`.
struct MeetingPlace {
  // Gives every process the data of each: all[r * bytes] is rank r's. Called by Connect, on its thread, in
  // all processes with the same `bytes`. Returns 0, or another number, which the error repeats.
  int (*all_gather)(void* user, const void* mine, size_t bytes, void* all) = nullptr;
  void* user = nullptr;
  // "host:port", "[v6]:port": where rank 0 listens and all others connect while they meet. Rank 0 listens
  // only at the addresses of its machine that `host` names. The others listen at the address from which they
  // connected to rank 0.
  const char* address = nullptr;
  // With `all_gather`: the address where this process listens for the others if not all are on one machine,
  // in numbers; null: all addresses of this machine. On one machine they listen at 127.0.0.1.
  const char* listen = nullptr;
};

// With a secret, only processes that know it can take part. Before anything else is read, both sides of every
// connection prove that they know it by a keyed hash (BLAKE2s) over random numbers of both; the secret is
// never sent. Without one, anybody who reaches `address` during the meeting can take part, or take a place;
// with `all_gather`, the key is made from the data that it carries, and is as secret as that. Later data is
// neither encrypted nor authenticated: use a tunnel on a network that others can read or change.
struct ProcessOptions {
  static constexpr size_t kMinSecret = 16, kMaxSecret = 4096;  // characters

  uint32_t rank = 0, size = 1;  // size at most kMaxProcesses
  MeetingPlace place;
  std::string_view secret;                          // the same in all processes; empty: none. Not kept
  uint64_t timeout_ns = uint64_t{60} * 1000000000;  // until all have come; with `all_gather`, from its end on
};

// The data that a process sends to another in a Transfer and receives from it.
struct Parcel {
  uint32_t peer = 0;
  const void* send = nullptr;
  uint64_t send_bytes = 0;
  void* take = nullptr;
  uint64_t take_bytes = 0;
};

// Identifies a Transfer: must be equal on both sides, or it fails. `words` are compared; `describe` puts them
// into words.
struct Purpose {
  uint64_t words[6] = {};
  void (*describe)(const uint64_t* words, char* text, size_t size) = nullptr;
};

class Processes {
 public:
  // Returns when every process is connected with every other. Strangers are served concurrently, each for 2 s
  // at most and 256 at once; they are dropped and counted, and cannot end the meeting. kInvalidArgument for
  // options out of range, or when one that knows the secret comes with another rank or size; kAborted, naming
  // the processes, when some have not come in time.
  static Result<Processes*> Connect(const ProcessOptions& options);
  // Says goodbye; the others can still read what this process has sent.
  virtual ~Processes() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // The number of connections that were turned away during the meeting.
  virtual uint32_t turned_away() const = 0;

  // As Driver::Agree says.
  virtual Status Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop) = 0;
  // The same without a plan; in addition, all[r * bytes] becomes the data of rank r. At most kMaxGather
  // bytes.
  virtual Status Gather(const Status& so_far, const void* mine, void* all, size_t bytes,
                        StopSignal* stop) = 0;
  static constexpr size_t kMaxGather = 4096;

  // Sends and receives all parcels, each with another peer. Ends early with the error of state(). If a peer
  // has another purpose or other sizes, the error names both, and the group ends.
  virtual Status Transfer(const Purpose& purpose, Span<const Parcel> parcels) = 0;

  // Gives up: sends `why` to the others, and ends calls under way here. Only the first call counts.
  virtual void Abort(const Status& why) = 0;
  // OK, or why they can do nothing together any more. Does not block.
  virtual Status state() = 0;
  // The same, but also an error when a process ended in good order at least `nanoseconds` ago.
  virtual Status StateWithAll(uint64_t nanoseconds) = 0;
};

}  // namespace rondo
