#include "drivers/cuda/peer_collectives/small_group.h"

#include <algorithm>
#include <memory>
#include <new>

#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"
#include "drivers/cuda/peer_collectives/norm.h"

namespace rondo::cuda {
namespace {

// More blocks do not make a small collective faster; with this many, several sessions' collectives fit a GPU.
constexpr uint32_t kMostBlocks = 64;

small::Element ElementOf(DType dtype) {
  return dtype == DType::kF16 ? small::kF16 : dtype == DType::kBF16 ? small::kBF16 : small::kF32;
}

}  // namespace

Result<SmallGroup*> SmallGroup::Create(Span<CudaDevice* const> devices, uint64_t packs, uint64_t limit_ns) {
  std::unique_ptr<SmallGroup> made(new (std::nothrow) SmallGroup);
  if (made == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for small collectives");
  const auto ranks = static_cast<uint32_t>(devices.size());
  const uint64_t inbox_bytes = small::kSlots * ranks * packs * sizeof(small::Words);
  made->rank_bytes_ = inbox_bytes + sizeof(small::State);
  made->most_blocks_ = kMostBlocks;
  {
    CudaDevice::Use use(*devices[0]);
    void* memory = nullptr;
    RONDO_RETURN_IF_ERROR(
        devices[0]->Check(devices[0]->api().host_allocate(&memory, sizeof(uint32_t), kPortable | kMapped),
                          "page-locked memory"));
    made->abort_ = static_cast<uint32_t*>(memory);
    *made->abort_ = 0;
  }
  for (CudaDevice* device : devices) {
    Rank& rank = made->ranks_[made->num_ranks_++];
    rank.device = device;
    RONDO_RETURN_IF_ERROR(made->MakeRank(&rank, inbox_bytes));
    // All ranks of a GPU must be resident at once, with one block for each multiprocessor.
    const auto sharing = static_cast<uint32_t>(std::count(devices.begin(), devices.end(), device));
    made->most_blocks_ = std::max(1u, std::min(made->most_blocks_, device->processors() / sharing));
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    small::Group& group = made->ranks_[rank].group;
    for (uint32_t other = 0; other < ranks; ++other)
      group.inbox[other] = reinterpret_cast<small::Words*>(made->ranks_[other].memory);
    group.state = reinterpret_cast<small::State*>(made->ranks_[rank].memory + inbox_bytes);
    group.abort = made->abort_;
    group.capacity = packs;
    group.limit_ns = limit_ns;
    group.rank = rank;
    group.ranks = ranks;
  }
  return made.release();
}

Status SmallGroup::MakeRank(Rank* rank, uint64_t inbox_bytes) {
  CudaDevice& device = *rank->device;
  RONDO_RETURN_IF_ERROR(device.small().Load());
  RONDO_ASSIGN_OR_RETURN(rank->memory, device.Allocate(rank_bytes_, 256));
  RONDO_ASSIGN_OR_RETURN(Stream * stream, device.CreateStream());
  const small::State first = {uint64_t{small::kFirstEpoch} * small::kTicks, 0, 0};
  Status status = device.Fill(rank->memory, 0, inbox_bytes, stream);
  if (status.ok()) status = device.CopyIn(rank->memory + inbox_bytes, &first, sizeof(first), stream);
  uint32_t ignored = 0;
  if (status.ok()) status = device.Synchronize(stream, &ignored);
  device.DestroyStream(stream);
  return status;
}

SmallGroup::~SmallGroup() {
  for (uint32_t rank = 0; rank < num_ranks_; ++rank) {
    if (ranks_[rank].memory != 0) ranks_[rank].device->Free(ranks_[rank].memory, rank_bytes_);
  }
  if (abort_ == nullptr) return;
  CudaDevice& device = *ranks_[0].device;
  CudaDevice::Use use(device);
  device.api().host_release(abort_);
}

Status SmallGroup::LoadNorm(DType dtype) {
  const small::Element element = ElementOf(dtype);
  for (uint32_t rank = 0; rank < num_ranks_ && !norms_[element]; ++rank)
    RONDO_RETURN_IF_ERROR(ranks_[rank].device->small().LoadNorm(element, num_ranks_));
  norms_[element] = true;
  return Status::Ok();
}

bool SmallGroup::Takes(const small::Norm& norm, const SyncPoint& point) const {
  const small::Element element = ElementOf(point.dtype);
  return norms_[element] && small::BlocksOf(norm, element) <= most_blocks_ &&
         small::NotesOf(norm, element) <= ranks_[0].group.capacity;
}

Status SmallGroup::Enqueue(uint32_t rank, SmallKernel kernel, const SyncPoint& point, const small::Call& call,
                           const small::Norm* norm, bool after_kernel, StreamHandle stream) {
  small::Call with = call;
  with.bytes = point.bytes;
  with.element = ElementOf(point.dtype);
  const uint64_t shared = (PacksShared(kernel, point) + SmallKernels::kThreads - 1) / SmallKernels::kThreads;
  const uint64_t blocks =
      norm != nullptr ? small::BlocksOf(*norm, with.element) : std::min<uint64_t>(shared, most_blocks_);
  return ranks_[rank].device->small().Enqueue(kernel, static_cast<uint32_t>(blocks), ranks_[rank].group, with,
                                              norm, after_kernel, stream);
}

void SmallGroup::Abort() { __atomic_store_n(abort_, 1, __ATOMIC_RELEASE); }

}  // namespace rondo::cuda
