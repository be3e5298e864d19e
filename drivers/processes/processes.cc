#include "drivers/processes/processes.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>

#include "drivers/processes/group.h"
#include "drivers/processes/meeting.h"

namespace rondo {

using processes::Card;
using processes::Deadline;
using processes::Group;
using processes::Key;

Result<Processes*> Processes::Connect(const ProcessOptions& options) {
  if (options.size < 1 || options.size > kMaxProcesses || options.rank >= options.size) {
    return Status::Error(Code::kInvalidArgument, "process %u of %u: at most %u can run a plan together",
                         options.rank, options.size, kMaxProcesses);
  }
  if (options.size > 1 && options.place.all_gather == nullptr && options.place.address == nullptr) {
    return Status::Error(Code::kInvalidArgument, "%u processes need an all_gather or an address to meet at",
                         options.size);
  }
  if (!options.secret.empty() && (options.secret.size() < ProcessOptions::kMinSecret ||
                                  options.secret.size() > ProcessOptions::kMaxSecret)) {
    return Status::Error(Code::kInvalidArgument,
                         "process %u of %u: a secret of %zu characters; it has %zu to %zu", options.rank,
                         options.size, options.secret.size(), ProcessOptions::kMinSecret,
                         ProcessOptions::kMaxSecret);
  }
  std::unique_ptr<Group> group(new (std::nothrow) Group(options.rank, options.size));
  std::unique_ptr<Card[]> cards(new (std::nothrow) Card[options.size]);
  if (group == nullptr || cards == nullptr || !group->Prepare()) {
    return Status::Error(Code::kOutOfMemory, "no memory or no descriptors for %u processes", options.size);
  }
  if (options.size == 1) return static_cast<Processes*>(group.release());
  const uint64_t now = MonotonicNanoseconds();
  const Deadline deadline = options.timeout_ns < ~now ? now + options.timeout_ns : ~uint64_t{0};
  const Key secret = processes::KeyOf(options.secret);
  processes::Listeners listeners;
  RONDO_RETURN_IF_ERROR(processes::Meet(options, secret, deadline, cards.get(), &listeners, group->turned()));
  const Key key = processes::KeyOfAll(secret, cards.get(), options.size);
  RONDO_RETURN_IF_ERROR(processes::ConnectAll(options.rank, options.size, cards.get(), key, listeners,
                                              deadline, group->lines(), group->turned()));
  return static_cast<Processes*>(group.release());
}

namespace processes {
namespace {

constexpr uint64_t kPatience = uint64_t{5} * 1000000000;

void CopyText(const char* from, char* to, size_t size) { std::snprintf(to, size, "%s", from); }

Status StatusOf(const Message& message) {
  if (message.code == 0) return Status::Ok();
  return Status::Error(static_cast<Code>(message.code), "%s", message.text).FromNode(message.node);
}

}  // namespace

bool Group::Prepare() {
  lines_.reset(new (std::nothrow) Line[size_]);
  inboxes_.reset(new (std::nothrow) Inbox[size_]);
  outgoing_.reset(new (std::nothrow) Message);
  ended_ = File(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (lines_ == nullptr || inboxes_ == nullptr || outgoing_ == nullptr || !ended_.valid()) return false;
  for (uint32_t r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    inboxes_[r].messages.reset(new (std::nothrow) Message[Inbox::kRoom + 1]);
    if (inboxes_[r].messages == nullptr) return false;
  }
  return true;
}

Group::~Group() {
  std::lock_guard<std::mutex> lock(mutex_);
  Message message;
  message.kind = Message::kGoodbye;
  if (lines_ != nullptr && inboxes_ != nullptr) Tell(&message);
}

void Group::Tell(Message* message) {
  const Deadline deadline = MonotonicNanoseconds() + kPatience;
  for (uint32_t r = 0; r < size_; ++r) {
    const File& file = lines_[r].channels[kWords];
    if (r == rank_ || !file.valid() || inboxes_[r].closed) continue;
    SendAll(file, message, kMessageHead + message->bytes, deadline);  // Look finds processes that are gone
  }
}

void Group::End(const Status& why) {
  if (!end_.ok()) return;
  end_ = why;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(ended_.get(), &one, sizeof(one));
}

void Group::Complete(uint32_t peer) {
  Inbox& inbox = inboxes_[peer];
  Message& message = inbox.messages[inbox.count];
  message.text[sizeof(message.text) - 1] = message.node[sizeof(message.node) - 1] = 0;
  inbox.taken = 0;
  if (message.kind == Message::kGather) {
    ++inbox.count;
  } else if (message.kind == Message::kGoodbye) {
    inbox.goodbye = MonotonicNanoseconds();
  } else {
    End(StatusOf(message).At("process %u has given up", peer));
  }
}

void Group::LookAt(uint32_t peer) {
  Inbox& inbox = inboxes_[peer];
  const File& file = lines_[peer].channels[kWords];
  while (!inbox.closed && inbox.count < Inbox::kRoom) {
    Message& message = inbox.messages[inbox.count];
    const bool head = inbox.taken >= kMessageHead;
    if (head && (message.magic != Message().magic || message.bytes > kMaxGather)) {
      inbox.closed = true;
      return End(Status::Error(Code::kAborted, "process %u says what is no message", peer));
    }
    const size_t size = kMessageHead + (head ? message.bytes : 0);
    if (head && inbox.taken == size) {
      Complete(peer);
      continue;
    }
    const ssize_t taken =
        recv(file.get(), reinterpret_cast<char*>(&message) + inbox.taken, size - inbox.taken, MSG_DONTWAIT);
    if (taken > 0) {
      inbox.taken += static_cast<size_t>(taken);
    } else if (taken < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    } else {
      inbox.closed = true;
      if (inbox.goodbye == 0) {
        End(Status::Error(Code::kAborted, "process %u has ended without a word: its connection is closed",
                          peer));
      }
    }
  }
}

Status Group::Look() {
  for (uint32_t r = 0; r < size_; ++r) {
    if (r != rank_) LookAt(r);
  }
  return end_;
}

Status Group::state() {
  std::lock_guard<std::mutex> lock(mutex_);
  return end_.ok() ? Look() : end_;
}

Status Group::StateWithAll(uint64_t nanoseconds) {
  RONDO_RETURN_IF_ERROR(state());
  std::lock_guard<std::mutex> lock(mutex_);
  for (uint32_t r = 0; r < size_; ++r) {
    if (inboxes_[r].goodbye == 0 || MonotonicNanoseconds() - inboxes_[r].goodbye < nanoseconds) continue;
    return Status::Error(Code::kAborted, "process %u has ended", r);
  }
  return Status::Ok();
}

void Group::Abort(const Status& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!end_.ok()) return;
  const char* text = why.ok() ? "its run was ended" : why.message();
  Message message;
  message.kind = Message::kAbort;
  message.code = static_cast<int32_t>(Code::kAborted);
  CopyText(text, message.text, sizeof(message.text));
  CopyText(why.source_node(), message.node, sizeof(message.node));
  Tell(&message);
  End(Status::Error(Code::kAborted, "process %u has given up: %s", rank_, text).FromNode(why.source_node()));
}

void Group::WaitForNews(int milliseconds) {
  pollfd files[kMaxProcesses + 1];
  nfds_t count = 0;
  files[count++] = {ended_.get(), POLLIN, 0};
  for (uint32_t r = 0; r < size_; ++r) {
    if (r != rank_ && !inboxes_[r].closed && inboxes_[r].count == 0) {
      files[count++] = {lines_[r].channels[kWords].get(), POLLIN, 0};
    }
  }
  poll(files, count, milliseconds);
}

// Waits until every other process has sent something.
Status Group::AwaitAll(StopSignal* stop) {
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      RONDO_RETURN_IF_ERROR(Look());
      bool all = true;
      for (uint32_t r = 0; r < size_; ++r) {
        if (r == rank_ || inboxes_[r].count != 0) continue;
        all = false;
        if (!inboxes_[r].closed) continue;
        End(Status::Error(Code::kAborted, "process %u has ended", r));
        return end_;
      }
      if (all) return Status::Ok();
    }
    if (stop != nullptr && stop->Asked()) {
      const Status why = stop->status();
      Abort(why);
      return why;
    }
    WaitForNews(20);
  }
}

Status Group::Gather(const Status& so_far, const void* mine, void* all, size_t bytes, StopSignal* stop) {
  if (bytes > kMaxGather) {
    return Status::Error(Code::kInvalidArgument, "%zu bytes to gather; at most %zu can be", bytes,
                         kMaxGather);
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!end_.ok()) return so_far.ok() ? end_ : so_far;
    *outgoing_ = Message();
    outgoing_->code = static_cast<int32_t>(so_far.code());
    CopyText(so_far.message(), outgoing_->text, sizeof(outgoing_->text));
    CopyText(so_far.source_node(), outgoing_->node, sizeof(outgoing_->node));
    outgoing_->bytes = static_cast<uint32_t>(bytes);
    if (bytes != 0) std::memcpy(outgoing_->payload, mine, bytes);
    Tell(outgoing_.get());
  }
  const Status awaited = AwaitAll(stop);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!so_far.ok()) {
    End(so_far.At("process %u has given up", rank_));
    return so_far;
  }
  RONDO_RETURN_IF_ERROR(awaited);
  for (uint32_t r = 0; r < size_; ++r) {
    const Message& message = r == rank_ ? *outgoing_ : inboxes_[r].messages[0];
    if (message.code != 0) End(StatusOf(message).At("process %u", r));
    if (message.bytes != bytes) {
      End(Status::Error(Code::kAborted, "process %u does something else than process %u (%u bytes, not %zu)",
                        r, rank_, message.bytes, bytes));
    }
    if (!end_.ok()) return end_;
    if (bytes != 0) std::memcpy(static_cast<char*>(all) + r * bytes, message.payload, bytes);
    if (r == rank_) continue;
    // The next message moves up, with the bytes received of the one after it.
    Inbox& inbox = inboxes_[r];
    for (uint32_t i = 0; i < Inbox::kRoom; ++i) inbox.messages[i] = inbox.messages[i + 1];
    --inbox.count;
  }
  return Status::Ok();
}

Status Group::Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop) {
  struct Introduction {
    uint64_t contents;
    char name[56];
  } mine = {contents, {}}, all[kMaxProcesses];
  std::snprintf(mine.name, sizeof(mine.name), "%.*s", static_cast<int>(plan.size()), plan.data());
  RONDO_RETURN_IF_ERROR(Gather(so_far, &mine, all, sizeof(mine), stop));
  for (uint32_t r = 0; r < size_; ++r) {
    if (all[r].contents == contents) continue;
    all[r].name[sizeof(mine.name) - 1] = 0;
    std::lock_guard<std::mutex> lock(mutex_);
    End(Status::Error(Code::kFailedPrecondition,
                      "process %u has plan \"%s\" (contents %016" PRIx64
                      "), but process %u plan \"%s\" (contents "
                      "%016" PRIx64 ")",
                      r, all[r].name, all[r].contents, rank_, mine.name, contents));
    return end_;
  }
  return Status::Ok();
}

}  // namespace processes
}  // namespace rondo
