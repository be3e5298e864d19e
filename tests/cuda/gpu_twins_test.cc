// Models sharded over GPUs against their twins on one GPU: SmallTwins, and two layers of the bench models'
// graphs (BenchTwins) on 2 and 8 ranks. Through NCCL, small kernels, and small kernels with norms behind
// them. Ranks share GPUs if there are fewer.
#include <algorithm>
#include <memory>

#include "tests/cuda/rank_devices.h"
#include "tests/e2e/twins.h"

namespace rondo {
namespace {

constexpr char kTarget[] = "cuda:sm_90a";

struct Destroy {
  void operator()(Driver* driver) const { DestroyCudaDriver(driver); }
};
using CudaDriver = std::unique_ptr<Driver, Destroy>;

class GpuTwins : public testing::Test {
 protected:
  // A driver with a device for each rank; null if there is none, with the reason in `lack_`.
  CudaDriver DriverFor(const RankCase& of) {
    Result<Driver*> made = CreateCudaDriverFor(of.kernels);
    if (!made.ok()) {
      lack_ = made.status().message();
      return nullptr;
    }
    CudaDriver driver(*made);
    const uint32_t gpus = std::min(driver->DeviceCount(), of.ranks);
    lack_ = LackFor(driver.get(), of, gpus);
    devices_.clear();
    for (uint32_t rank = 0; rank < of.ranks; ++rank) devices_.push_back(rank % gpus);
    return lack_.empty() ? std::move(driver) : nullptr;
  }
  std::string lack_;
  std::vector<uint32_t> devices_;
};

struct GpuTwin {
  TwinCase twin;
  CollectiveKernels kernels;
};

std::string NameOfTwin(const testing::TestParamInfo<GpuTwin>& of) {
  return of.param.twin.name + TextOf(of.param.kernels);
}

std::vector<GpuTwin> SmallOnGpus() {
  std::vector<GpuTwin> all;
  for (const TwinCase& twin : SmallTwins()) {
    all.push_back({twin, CollectiveKernels::kNccl});
    all.push_back({twin, CollectiveKernels::kSmall});
    if (twin.name.rfind("Llama", 0) == 0) all.push_back({twin, CollectiveKernels::kFused});
  }
  return all;
}

class SmallGpuTwins : public GpuTwins, public testing::WithParamInterface<GpuTwin> {};

TEST_P(SmallGpuTwins, AreAlike) {
  const CudaDriver driver = DriverFor({GetParam().twin.devices(), GetParam().kernels});
  if (driver == nullptr) GTEST_SKIP() << lack_;
  ExpectTwins(GetParam().twin, kTarget, *driver, devices_);
}

INSTANTIATE_TEST_SUITE_P(Of, SmallGpuTwins, testing::ValuesIn(SmallOnGpus()), NameOfTwin);

// Checks the reference that the twins are compared with.
TEST_F(GpuTwins, OneDeviceGivesWhatTheHostGives) {
  const CudaDriver driver = DriverFor({1, CollectiveKernels::kNccl});
  if (driver == nullptr) GTEST_SKIP() << lack_;
  Driver* const host = CreateHostDriver({}).Take();
  for (const TwinCase& of : SmallTwins()) ExpectSameOnBoth(of, *host, "host", *driver, kTarget);
  DestroyHostDriver(host);
}

class LlamaGpuTwins : public GpuTwins, public testing::WithParamInterface<RankCase> {};

TEST_P(LlamaGpuTwins, TwoLayersOfTheBenchGraphsAreAlike) {
  const CudaDriver driver = DriverFor(GetParam());
  if (driver == nullptr) GTEST_SKIP() << lack_;
  for (const TwinCase& of : BenchTwins(GetParam().ranks)) ExpectTwins(of, kTarget, *driver, devices_);
}

INSTANTIATE_TEST_SUITE_P(
    Of, LlamaGpuTwins,
    testing::Values(RankCase{2, CollectiveKernels::kNccl}, RankCase{8, CollectiveKernels::kNccl},
                    RankCase{2, CollectiveKernels::kSmall}, RankCase{8, CollectiveKernels::kSmall},
                    RankCase{2, CollectiveKernels::kFused}, RankCase{8, CollectiveKernels::kFused}),
    [](const auto& of) { return rondo::NameOf(of); });

}  // namespace
}  // namespace rondo
