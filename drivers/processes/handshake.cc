#include "drivers/processes/handshake.h"

#include "core/stop.h"

namespace rondo::processes {
namespace {

constexpr uint64_t kMagic = 0x31656e694c646e52;  // "RndLine1"
constexpr uint64_t kPatience = uint64_t{5} * 1000000000;

// Who comes says whom it means; who is meant says that it is; who comes says that it has heard.
struct Greeting {
  uint64_t magic = kMagic;
  uint64_t from = 0, to = 0;  // nonces
  uint32_t rank = 0, channel = 0;
};

Deadline Sooner(Deadline deadline) {
  const Deadline soon = MonotonicNanoseconds() + kPatience;
  return soon < deadline ? soon : deadline;
}

File Reach(const Card& card, const Card& mine, uint32_t rank, uint32_t channel, Deadline deadline) {
  Place places[Card::kMost + 1];
  const uint32_t count = PlacesOf(card, mine, places);
  Greeting greeting;
  greeting.from = mine.nonce;
  greeting.to = card.nonce;
  greeting.rank = rank;
  greeting.channel = channel;
  while (MonotonicNanoseconds() < deadline) {
    for (uint32_t i = 0; i < count; ++i) {
      File file = ConnectTo(places[i], Sooner(deadline));
      uint64_t answer = 0;
      if (file.valid() && SendAll(file, &greeting, sizeof(greeting), Sooner(deadline)) &&
          TakeAll(file, &answer, sizeof(answer), Sooner(deadline)) && answer == card.nonce &&
          SendAll(file, &greeting.from, sizeof(greeting.from), Sooner(deadline)))
        return file;
    }
  }
  return File();
}

// Whether somebody who was waited for has come.
bool Welcome(uint32_t rank, uint32_t size, const Card* cards, const File& listener, Deadline deadline,
             Line* lines) {
  File file = Accept(listener, deadline);
  Greeting greeting;
  if (!file.valid() || !TakeAll(file, &greeting, sizeof(greeting), Sooner(deadline))) return false;
  const uint32_t from = greeting.rank;
  if (greeting.magic != kMagic || greeting.to != cards[rank].nonce || from <= rank || from >= size ||
      greeting.channel >= kChannels || greeting.from != cards[from].nonce)
    return false;
  uint64_t heard = 0;
  if (!SendAll(file, &greeting.to, sizeof(greeting.to), Sooner(deadline)) ||
      !TakeAll(file, &heard, sizeof(heard), Sooner(deadline)) || heard != cards[from].nonce)
    return false;
  File& place = lines[from].channels[greeting.channel];
  const bool first = !place.valid();
  place = std::move(file);
  return first;
}

Status NotConnected(uint32_t rank, uint32_t other) {
  return Status::Error(Code::kAborted, "process %u has found process %u, but no connection to it", rank,
                       other);
}

}  // namespace

Status ConnectAll(uint32_t rank, uint32_t size, const Card* cards, const File& listener, Deadline deadline,
                  Line* lines) {
  for (uint32_t r = 0; r < rank; ++r) {
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      lines[r].channels[channel] = Reach(cards[r], cards[rank], rank, channel, deadline);
      if (!lines[r].channels[channel].valid()) return NotConnected(rank, r);
    }
  }
  for (uint32_t left = (size - 1 - rank) * kChannels; left != 0;) {
    if (Welcome(rank, size, cards, listener, deadline, lines)) {
      --left;
    } else if (MonotonicNanoseconds() >= deadline) {
      uint32_t missing = rank + 1;
      while (lines[missing].channels[kWords].valid() && lines[missing].channels[kData].valid()) ++missing;
      return NotConnected(rank, missing);
    }
  }
  return Status::Ok();
}

}  // namespace rondo::processes
