#include "drivers/processes/reception.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <type_traits>

#include "core/stop.h"

namespace rondo::processes {
namespace {

static_assert(std::has_unique_object_representations_v<Hello>);
static_assert(std::has_unique_object_representations_v<Challenge>);

Key KeyOfConnection(const Key& key, const Hello& hello, const Nonce& nonce) {
  return Prove(key, "connection", {{&hello, sizeof(hello)}, {&nonce, sizeof(nonce)}});
}
Digest ProofOfListener(const Key& key) { return Prove(key, "listener", {}); }
Digest ProofOfGuest(const Key& key, const void* body, size_t size) {
  return Prove(key, "guest", {{body, size}});
}

// Milliseconds of poll until `deadline`, at most a second.
int Left(Deadline deadline) {
  const uint64_t now = MonotonicNanoseconds();
  if (now >= deadline) return 0;
  const uint64_t left = (deadline - now) / 1000000 + 1;
  return left < 1000 ? static_cast<int>(left) : 1000;
}

}  // namespace

void TurnedAway::Add(const TurnedAway& other) {
  late += other.late;
  closed += other.closed;
  strange += other.strange;
  unproved += other.unproved;
  crowded += other.crowded;
  unwanted += other.unwanted;
}

TurnedText TextOf(const TurnedAway& turned) {
  TurnedText text;
  if (turned.all() == 0) return text;
  const struct {
    uint32_t count;
    const char* what;
  } kinds[] = {{turned.late, "silent or slow"},          {turned.closed, "closed early"},
               {turned.strange, "no process of a plan"}, {turned.unproved, "without the secret"},
               {turned.crowded, "too many at once"},     {turned.unwanted, "with other numbers"}};
  int used = std::snprintf(text.text, sizeof(text.text), "; %u connection%s turned away (", turned.all(),
                           turned.all() == 1 ? " was" : "s were");
  const char* separator = "";
  for (const auto& kind : kinds) {
    if (kind.count == 0) continue;
    const size_t room = sizeof(text.text) - static_cast<size_t>(used);
    used += std::snprintf(text.text + used, room, "%s%u %s", separator, kind.count, kind.what);
    separator = ", ";
  }
  std::snprintf(text.text + used, sizeof(text.text) - static_cast<size_t>(used), ")");
  return text;
}

struct Reception::Seat {
  File file;
  Deadline until = 0;
  bool greeted = false;  // its Hello has arrived and been answered
  size_t taken = 0;      // bytes of the current message
  Hello hello;
  Key key;
  uint8_t words[Guest::kMaxBody + sizeof(Digest)];
};

Reception::Reception(uint64_t magic, uint32_t rank, const Key& key, size_t body_bytes,
                     Span<const File> listeners)
    : magic_(magic), rank_(rank), key_(key), body_bytes_(body_bytes), listeners_(listeners) {}

Reception::~Reception() = default;

Status Reception::Prepare() {
  seats_.reset(new (std::nothrow) Seat[kSeats]);
  if (seats_ != nullptr) return Status::Ok();
  return Status::Error(Code::kOutOfMemory, "no memory for those who come to a port");
}

void Reception::Leave(Seat* seat, uint32_t* count) {
  seat->file = File();
  ++*count;
}

// A seat for the next connection.
Reception::Seat* Reception::Room() {
  Seat* oldest = nullptr;
  for (uint32_t i = 0; i < kSeats; ++i) {
    if (!seats_[i].file.valid()) return &seats_[i];
    if (oldest == nullptr || seats_[i].until < oldest->until) oldest = &seats_[i];
  }
  Leave(oldest, &turned_.crowded);
  return oldest;
}

// Called when the Hello is complete.
Reception::Step Reception::Answer(Seat* seat) {
  std::memcpy(&seat->hello, seat->words, sizeof(Hello));
  Challenge challenge;
  if (seat->hello.to != rank_ || !Draw(&challenge.nonce).ok()) {
    Leave(seat, &turned_.strange);
    return Step::kLeaves;
  }
  seat->key = KeyOfConnection(key_, seat->hello, challenge.nonce);
  challenge.proof = ProofOfListener(seat->key);
  // A connection has room for this much, or it is faulty.
  if (send(seat->file.get(), &challenge, sizeof(challenge), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      sizeof(challenge)) {
    Leave(seat, &turned_.closed);
    return Step::kLeaves;
  }
  seat->greeted = true;
  seat->taken = 0;
  return Step::kWaits;
}

// Reads what one seat has received.
Reception::Step Reception::Look(Seat* seat) {
  for (;;) {
    const size_t size = seat->greeted ? body_bytes_ + sizeof(Digest) : sizeof(Hello);
    const ssize_t taken = recv(seat->file.get(), seat->words + seat->taken, size - seat->taken, MSG_DONTWAIT);
    if (taken < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kWaits;
    if (taken <= 0) {
      Leave(seat, &turned_.closed);
      return Step::kLeaves;
    }
    seat->taken += static_cast<size_t>(taken);
    const size_t of_magic = seat->taken < sizeof(magic_) ? seat->taken : sizeof(magic_);
    if (!seat->greeted && std::memcmp(seat->words, &magic_, of_magic) != 0) {
      Leave(seat, &turned_.strange);
      return Step::kLeaves;
    }
    if (seat->taken < size) continue;
    if (!seat->greeted) {
      if (Answer(seat) == Step::kLeaves) return Step::kLeaves;
      continue;
    }
    Digest proof;
    std::memcpy(&proof, seat->words + body_bytes_, sizeof(proof));
    if (Same(proof, ProofOfGuest(seat->key, seat->words, body_bytes_))) return Step::kProved;
    Leave(seat, &turned_.unproved);
    return Step::kLeaves;
  }
}

bool Reception::Hear(Seat* seat, Guest* guest) {
  if (Look(seat) != Step::kProved) return false;
  guest->file = std::move(seat->file);
  seat->file = File();
  guest->hello = seat->hello;
  guest->key = seat->key;
  std::memcpy(guest->body, seat->words, body_bytes_);
  return true;
}

bool Reception::Open(const File& listener, Guest* guest) {
  for (uint32_t i = 0; i < kSeats; ++i) {
    File file = Accepted(listener);
    if (!file.valid()) {
      if (errno != EMFILE && errno != ENFILE) return false;
      // No descriptors are left: the oldest connection gives one up.
      Seat* oldest = nullptr;
      for (uint32_t s = 0; s < kSeats; ++s) {
        Seat& seat = seats_[s];
        if (seat.file.valid() && (oldest == nullptr || seat.until < oldest->until)) oldest = &seat;
      }
      if (oldest == nullptr) {
        poll(nullptr, 0, 10);
        return false;
      }
      Leave(oldest, &turned_.crowded);
      continue;
    }
    Seat* seat = Room();
    seat->file = std::move(file);
    seat->until = MonotonicNanoseconds() + kPatience;
    seat->greeted = false;
    seat->taken = 0;
    if (Hear(seat, guest)) return true;
  }
  return false;
}

Reception::News Reception::Next(Deadline deadline, Span<const int> watched, Guest* guest) {
  for (;;) {
    pollfd files[kMaxListeners + kMaxWatched + kSeats];
    Seat* seats[kSeats];
    nfds_t count = 0;
    for (int number : watched) files[count++] = {number, POLLIN, 0};
    for (const File& listener : listeners_) files[count++] = {listener.get(), POLLIN, 0};
    const nfds_t first = count;
    const uint64_t now = MonotonicNanoseconds();
    Deadline soonest = deadline;
    for (uint32_t i = 0; i < kSeats; ++i) {
      Seat& seat = seats_[i];
      if (!seat.file.valid()) continue;
      if (seat.until <= now) {
        Leave(&seat, &turned_.late);
        continue;
      }
      if (seat.until < soonest) soonest = seat.until;
      seats[count - first] = &seat;
      files[count++] = {seat.file.get(), POLLIN, 0};
    }
    if (now >= deadline) return News::kNothing;
    if (poll(files, count, Left(soonest)) <= 0) continue;
    for (nfds_t i = 0; i < watched.size(); ++i) {
      if (files[i].revents != 0) return News::kWatched;
    }
    for (nfds_t i = first; i < count; ++i) {
      if (files[i].revents != 0 && Hear(seats[i - first], guest)) return News::kGuest;
    }
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (files[watched.size() + i].revents != 0 && Open(listeners_[i], guest)) return News::kGuest;
    }
  }
}

Met Introduce(const File& file, const Key& key, Hello* hello, const void* body, size_t body_bytes,
              Deadline deadline, Key* of_connection) {
  Challenge challenge;
  if (!Draw(&hello->nonce).ok() || !SendAll(file, hello, sizeof(*hello), deadline) ||
      !TakeAll(file, &challenge, sizeof(challenge), deadline))
    return Met::kNobody;
  *of_connection = KeyOfConnection(key, *hello, challenge.nonce);
  if (!Same(challenge.proof, ProofOfListener(*of_connection))) return Met::kStranger;
  const Digest proof = ProofOfGuest(*of_connection, body, body_bytes);
  if (body_bytes != 0 && !SendAll(file, body, body_bytes, deadline)) return Met::kNobody;
  return SendAll(file, &proof, sizeof(proof), deadline) ? Met::kProved : Met::kNobody;
}

}  // namespace rondo::processes
