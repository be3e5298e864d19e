// Addresses: of this machine, and of what a text names. Internal to drivers/processes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/status.h"
#include "drivers/processes/authentication.h"
#include "drivers/processes/sockets.h"

namespace rondo::processes {

// Where a process listens for the others.
struct Listeners {
  static constexpr uint32_t kMost = 8;
  File files[kMost];  // all at one port
  uint32_t count = 0;
  bool everywhere = false;  // on every address of this machine
};

// What a process tells the others of itself, as bytes: all that they need to find it.
struct Card {
  struct Known {
    uint8_t version = 0;  // of the internet protocol: 4 or 6
    uint8_t bytes[16] = {};
  };
  static constexpr uint32_t kMost = 12;

  Nonce share;           // this process's part of the key that all have together
  uint64_t machine = 0;  // the same on processes that share a machine's network
  uint16_t port = 0;
  uint8_t count = 0;
  uint8_t everywhere = 0;  // 1: on the machine's own loop as well
  Known known[kMost];
};
// It is hashed as the bytes that it is.
static_assert(std::has_unique_object_representations_v<Card>);

// One a network namespace of a machine; 0: not known.
uint64_t NetworkNumber();

// This process's, which listens there. kIo where the system has no random numbers.
Status MakeCard(const Listeners& listeners, Card* card);
// Where `card`'s owner may be found from here, as many as there are of `places`.
uint32_t PlacesOf(const Card& card, const Card& mine, Place (&places)[Card::kMost + 1]);

// Listens at the address of `place` alone, at any port; everywhere for an address that holds on one link
// only, as others cannot be told it.
Status ListenBeside(const Place& place, Listeners* listeners);

// The place that an address in numbers, "10.0.0.2" or "::1", names, without a port. kInvalidArgument.
Result<Place> PlaceOfNumber(const char* number);

// The other way: this side's address of a connection. False where it holds on this machine or one link alone.
bool LocalNumber(const File& file, char* number, size_t size);

// "host:port" or "[v6]:port": its port, and where it is; none yet where the name is not known.
struct Named {
  Place places[8];
  uint32_t count = 0;
  uint16_t port = 0;
};
// kInvalidArgument, naming what is wrong.
Result<Named> Resolve(const char* address);
// Listens where `address` says, which is `named`, and nowhere else. An error where none of that is this
// machine's, or one of it is taken.
Status ListenThere(const char* address, const Named& named, Listeners* listeners);

}  // namespace rondo::processes
