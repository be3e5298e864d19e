// Reception: serves all connections to a port side by side, and lets in only those that prove that they know
// the key. Internal to drivers/processes.
//
// A connection begins with three messages of fixed sizes:
//   client    Hello: purpose, claimed rank, a nonce
//   listener  Challenge: its own nonce, and a proof that it knows the key
//   client    its data (`body_bytes`), and a proof that it knows the key
// The proofs are keyed hashes over the whole Hello and both nonces. So a recorded proof fits no other
// connection, and a proof of one side does not fit the other side.
#pragma once

#include <cstdint>
#include <memory>

#include "core/span.h"
#include "core/status.h"
#include "drivers/processes/authentication.h"
#include "drivers/processes/sockets.h"

namespace rondo::processes {

struct Hello {
  uint64_t magic = 0;         // the purpose of the connection
  uint32_t from = 0, to = 0;  // ranks
  uint32_t number = 0;        // its meaning depends on `magic`
  uint32_t reserved = 0;
  Nonce nonce;
};

struct Challenge {
  Nonce nonce;
  Digest proof;
};

// The number of failed connections, by reason.
struct TurnedAway {
  uint32_t late = 0;      // silent or too slow
  uint32_t closed = 0;    // closed by the client before it had proved anything
  uint32_t strange = 0;   // sent something other than a Hello
  uint32_t unproved = 0;  // did not know the key
  uint32_t crowded = 0;   // too many at once
  uint32_t unwanted = 0;  // knew the key, but were not expected
  uint32_t all() const { return late + closed + strange + unproved + crowded + unwanted; }
  void Add(const TurnedAway& other);
};
// "; 3 connections were turned away (2 silent or slow, 1 without the secret)"; empty where there were none.
struct TurnedText {
  char text[256] = {};
};
TurnedText TextOf(const TurnedAway& turned);

// A client that has proved that it knows the key.
struct Guest {
  static constexpr size_t kMaxBody = 256;
  File file;
  Hello hello;
  Key key;  // of this connection alone, for further proofs on it
  uint8_t body[kMaxBody] = {};
};

// For one thread. At most kSeats strangers at once, each for at most kPatience; when all seats are taken, the
// oldest must leave.
class Reception {
 public:
  static constexpr uint32_t kSeats = 256;
  static constexpr uint32_t kMaxListeners = 8;
  static constexpr uint32_t kMaxWatched = 64;
  static constexpr uint64_t kPatience = uint64_t{2} * 1000000000;

  // Accepts Hellos of `magic` to `rank` at `listeners`, which must outlive this.
  Reception(uint64_t magic, uint32_t rank, const Key& key, size_t body_bytes, Span<const File> listeners);
  ~Reception();
  // kOutOfMemory.
  Status Prepare();

  enum class News { kGuest, kWatched, kNothing };
  // The next guest; kWatched when one of the `watched` connections (at most kMaxWatched) has data or has
  // ended; kNothing at the deadline.
  News Next(Deadline deadline, Span<const int> watched, Guest* guest);

  TurnedAway& turned() { return turned_; }

 private:
  struct Seat;
  enum class Step { kWaits, kLeaves, kProved };
  Step Look(Seat* seat);
  Step Answer(Seat* seat);
  void Leave(Seat* seat, uint32_t* count);
  // Accepts all clients waiting at `listener`, and reads what they have sent. True: `guest` is one of them.
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

// The client's side, on a new connection. Fills in the nonce of `hello`.
enum class Met {
  kProved,
  kNobody,
  kStranger
};  // the listener knows the key; does not answer; does not know the key
Met Introduce(const File& file, const Key& key, Hello* hello, const void* body, size_t body_bytes,
              Deadline deadline, Key* of_connection);

}  // namespace rondo::processes
