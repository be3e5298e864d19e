#include "drivers/processes/torch_store.h"

#include <time.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "core/stop.h"
#include "drivers/processes/address.h"
#include "drivers/processes/sockets.h"

namespace rondo {
namespace {

using processes::Deadline;
using processes::File;

enum Query : uint8_t { kValidate = 0, kSet = 1, kGet = 3, kWait = 6 };
constexpr uint32_t kValidation = 0x3C85F7CE;
constexpr uint8_t kStopWaiting = 0;

struct Key {
  char text[192];
};

class Store final : public TorchStore {
 public:
  explicit Store(const TorchStoreOptions& options)
      : rank_(options.rank), size_(options.size), timeout_ns_(options.timeout_ns) {
    std::snprintf(job_, sizeof(job_), "%s", options.job);
  }
  MeetingPlace place() override {
    MeetingPlace place;
    place.all_gather = [](void* user, const void* mine, size_t bytes, void* all) {
      auto* self = static_cast<Store*>(user);
      self->status_ = self->AllGather(mine, bytes, static_cast<char*>(all));
      return self->status_.ok() ? 0 : 1;
    };
    place.user = this;
    place.listen = local_[0] == 0 ? nullptr : local_;
    return place;
  }
  const Status& status() const override { return status_; }

  Status Connect(const char* address) {
    Begin();
    while (MonotonicNanoseconds() < deadline_) {
      RONDO_ASSIGN_OR_RETURN(const processes::Named named, processes::Resolve(address));
      for (uint32_t i = 0; i < named.count && !file_.valid(); ++i) {
        file_ = processes::ConnectTo(named.places[i], deadline_);
      }
      if (file_.valid()) {
        // The other processes reach this one at the address from which it reaches the store. On the store's
        // own machine this may be the loopback address.
        if (!processes::LocalNumber(file_, local_, sizeof(local_))) local_[0] = 0;
        Add<uint8_t>(kValidate);
        Add(kValidation);
        return Send() ? Status::Ok() : Ended("saying hello");
      }
      const timespec moment{0, 50000000};
      nanosleep(&moment, nullptr);
    }
    return Status::Error(Code::kAborted, "torchrun's store was not to be found at %s within %.1f s", address,
                         static_cast<double>(timeout_ns_) * 1e-9);
  }

 private:
  Status AllGather(const void* mine, size_t bytes, char* all) {
    Begin();
    Add<uint8_t>(kSet);
    AddText(KeyOf(rank_));
    AddBytes(mine, bytes);
    if (!Send()) return Ended("storing");
    for (uint32_t r = 0; r < size_; ++r) {
      Add<uint8_t>(kWait);
      Add<uint64_t>(1);
      AddText(KeyOf(r));
      uint8_t answer = 0;
      if (!Send() || !Take(&answer, sizeof(answer)) || answer != kStopWaiting) {
        return Status::Error(Code::kAborted,
                             "process %u of %u has not come to torchrun's store within %.1f s", r, size_,
                             static_cast<double>(timeout_ns_) * 1e-9);
      }
      Add<uint8_t>(kGet);
      AddText(KeyOf(r));
      uint64_t size = 0;
      if (!Send() || !Take(&size, sizeof(size))) return Ended("reading");
      if (size != bytes) {
        return Status::Error(Code::kAborted, "process %u of %u left %llu bytes at torchrun's store, not %zu",
                             r, size_, static_cast<unsigned long long>(size), bytes);
      }
      if (!Take(all + r * bytes, bytes)) return Ended("reading");
    }
    ++gathered_;
    return Status::Ok();
  }

  Key KeyOf(uint32_t rank) const {
    Key key;
    std::snprintf(key.text, sizeof(key.text), "/rondo/%s/%u/%u", job_, gathered_, rank);
    return key;
  }
  Status Ended(const char* doing) const {
    return Status::Error(Code::kAborted, "torchrun's store did not answer while process %u was %s", rank_,
                         doing);
  }

  // Appends what is sent next.
  void AddRaw(const void* bytes, size_t size) {
    if (used_ + size > sizeof(request_)) {
      overflowed_ = true;
      return;
    }
    std::memcpy(request_ + used_, bytes, size);
    used_ += size;
  }
  template <typename T>
  void Add(T value) {
    AddRaw(&value, sizeof(value));
  }
  void AddBytes(const void* bytes, size_t size) {
    Add<uint64_t>(size);
    AddRaw(bytes, size);
  }
  void AddText(const Key& key) { AddBytes(key.text, std::strlen(key.text)); }
  bool Send() {
    const bool sent = !overflowed_ && processes::SendAll(file_, request_, used_, deadline_);
    used_ = 0;
    return sent;
  }
  bool Take(void* bytes, size_t size) { return processes::TakeAll(file_, bytes, size, deadline_); }
  void Begin() {
    const uint64_t now = MonotonicNanoseconds();
    deadline_ = timeout_ns_ < ~now ? now + timeout_ns_ : ~uint64_t{0};
  }

  const uint32_t rank_, size_;
  const uint64_t timeout_ns_;
  char job_[128];
  char local_[64] = {};
  File file_;
  Deadline deadline_ = 0;
  uint32_t gathered_ = 0;
  Status status_;
  char request_[2048];
  size_t used_ = 0;
  bool overflowed_ = false;
};

}  // namespace

Result<TorchStore*> ConnectToTorchStore(const TorchStoreOptions& options) {
  std::unique_ptr<Store> store(new (std::nothrow) Store(options));
  if (store == nullptr) return Status::Error(Code::kOutOfMemory, "no memory for torchrun's store");
  RONDO_RETURN_IF_ERROR(store->Connect(options.address));
  return static_cast<TorchStore*>(store.release());
}

}  // namespace rondo
