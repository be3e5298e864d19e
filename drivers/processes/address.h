// Network addresses of this machine and of given texts. Internal to drivers/processes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/status.h"
#include "drivers/processes/authentication.h"
#include "drivers/processes/sockets.h"

namespace rondo::processes {

// The sockets at which a process listens for the others.
struct Listeners {
  static constexpr uint32_t kMost = 8;
  File files[kMost];  // all at the same port
  uint32_t count = 0;
  bool everywhere = false;  // at every address of this machine
};

// The description of a process that all others need to connect to it, as bytes.
struct Card {
  struct Known {
    uint8_t version = 0;  // of the internet protocol: 4 or 6
    uint8_t bytes[16] = {};
  };
  static constexpr uint32_t kMost = 12;

  Nonce share;           // this process's share of the common key
  uint64_t machine = 0;  // equal for processes that share a machine's network
  uint16_t port = 0;
  uint8_t count = 0;
  uint8_t everywhere = 0;  // 1: also at the loopback address
  Known known[kMost];
};
// It is hashed as raw bytes.
static_assert(std::has_unique_object_representations_v<Card>);

// One number for each network namespace of a machine; 0: unknown.
uint64_t NetworkNumber();

// This process's card, for `listeners`. kIo if the system has no random numbers.
Status MakeCard(const Listeners& listeners, Card* card);
// The places where `card`'s owner may be reached from here; returns their number.
uint32_t PlacesOf(const Card& card, const Card& mine, Place (&places)[Card::kMost + 1]);

// Listens only at the address of `place`, at any port. For a link-local address it listens everywhere, since
// others cannot be told that address.
Status ListenBeside(const Place& place, Listeners* listeners);

// The place of a numeric address such as "10.0.0.2" or "::1", without a port. kInvalidArgument.
Result<Place> PlaceOfNumber(const char* number);

// This side's address of a connection, as text. False if the address is only valid on this machine or link.
bool LocalNumber(const File& file, char* number, size_t size);

// A parsed "host:port" or "[v6]:port": the port and the places. No place if the name is unknown so far.
struct Named {
  Place places[8];
  uint32_t count = 0;
  uint16_t port = 0;
};
// kInvalidArgument, naming the fault.
Result<Named> Resolve(const char* address);
// Listens at the places of `named`, which `address` names, and nowhere else. An error if none of them belongs
// to this machine, or one is taken.
Status ListenThere(const char* address, const Named& named, Listeners* listeners);

}  // namespace rondo::processes
