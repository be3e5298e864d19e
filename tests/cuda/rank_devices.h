// RankDevices: gives each rank of a plan a device over the cuda driver's GPUs; several ranks share a GPU if
// there are fewer. A rank can be late, fail to launch, or end CUDA.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/forwarding_driver.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/nccl/nccl_api.h"

namespace rondo {

// The device of one rank, with faults on request.
struct RankDevice : ForwardingDevice {
  explicit RankDevice(Device* inner) : ForwardingDevice(inner) {}
  Status LaunchGraph(Graph* graph, Stream* stream) override {
    if (never_launches) return Status::Error(Code::kInternal, "this rank does not launch");
    if (poison != nullptr) {
      const DeviceAddress nowhere[] = {4096, 4096, 4096, 4096};
      RONDO_RETURN_IF_ERROR(inner_->Launch(poison, 0, nowhere, stream, 0));
    }
    const uint32_t most = most_random_us;
    uint32_t us = in_time == 0 ? late_us.load() : 0;
    if (in_time != 0) --in_time;
    if (most != 0) us += random_() % (most + 1);
    if (us != 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
    return inner_->LaunchGraph(graph, stream);
  }

  bool never_launches = false;
  Module* poison = nullptr;  // one of its kernels first writes to an invalid address
  std::atomic<uint32_t> late_us{0}, most_random_us{0};
  std::atomic<uint32_t> in_time{0};  // number of launches before it becomes late

 private:
  std::minstd_rand random_;
};

class RankDevices : public ForwardingDriver {
 public:
  // Rank r is on GPU r % `gpus`. Takes ownership of `cuda`.
  RankDevices(Driver* cuda, uint32_t ranks, uint32_t gpus) : ForwardingDriver(cuda), gpus_(gpus) {
    for (uint32_t rank = 0; rank < ranks; ++rank) this->ranks.emplace_back(cuda->Open(rank % gpus).Take());
  }
  ~RankDevices() override { DestroyCudaDriver(inner_); }
  uint32_t DeviceCount() const override { return static_cast<uint32_t>(ranks.size()); }
  Result<Device*> Open(uint32_t index) override { return static_cast<Device*>(&ranks[index]); }
  Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t> devices) override {
    std::vector<uint32_t> numbers;
    for (uint32_t device : devices) numbers.push_back(device % gpus_);
    return inner_->CreateCollectives(program, numbers);
  }

  std::deque<RankDevice> ranks;

 private:
  const uint32_t gpus_;
};

// The number of ranks, and the kernels that compute their collectives.
struct RankCase {
  uint32_t ranks;
  CollectiveKernels kernels;
};
inline std::string TextOf(CollectiveKernels kernels) {
  return kernels == CollectiveKernels::kNccl    ? "Nccl"
         : kernels == CollectiveKernels::kSmall ? "Small"
                                                : "Fused";
}
inline std::string NameOf(const testing::TestParamInfo<RankCase>& of) {
  return TextOf(of.param.kernels) + std::to_string(of.param.ranks);
}
inline constexpr RankCase kRankCases[] = {{2, CollectiveKernels::kNccl},  {4, CollectiveKernels::kNccl},
                                          {8, CollectiveKernels::kNccl},  {2, CollectiveKernels::kSmall},
                                          {4, CollectiveKernels::kSmall}, {8, CollectiveKernels::kSmall}};

inline Result<Driver*> CreateCudaDriverFor(CollectiveKernels kernels) {
  CudaOptions options;
  options.collectives = kernels;
  return CreateCudaDriver(options);
}

// The reason why `cuda` cannot have `ranks` ranks of NCCL on `gpus` GPUs; "" if it can.
inline std::string LackFor(Driver* cuda, uint32_t ranks, uint32_t gpus) {
  if (cuda->DeviceCount() < gpus) return "fewer than " + std::to_string(gpus) + " GPUs";
  const bool shared = ranks > gpus;
  return shared && CudaNcclVersion(cuda) < nccl::Version(2, 30) ? "NCCL is older than 2.30" : "";
}
inline std::string LackFor(Driver* cuda, const RankCase& of, uint32_t gpus) {
  return of.kernels == CollectiveKernels::kNccl ? LackFor(cuda, of.ranks, gpus) : "";
}

}  // namespace rondo
