#include "drivers/processes/meeting.h"

#include <poll.h>
#include <time.h>

#include <cstdio>
#include <cstring>

#include "core/stop.h"

namespace rondo::processes {
namespace {

constexpr uint64_t kMagic = 0x327465654d646e52;  // "RndMeet2"
constexpr uint64_t kSecond = 1000000000;

// Rank 0's answer to a process, when all have arrived or the process is refused. If it is not refused, the
// cards follow.
struct Answer {
  uint32_t refused = 0;
  char why[252] = {};
  Digest proof;
};

// The proof also covers the cards, if they follow.
Digest ProofOf(const Answer& answer, const Key& key, const Card* cards, uint32_t size) {
  return Prove(key, "answer",
               {{&answer.refused, sizeof(answer.refused)},
                {answer.why, sizeof(answer.why)},
                {cards, answer.refused != 0 ? 0 : sizeof(Card) * size}});
}

// Rank 0's side of the meeting.
class Host {
 public:
  Host(const ProcessOptions& options, const Key& key, const Listeners& listeners, Card* cards)
      : options_(options),
        cards_(cards),
        reception_(kMagic, 0, key, sizeof(Card), {listeners.files, listeners.count}) {}

  Status Receive(Deadline deadline) {
    RONDO_RETURN_IF_ERROR(reception_.Prepare());
    Status status;
    while (status.ok() && here_ + 1 < options_.size) {
      int watched[kMaxProcesses];
      size_t count = 0;
      for (const Guest& guest : guests_) {
        if (guest.file.valid()) watched[count++] = guest.file.get();
      }
      Guest guest;
      switch (reception_.Next(deadline, {watched, count}, &guest)) {
        case Reception::News::kGuest: status = Take(std::move(guest)); break;
        case Reception::News::kWatched: DropWhoLeft(); break;
        case Reception::News::kNothing: status = Missing();
      }
    }
    for (uint32_t r = 1; r < options_.size; ++r) {
      if (guests_[r].file.valid()) Tell(guests_[r], status);
    }
    return status;
  }
  TurnedAway& turned() { return reception_.turned(); }

 private:
  static_assert(sizeof(Card) <= Guest::kMaxBody);

  void Tell(const Guest& guest, const Status& status) {
    Answer answer;
    answer.refused = status.ok() ? 0 : 1;
    std::snprintf(answer.why, sizeof(answer.why), "%s", status.message());
    answer.proof = ProofOf(answer, guest.key, cards_, options_.size);
    const Deadline soon = MonotonicNanoseconds() + kSecond;
    if (SendAll(guest.file, &answer, sizeof(answer), soon) && status.ok()) {
      SendAll(guest.file, cards_, sizeof(Card) * options_.size, soon);
    }
  }

  // Takes a guest that knows the key. Without a secret, every guest does, so that a guest that cannot belong
  // here ends nothing.
  Status Take(Guest guest) {
    const uint32_t r = guest.hello.from;
    Status wrong;
    if (guest.hello.number != options_.size || r == 0 || r >= options_.size) {
      wrong = Status::Error(Code::kInvalidArgument, "process %u of %u comes to process 0 of %u", r,
                            guest.hello.number, options_.size);
    } else if (guests_[r].file.valid()) {
      wrong = Status::Error(Code::kInvalidArgument, "two processes say that they are %u", r);
    }
    if (!wrong.ok()) {
      ++turned().unwanted;
      Tell(guest, wrong);
      last_wrong_ = wrong;
      return options_.secret.empty() ? Status::Ok() : wrong;
    }
    std::memcpy(&cards_[r], guest.body, sizeof(Card));
    guests_[r] = std::move(guest);
    ++here_;
    return Status::Ok();
  }

  // A guest that waits for the answer sends nothing more. If it closed its connection, another may take its
  // place.
  void DropWhoLeft() {
    for (Guest& guest : guests_) {
      if (!guest.file.valid()) continue;
      pollfd one = {guest.file.get(), POLLIN, 0};
      if (poll(&one, 1, 0) <= 0) continue;
      guest = Guest();
      --here_;
      ++turned().closed;
    }
  }

  Status Missing() {
    uint32_t first = 1;
    while (guests_[first].file.valid()) ++first;
    return Status::Error(
        Code::kAborted,
        "process %u of %u has not come to process 0 within %.1f s (%u of the others have)%s%s%s", first,
        options_.size, static_cast<double>(options_.timeout_ns) * 1e-9, here_, TextOf(turned()).text,
        last_wrong_.ok() ? "" : "; ", last_wrong_.message());
  }

  const ProcessOptions& options_;
  Card* const cards_;
  Reception reception_;
  Guest guests_[kMaxProcesses];
  Status last_wrong_;
  uint32_t here_ = 0;
};

void Pause() {
  const timespec moment{0, 50000000};
  nanosleep(&moment, nullptr);
}

Status Come(const ProcessOptions& options, const Key& key, Deadline deadline, Card* cards,
            Listeners* listeners) {
  const char* const address = options.place.address;
  const Deadline patience = deadline < ~uint64_t{0} - 5 * kSecond ? deadline + 5 * kSecond : deadline;
  Hello hello;
  hello.magic = kMagic;
  hello.from = options.rank;
  hello.number = options.size;
  bool stranger = false;
  for (; MonotonicNanoseconds() < deadline; Pause()) {
    RONDO_ASSIGN_OR_RETURN(const Named named, Resolve(address));
    for (uint32_t i = 0; i < named.count; ++i) {
      const Deadline attempt = MonotonicNanoseconds() + 2 * kSecond;
      const File file = ConnectTo(named.places[i], attempt < deadline ? attempt : deadline);
      if (!file.valid()) continue;
      // The other processes reach this one at this connection's local address.
      Card& mine = cards[options.rank];
      RONDO_RETURN_IF_ERROR(ListenBeside(PlaceOf(file), listeners));
      RONDO_RETURN_IF_ERROR(MakeCard(*listeners, &mine));
      const Card sent = mine;
      Key connection;
      const Deadline soon = MonotonicNanoseconds() + 5 * kSecond;
      const Met met =
          Introduce(file, key, &hello, &sent, sizeof(sent), soon < deadline ? soon : deadline, &connection);
      stranger = stranger || met == Met::kStranger;
      // Rank 0 answers when all have arrived. Another listener at this address does not answer, or closes.
      Answer answer;
      if (met != Met::kProved || !TakeAll(file, &answer, sizeof(answer), patience)) continue;
      if (answer.refused == 0 && !TakeAll(file, cards, sizeof(Card) * options.size, patience)) continue;
      if (!Same(answer.proof, ProofOf(answer, connection, cards, options.size))) {
        stranger = true;
        continue;
      }
      answer.why[sizeof(answer.why) - 1] = 0;
      if (answer.refused != 0) return Status::Error(Code::kAborted, "process 0 says: %s", answer.why);
      if (std::memcmp(&cards[options.rank], &sent, sizeof(sent)) == 0) return Status::Ok();
    }
  }
  return Status::Error(Code::kAborted, "process 0 of %u was not to be found at %s within %.1f s%s",
                       options.size, address, static_cast<double>(options.timeout_ns) * 1e-9,
                       !stranger ? ""
                       : options.secret.empty()
                           ? ": who listens there has a secret, and this process has none"
                           : ": who listens there does not know this process's secret");
}

Status GatherAll(const ProcessOptions& options, const void* mine, size_t bytes, void* all) {
  const int error = options.place.all_gather(options.place.user, mine, bytes, all);
  if (error == 0) return Status::Ok();
  return Status::Error(Code::kAborted, "process %u of %u: all_gather failed (%d)", options.rank, options.size,
                       error);
}

// Processes on one machine listen only on it.
Status MeetThroughOthers(const ProcessOptions& options, Card* cards, Listeners* listeners) {
  const uint64_t machine = NetworkNumber();
  uint64_t machines[kMaxProcesses];
  RONDO_RETURN_IF_ERROR(GatherAll(options, &machine, sizeof(machine), machines));
  bool together = machine != 0;
  for (uint32_t r = 0; r < options.size; ++r) together = together && machines[r] == machine;
  const char* const listen = together ? "127.0.0.1" : options.place.listen;
  if (listen == nullptr) {
    RONDO_ASSIGN_OR_RETURN(listeners->files[0], ListenEverywhere());
    listeners->count = 1;
    listeners->everywhere = true;
  } else {
    RONDO_ASSIGN_OR_RETURN(const Place place, PlaceOfNumber(listen));
    RONDO_RETURN_IF_ERROR(ListenBeside(place, listeners));
  }
  RONDO_RETURN_IF_ERROR(MakeCard(*listeners, &cards[options.rank]));
  const Card mine = cards[options.rank];
  return GatherAll(options, &mine, sizeof(mine), cards);
}

}  // namespace

Status Meet(const ProcessOptions& options, const Key& key, Deadline deadline, Card* cards,
            Listeners* listeners, TurnedAway* turned) {
  if (options.place.all_gather != nullptr) return MeetThroughOthers(options, cards, listeners);
  RONDO_ASSIGN_OR_RETURN(const Named named, Resolve(options.place.address));
  if (options.rank != 0) return Come(options, key, deadline, cards, listeners);
  RONDO_RETURN_IF_ERROR(ListenThere(options.place.address, named, listeners));
  RONDO_RETURN_IF_ERROR(MakeCard(*listeners, &cards[0]));
  Host host(options, key, *listeners, cards);
  const Status status = host.Receive(deadline);
  turned->Add(host.turned());
  return status;
}

}  // namespace rondo::processes
