#include "drivers/processes/handshake.h"

#include <time.h>

#include "core/stop.h"
#include "drivers/processes/processes.h"

namespace rondo::processes {
namespace {

constexpr uint64_t kMagic = 0x32656e694c646e52;  // "RndLine2"
constexpr uint64_t kPatience = uint64_t{5} * 1000000000;

Deadline Sooner(Deadline deadline) {
  const Deadline soon = MonotonicNanoseconds() + kPatience;
  return soon < deadline ? soon : deadline;
}

// The listener's last word: the connection is accepted.
Digest Welcome(const Key& of_connection) { return Prove(of_connection, "welcome", {}); }

File Reach(const Card& card, const Card& mine, Hello hello, const Key& key, Deadline deadline) {
  Place places[Card::kMost + 1];
  const uint32_t count = PlacesOf(card, mine, places);
  while (MonotonicNanoseconds() < deadline) {
    for (uint32_t i = 0; i < count; ++i) {
      File file = ConnectTo(places[i], Sooner(deadline));
      Key connection;
      Digest welcome;
      if (file.valid() &&
          Introduce(file, key, &hello, nullptr, 0, Sooner(deadline), &connection) == Met::kProved &&
          TakeAll(file, &welcome, sizeof(welcome), Sooner(deadline)) && Same(welcome, Welcome(connection)))
        return file;
    }
    const timespec moment{0, 5000000};
    nanosleep(&moment, nullptr);
  }
  return File();
}

Status NotConnected(uint32_t rank, uint32_t other, const TurnedAway& turned) {
  return Status::Error(Code::kAborted, "process %u has found process %u, but no connection to it%s", rank,
                       other, TextOf(turned).text);
}

// Accepts the connections of higher ranks.
Status Receive(uint32_t rank, uint32_t size, Deadline deadline, Reception* reception, Line* lines) {
  RONDO_RETURN_IF_ERROR(reception->Prepare());
  for (uint32_t left = (size - 1 - rank) * kChannels; left != 0;) {
    Guest guest;
    if (reception->Next(deadline, {}, &guest) == Reception::News::kNothing) {
      uint32_t missing = rank + 1;
      while (lines[missing].channels[kWords].valid() && lines[missing].channels[kData].valid()) ++missing;
      return NotConnected(rank, missing, reception->turned());
    }
    const Hello& hello = guest.hello;
    if (hello.from <= rank || hello.from >= size || hello.number >= kChannels) {
      ++reception->turned().unwanted;
      continue;
    }
    const Digest welcome = Welcome(guest.key);
    if (!SendAll(guest.file, &welcome, sizeof(welcome), Sooner(deadline))) continue;
    // A process that missed the welcome connects again.
    File& place = lines[hello.from].channels[hello.number];
    if (!place.valid()) --left;
    place = std::move(guest.file);
  }
  return Status::Ok();
}

}  // namespace

Key KeyOfAll(const Key& secret, const Card* cards, uint32_t size) {
  return Prove(secret, "group", {{&size, sizeof(size)}, {cards, size * sizeof(Card)}});
}

Status ConnectAll(uint32_t rank, uint32_t size, const Card* cards, const Key& key, const Listeners& listeners,
                  Deadline deadline, Line* lines, TurnedAway* turned) {
  for (uint32_t r = 0; r < rank; ++r) {
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      Hello hello;
      hello.magic = kMagic;
      hello.from = rank;
      hello.to = r;
      hello.number = channel;
      lines[r].channels[channel] = Reach(cards[r], cards[rank], hello, key, deadline);
      if (!lines[r].channels[channel].valid()) return NotConnected(rank, r, *turned);
    }
  }
  Reception reception(kMagic, rank, key, 0, {listeners.files, listeners.count});
  const Status status = Receive(rank, size, deadline, &reception, lines);
  turned->Add(reception.turned());
  return status;
}

}  // namespace rondo::processes
