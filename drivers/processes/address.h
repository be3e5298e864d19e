// Addresses: of this machine, and of what a text names. Internal to drivers/processes.
#ifndef RONDO_DRIVERS_PROCESSES_ADDRESS_H_
#define RONDO_DRIVERS_PROCESSES_ADDRESS_H_

#include <cstdint>

#include "core/status.h"
#include "drivers/processes/sockets.h"

namespace rondo::processes {

// What a process tells the others of itself, as bytes: all that they need to find it.
struct Card {
  struct Known {
    uint8_t version = 0;  // of the internet protocol: 4 or 6
    uint8_t bytes[16] = {};
  };
  static constexpr uint32_t kMost = 12;

  uint64_t nonce = 0;    // proves that who answers is meant
  uint64_t machine = 0;  // the same on processes that share a machine's network
  uint16_t port = 0;
  uint8_t count = 0;
  Known known[kMost];  // not the machine's own loop
};

// This process's, which listens at `port`.
Card MakeCard(uint16_t port);
// Where `card`'s owner may be found from here, as many as there are of `places`.
uint32_t PlacesOf(const Card& card, const Card& mine, Place (&places)[Card::kMost + 1]);

// "host:port" or "[v6]:port": its port, and where it is; none yet where the name is not known.
struct Named {
  Place places[8];
  uint32_t count = 0;
  uint16_t port = 0;
};
// kInvalidArgument, naming what is wrong.
Result<Named> Resolve(const char* address);

}  // namespace rondo::processes

#endif  // RONDO_DRIVERS_PROCESSES_ADDRESS_H_
