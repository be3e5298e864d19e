#include "drivers/processes/meeting.h"

#include <time.h>

#include <cstdio>
#include <cstring>

#include "core/stop.h"

namespace rondo::processes {
namespace {

constexpr uint64_t kMagic = 0x317465654d646e52;  // "RndMeet1"
constexpr uint64_t kSecond = 1000000000;

// What a process says to rank 0, and what it hears, the cards following.
struct Coming {
  uint64_t magic = kMagic;
  uint32_t rank = 0, size = 0;
  Card card;
};
struct Answer {
  uint64_t magic = kMagic;
  uint32_t refused = 0;
  char why[252] = {};
};

// Rank 0's side.
class Host {
 public:
  Host(const ProcessOptions& options, Card* cards) : options_(options), cards_(cards) {}

  Status Receive(uint16_t port, Deadline deadline) {
    RONDO_ASSIGN_OR_RETURN(File listener, Listen(&port));
    Status status;
    while (status.ok() && here_ + 1 < options_.size) {
      File file = Accept(listener, deadline);
      if (!file.valid()) {
        status = Missing();
      } else {
        status = Take(std::move(file));
      }
    }
    Answer answer;
    answer.refused = status.ok() ? 0 : 1;
    std::snprintf(answer.why, sizeof(answer.why), "%s", status.message());
    const Deadline soon = MonotonicNanoseconds() + 5 * kSecond;
    if (refused_.valid()) SendAll(refused_, &answer, sizeof(answer), soon);
    for (uint32_t r = 1; r < options_.size; ++r) {
      if (!files_[r].valid() || !SendAll(files_[r], &answer, sizeof(answer), soon)) continue;
      if (status.ok()) SendAll(files_[r], cards_, sizeof(Card) * options_.size, soon);
    }
    return status;
  }

 private:
  // Who comes with something else is a stranger, and sent away.
  Status Take(File file) {
    Coming coming;
    const Deadline soon = MonotonicNanoseconds() + 5 * kSecond;
    if (!TakeAll(file, &coming.magic, sizeof(coming.magic), soon) || coming.magic != kMagic ||
        !TakeAll(file, reinterpret_cast<uint8_t*>(&coming) + sizeof(coming.magic),
                 sizeof(coming) - sizeof(coming.magic), soon))
      return Status::Ok();
    const uint32_t r = coming.rank;
    refused_ = std::move(file);
    if (coming.size != options_.size || r == 0 || r >= options_.size) {
      return Status::Error(Code::kInvalidArgument, "process %u of %u comes to process 0 of %u", r,
                           coming.size, options_.size);
    }
    if (files_[r].valid())
      return Status::Error(Code::kInvalidArgument, "two processes say that they are %u", r);
    files_[r] = std::move(refused_);
    cards_[r] = coming.card;
    ++here_;
    return Status::Ok();
  }

  Status Missing() const {
    uint32_t first = 1;
    while (files_[first].valid()) ++first;
    return Status::Error(Code::kAborted,
                         "process %u of %u has not come to process 0 within %.1f s (%u of the others have)",
                         first, options_.size, static_cast<double>(options_.timeout_ns) * 1e-9, here_);
  }

  const ProcessOptions& options_;
  Card* const cards_;
  File files_[kMaxProcesses];
  File refused_;  // who came with wrong numbers
  uint32_t here_ = 0;
};

void Pause() {
  const timespec moment{0, 50000000};
  nanosleep(&moment, nullptr);
}

Status Come(const ProcessOptions& options, Card* cards, Deadline deadline) {
  const char* const address = options.place.address;
  Coming coming;
  coming.rank = options.rank;
  coming.size = options.size;
  coming.card = cards[options.rank];
  for (; MonotonicNanoseconds() < deadline; Pause()) {
    RONDO_ASSIGN_OR_RETURN(const Named named, Resolve(address));
    for (uint32_t i = 0; i < named.count; ++i) {
      const Deadline attempt = MonotonicNanoseconds() + 2 * kSecond;
      const File file = ConnectTo(named.places[i], attempt < deadline ? attempt : deadline);
      Answer answer;
      // Rank 0 answers when all have come; who else may listen there does not, or closes.
      if (!file.valid() || !SendAll(file, &coming, sizeof(coming), deadline) ||
          !TakeAll(file, &answer, sizeof(answer), deadline + 5 * kSecond) || answer.magic != kMagic)
        continue;
      answer.why[sizeof(answer.why) - 1] = 0;
      if (answer.refused != 0) return Status::Error(Code::kAborted, "process 0 says: %s", answer.why);
      if (TakeAll(file, cards, sizeof(Card) * options.size, deadline + 5 * kSecond)) return Status::Ok();
    }
  }
  return Status::Error(Code::kAborted, "process 0 of %u was not to be found at %s within %.1f s",
                       options.size, address, static_cast<double>(options.timeout_ns) * 1e-9);
}

}  // namespace

Status Meet(const ProcessOptions& options, Card* cards, Deadline deadline) {
  const MeetingPlace& place = options.place;
  if (place.all_gather != nullptr) {
    const Card mine = cards[options.rank];
    const int error = place.all_gather(place.user, &mine, sizeof(mine), cards);
    if (error == 0) return Status::Ok();
    return Status::Error(Code::kAborted, "process %u of %u: all_gather failed (%d)", options.rank,
                         options.size, error);
  }
  RONDO_ASSIGN_OR_RETURN(const Named named, Resolve(place.address));
  if (options.rank != 0) return Come(options, cards, deadline);
  return Host(options, cards).Receive(named.port, deadline);
}

}  // namespace rondo::processes
