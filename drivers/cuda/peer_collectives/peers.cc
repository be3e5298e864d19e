#include "drivers/cuda/peer_collectives/peers.h"

#include <new>
#include <utility>

#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {
namespace {

constexpr uint32_t kPacks = 256;

// A device's memory and stream for one trial.
struct Trial {
  explicit Trial(CudaDevice& of) : device(of) {}
  ~Trial() {
    if (stream != nullptr) device.DestroyStream(stream);
    if (memory != 0) device.Free(memory, kBytes);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  static constexpr uint64_t kBytes = kPacks * sizeof(small::Words);
  Status Prepare() {
    RONDO_ASSIGN_OR_RETURN(memory, device.Allocate(kBytes, 256));
    RONDO_ASSIGN_OR_RETURN(stream, device.CreateStream());
    RONDO_RETURN_IF_ERROR(device.Fill(memory, 0, kBytes, stream));
    return Finish();
  }
  Status Finish() {
    uint32_t ignored = 0;
    return device.Synchronize(stream, &ignored);
  }

  CudaDevice& device;
  DeviceAddress memory = 0;
  Stream* stream = nullptr;
};

}  // namespace

Status PeerTable::Connect(Span<CudaDevice* const> devices) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (CudaDevice* from : devices) {
    for (CudaDevice* to : devices) {
      if (from->context() == to->context()) continue;
      if (const Pair* known = Find(from->context(), to->context()); known != nullptr) {
        RONDO_RETURN_IF_ERROR(known->status);
        continue;
      }
      const Status tried = Try(*from, *to)
                               .At("GPU %u (%s) cannot write to the memory of GPU %u (%s)", from->index(),
                                   from->name(), to->index(), to->name());
      if (!tried.ok() && tried.code() != Code::kUnsupported) return tried;
      std::unique_ptr<Pair> pair(new (std::nothrow)
                                     Pair{from->context(), to->context(), tried, std::move(pairs_)});
      if (pair == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for a pair of GPUs");
      pairs_ = std::move(pair);
      RONDO_RETURN_IF_ERROR(tried);
    }
  }
  return Status::Ok();
}

const PeerTable::Pair* PeerTable::Find(Context from, Context to) const {
  const Pair* pair = pairs_.get();
  while (pair != nullptr && (pair->from != from || pair->to != to)) pair = pair->next.get();
  return pair;
}

Status PeerTable::Try(CudaDevice& from, CudaDevice& to) {
  const Api& api = from.api();
  int can = 0;
  RONDO_RETURN_IF_ERROR(from.Check(api.can_access_peer(&can, from.id(), to.id()), "asking for peers"));
  if (can == 0) return Status::Error(Code::kUnsupported, "the NVIDIA driver says so");
  {
    CudaDevice::Use use(from);
    const Error error = api.enable_peer(to.context(), 0);
    if (error != kPeerEnabledError) RONDO_RETURN_IF_ERROR(from.Check(error, "enabling access to a peer"));
  }
  RONDO_RETURN_IF_ERROR(from.small().Load());
  Trial writer(from), taker(to);
  RONDO_RETURN_IF_ERROR(writer.Prepare());
  RONDO_RETURN_IF_ERROR(taker.Prepare());
  const uint64_t seed = 0x9e3779b97f4a7c15 * (from.index() + uint64_t{64} * to.index() + 1);
  {
    CudaDevice::Use use(from);
    RONDO_RETURN_IF_ERROR(
        from.small().EnqueueProbe(taker.memory, seed, kPacks, ToCuda(writer.stream)->handle));
  }
  RONDO_RETURN_IF_ERROR(writer.Finish());
  small::Words words[kPacks] = {};
  RONDO_RETURN_IF_ERROR(to.CopyOut(words, taker.memory, sizeof(words), taker.stream));
  RONDO_RETURN_IF_ERROR(taker.Finish());
  for (uint32_t i = 0; i < kPacks; ++i) {
    if (words[i].low == seed + i && words[i].high == ~(seed + i)) continue;
    return Status::Error(Code::kUnsupported,
                         "the NVIDIA driver says that it can, but of %u packs that were written, pack %u did "
                         "not arrive",
                         kPacks, i);
  }
  return Status::Ok();
}

}  // namespace rondo::cuda
