// Processes: those that run a plan together, one of its devices each, as one of them sees them.
//
// They meet through what started them (MeetingPlace) and then keep two connections a pair: one for what they
// agree on and for bad news, one for the data of collectives on drivers that have nothing better. A process
// that ends, with or without a word, closes them: the others know at once. All is for good: once one of them
// has given up, or ended too early, they can do nothing together any more, and say why.
//
// Threads: Agree, Gather by one thread at a time; Transfer by one at a time; Abort and state by any, at any
// moment. None allocates but Connect, and Gather where `bytes` is more than it was before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/span.h"
#include "core/status.h"
#include "core/stop.h"

namespace rondo {

inline constexpr uint32_t kMaxProcesses = 64;

// The same in all processes of a machine, from its start on; 0: not known.
uint64_t MachineNumber();

// How processes that do not know one another's addresses come together: by `all_gather`, if there is one, or
// else at `address`.
struct MeetingPlace {
  // Gives every process what each of them gives: all[r * bytes] is what rank r gave. Called by Connect, on
  // its thread, on all processes with the same `bytes`. Returns 0, or another number, which the error
  // repeats.
  int (*all_gather)(void* user, const void* mine, size_t bytes, void* all) = nullptr;
  void* user = nullptr;
  // "host:port", "[v6]:port": where rank 0 listens, while they meet, and all others come to. Rank 0 listens
  // at the addresses of its machine that `host` names, and at no others; the others listen where they came to
  // rank 0 from.
  const char* address = nullptr;
  // With `all_gather`, where this process listens for the others if not all are on one machine: an address of
  // this machine in numbers; null: all of them. On one machine they listen at 127.0.0.1.
  const char* listen = nullptr;
};

// What a secret is for: only processes that know it take part. Both sides of every connection prove so by a
// keyed hash (BLAKE2s) over random numbers of both, before anything else is read; it is never sent. Without
// one, whoever reaches `address` while they meet can take part, or a place; with `all_gather` the key is made
// of what that carries, and is as secret as that. It does not hide or seal what is sent afterwards: a network
// that others can read or change needs a tunnel.
struct ProcessOptions {
  static constexpr size_t kMinSecret = 16, kMaxSecret = 4096;  // characters

  uint32_t rank = 0, size = 1;  // size at most kMaxProcesses
  MeetingPlace place;
  std::string_view secret;                          // the same in all; empty: none. Not kept
  uint64_t timeout_ns = uint64_t{60} * 1000000000;  // until all have come; with `all_gather`, from then on
};

// What one process sends another in a Transfer, and takes from it.
struct Parcel {
  uint32_t peer = 0;
  const void* send = nullptr;
  uint64_t send_bytes = 0;
  void* take = nullptr;
  uint64_t take_bytes = 0;
};

// What a Transfer is for: the same on both sides, or it fails. `words` are compared; `describe` says in words
// what they mean.
struct Purpose {
  uint64_t words[6] = {};
  void (*describe)(const uint64_t* words, char* text, size_t size) = nullptr;
};

class Processes {
 public:
  // Returns when all are connected with all. Strangers are served side by side, each for 2 s at most and 256
  // at once; they are dropped and counted, and end nothing. kInvalidArgument for options out of range, or
  // when one that knows the secret comes with other numbers; kAborted, naming who, when some have not come in
  // time.
  static Result<Processes*> Connect(const ProcessOptions& options);
  // Says goodbye; what the others still have from this one stays valid.
  virtual ~Processes() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // How many connections came to this process while they met, and were turned away.
  virtual uint32_t turned_away() const = 0;

  // As Driver::Agree says.
  virtual Status Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop) = 0;
  // The same without a plan; besides, all[r * bytes] becomes what rank r gave. At most kMaxGather bytes.
  virtual Status Gather(const Status& so_far, const void* mine, void* all, size_t bytes,
                        StopSignal* stop) = 0;
  static constexpr size_t kMaxGather = 4096;

  // Sends and takes all parcels, to and from different peers. Ends early with what state() says, or when a
  // peer comes with another purpose or other sizes: an error that names both, and the end for all.
  virtual Status Transfer(const Purpose& purpose, Span<const Parcel> parcels) = 0;

  // Gives up: tells the others `why`, and ends what is under way here. The first counts.
  virtual void Abort(const Status& why) = 0;
  // OK, or why they can do nothing together any more. Does not block.
  virtual Status state() = 0;
  // The same, but also an error when one has ended in good order at least so many nanoseconds ago.
  virtual Status StateWithAll(uint64_t nanoseconds) = 0;
};

}  // namespace rondo
