// Reception: whoever comes to a port is served beside all others, and gets no further than the key that it
// knows. Internal to drivers/processes.
//
// A connection begins with three messages of fixed sizes:
//   who comes      Hello: what for, which process it says it is, a nonce
//   who listens    Challenge: a nonce of its own, and a proof that it knows the key
//   who comes      what it has to say (`body_bytes`), and a proof that it knows the key
// The proofs are keyed hashes over the whole Hello and both nonces, so that one that was recorded fits no
// other connection, and one of one side none of the other's.
#pragma once

#include <cstdint>
#include <memory>

#include "core/span.h"
#include "core/status.h"
#include "drivers/processes/authentication.h"
#include "drivers/processes/sockets.h"

namespace rondo::processes {

struct Hello {
  uint64_t magic = 0;         // what the connection is for
  uint32_t from = 0, to = 0;  // ranks
  uint32_t number = 0;        // what it means follows from `magic`
  uint32_t reserved = 0;
  Nonce nonce;
};

struct Challenge {
  Nonce nonce;
  Digest proof;
};

// How many connections led to nothing, and why.
struct TurnedAway {
  uint32_t late = 0;      // were silent, or too slow
  uint32_t closed = 0;    // by who came, before it had proved anything
  uint32_t strange = 0;   // said something else than a Hello
  uint32_t unproved = 0;  // do not know the key
  uint32_t crowded = 0;   // there were too many at once
  uint32_t unwanted = 0;  // know the key, and are not who is waited for
  uint32_t all() const { return late + closed + strange + unproved + crowded + unwanted; }
  void Add(const TurnedAway& other);
};
// "; 3 connections were turned away (2 silent or slow, 1 without the secret)"; empty where there were none.
struct TurnedText {
  char text[256] = {};
};
TurnedText TextOf(const TurnedAway& turned);

// One who has proved that it knows the key.
struct Guest {
  static constexpr size_t kMaxBody = 256;
  File file;
  Hello hello;
  Key key;  // of this connection alone, for what else is to be proved on it
  uint8_t body[kMaxBody] = {};
};

// For one thread. Never more than kSeats strangers at once, each for at most kPatience: the one that has been
// there longest leaves when there is no room.
class Reception {
 public:
  static constexpr uint32_t kSeats = 256;
  static constexpr uint32_t kMaxListeners = 8;
  static constexpr uint32_t kMaxWatched = 64;
  static constexpr uint64_t kPatience = uint64_t{2} * 1000000000;

  // Hellos of `magic` to `rank`, at `listeners`, which outlive this.
  Reception(uint64_t magic, uint32_t rank, const Key& key, size_t body_bytes, Span<const File> listeners);
  ~Reception();
  // kOutOfMemory.
  Status Prepare();

  enum class News { kGuest, kWatched, kNothing };
  // The next guest; kWatched when one of the `watched` (at most kMaxWatched) connections has something to
  // read, or has ended; kNothing at the deadline.
  News Next(Deadline deadline, Span<const int> watched, Guest* guest);

  TurnedAway& turned() { return turned_; }

 private:
  struct Seat;
  enum class Step { kWaits, kLeaves, kProved };
  Step Look(Seat* seat);
  Step Answer(Seat* seat);
  void Leave(Seat* seat, uint32_t* count);
  // Takes in all who wait at `listener`, and hears what they have said. True: `guest` is one of them.
  bool Open(const File& listener, Guest* guest);
  bool Hear(Seat* seat, Guest* guest);
  Seat* Room();

  const uint64_t magic_;
  const uint32_t rank_;
  const Key key_;
  const size_t body_bytes_;
  const Span<const File> listeners_;
  std::unique_ptr<Seat[]> seats_;
  TurnedAway turned_;
};

// The side of who comes, on a connection that has just been made. `hello` gets its nonce here.
enum class Met {
  kProved,
  kNobody,
  kStranger
};  // who listens: knows the key, does not answer, does not know it
Met Introduce(const File& file, const Key& key, Hello* hello, const void* body, size_t body_bytes,
              Deadline deadline, Key* of_connection);

}  // namespace rondo::processes
