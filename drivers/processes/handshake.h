// Handshake: connections between processes that know one another's cards. Internal to drivers/processes.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "drivers/processes/address.h"
#include "drivers/processes/reception.h"
#include "drivers/processes/sockets.h"

namespace rondo::processes {

enum Channel : uint32_t { kWords = 0, kData = 1, kChannels = 2 };

struct Line {
  File channels[kChannels];
};

// The key known exactly to those who know the secret and all cards.
Key KeyOfAll(const Key& secret, const Card* cards, uint32_t size);

// Connects process `rank` of `size` with all others: lines[r] is the connection to r. `listeners` belong to
// cards[rank]. Higher ranks connect to lower ones. Both sides prove that they know `key`; failed proofs are
// counted. kAborted, naming the process, when one cannot be reached by the deadline.
Status ConnectAll(uint32_t rank, uint32_t size, const Card* cards, const Key& key, const Listeners& listeners,
                  Deadline deadline, Line* lines, TurnedAway* turned);

}  // namespace rondo::processes
