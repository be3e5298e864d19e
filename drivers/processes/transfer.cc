// Group::Transfer: moves data between processes.
#include <poll.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "drivers/processes/group.h"

namespace rondo::processes {
namespace {

struct Label {
  uint64_t words[6] = {};
  uint64_t bytes = 0;  // that follow
};

// The progress of one parcel, label included.
struct Flow {
  uint64_t sent = 0, taken = 0;
  Label label;  // the peer's

  uint64_t to_send(const Parcel& parcel) const { return sizeof(Label) + parcel.send_bytes - sent; }
  uint64_t to_take(const Parcel& parcel) const { return sizeof(Label) + parcel.take_bytes - taken; }
};

bool WouldBlock(ssize_t moved) { return moved < 0 && (errno == EAGAIN || errno == EINTR); }

// Sends what can be sent now. False: the connection has ended.
bool Send(const File& file, const Label& label, const Parcel& parcel, Flow* flow) {
  while (flow->to_send(parcel) != 0) {
    iovec parts[2];
    msghdr message = {};
    message.msg_iov = parts;
    const uint64_t of_data = flow->sent < sizeof(Label) ? 0 : flow->sent - sizeof(Label);
    if (flow->sent < sizeof(Label)) {
      const char* from = reinterpret_cast<const char*>(&label) + flow->sent;
      parts[message.msg_iovlen++] = {const_cast<char*>(from), sizeof(Label) - flow->sent};
    }
    if (parcel.send_bytes != of_data) {
      const char* from = static_cast<const char*>(parcel.send) + of_data;
      parts[message.msg_iovlen++] = {const_cast<char*>(from), parcel.send_bytes - of_data};
    }
    const ssize_t moved = sendmsg(file.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (WouldBlock(moved)) return true;
    if (moved <= 0) return false;
    flow->sent += static_cast<uint64_t>(moved);
  }
  return true;
}

enum class Taken { kGoesOn, kLabel, kEnded };

// Receives what has arrived, up to the end of the label.
Taken Take(const File& file, const Parcel& parcel, Flow* flow) {
  while (flow->to_take(parcel) != 0) {
    const bool label = flow->taken < sizeof(Label);
    char* to = label ? reinterpret_cast<char*>(&flow->label) + flow->taken
                     : static_cast<char*>(parcel.take) + (flow->taken - sizeof(Label));
    const uint64_t size = label ? sizeof(Label) - flow->taken : flow->to_take(parcel);
    const ssize_t moved = recv(file.get(), to, size, MSG_DONTWAIT);
    if (WouldBlock(moved)) return Taken::kGoesOn;
    if (moved <= 0) return Taken::kEnded;
    flow->taken += static_cast<uint64_t>(moved);
    if (label && flow->taken == sizeof(Label)) return Taken::kLabel;
  }
  return Taken::kGoesOn;
}

}  // namespace

Status Group::Mismatch(const Purpose& mine, uint32_t peer, const uint64_t* theirs) const {
  char here[256] = "", there[256] = "";
  mine.describe(mine.words, here, sizeof(here));
  mine.describe(theirs, there, sizeof(there));
  return Status::Error(Code::kInternal, "process %u starts %s, but process %u, which it meets, %s", rank_,
                       here, peer, there);
}

Status Group::Lost(uint32_t peer) {
  const Deadline deadline = MonotonicNanoseconds() + 200'000'000;
  for (;;) {
    Status ended = state();
    if (!ended.ok()) return ended;
    if (MonotonicNanoseconds() >= deadline) break;
    WaitForNews(10);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  End(Status::Error(Code::kAborted, "process %u has ended before its part in a collective", peer));
  return end_;
}

Status Group::Transfer(const Purpose& purpose, Span<const Parcel> parcels) {
  Flow flows[kMaxProcesses];
  Label label;
  std::memcpy(label.words, purpose.words, sizeof(label.words));
  for (;;) {
    pollfd files[2 * kMaxProcesses + 1];
    nfds_t count = 0;
    for (size_t i = 0; i < parcels.size(); ++i) {
      const Parcel& parcel = parcels[i];
      const File& file = lines_[parcel.peer].channels[kData];
      label.bytes = parcel.send_bytes;
      if (!Send(file, label, parcel, &flows[i])) return Lost(parcel.peer);
      Taken taken = Take(file, parcel, &flows[i]);
      if (taken == Taken::kLabel) {
        const Label& theirs = flows[i].label;
        const bool same = std::memcmp(theirs.words, label.words, sizeof(label.words)) == 0;
        if (!same || theirs.bytes != parcel.take_bytes) {
          const Status mismatch = Mismatch(purpose, parcel.peer, theirs.words);
          Abort(mismatch);
          return mismatch;
        }
        taken = Take(file, parcel, &flows[i]);
      }
      if (taken == Taken::kEnded) return Lost(parcel.peer);
      const bool sends = flows[i].to_send(parcel) != 0, takes = flows[i].to_take(parcel) != 0;
      if (!sends && !takes) continue;
      files[count++] = {file.get(), static_cast<short>((sends ? POLLOUT : 0) | (takes ? POLLIN : 0)), 0};
    }
    if (count == 0) return Status::Ok();
    const nfds_t data = count;
    files[count++] = {ended_.get(), POLLIN, 0};
    for (uint32_t r = 0; r < size_; ++r) {
      if (r == rank_ || inboxes_[r].closed) continue;
      files[count++] = {lines_[r].channels[kWords].get(), POLLIN, 0};
    }
    poll(files, count, 1000);
    for (nfds_t i = data; i < count; ++i) {
      if (files[i].revents == 0) continue;
      RONDO_RETURN_IF_ERROR(state());
      break;
    }
  }
}

}  // namespace rondo::processes
