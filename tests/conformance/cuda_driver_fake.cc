#include "tests/conformance/cuda_driver.h"
#include "tests/cuda/fake/fake_cuda.h"
#include "tests/cuda/fake/fake_nccl.h"

namespace rondo::test {
namespace {

class FakeCudaUnderTest : public CudaUnderTest {
 public:
  using CudaUnderTest::CudaUnderTest;
  std::string name() const override { return shares_device() ? "FakeCudaShared" : "FakeCuda"; }
  std::string Lacks(Feature feature) const override {
    if (feature == Feature::kNamesIndex) return "kernels of fake_cuda, the host driver's, do not hand it on";
    return CudaUnderTest::Lacks(feature);
  }
  Result<Driver*> Make(uint32_t devices, const OpRegistry* ops) override {
    fake_cuda::SetMachine({});
    return CudaUnderTest::Make(devices, ops);
  }
  // A live driver holds its devices' contexts, and on each a kernel that fills synthetic weights.
  std::string Held(Driver* driver) override {
    const fake_cuda::Balance held = fake_cuda::Held();
    const std::pair<const char*, int64_t> kinds[] = {{"contexts", driver == nullptr ? held.contexts : 0},
                                                     {"modules", driver == nullptr ? held.modules : 0},
                                                     {"streams", held.streams},
                                                     {"events", held.events},
                                                     {"graphs", held.graphs},
                                                     {"blocks", held.blocks},
                                                     {"bytes", held.bytes},
                                                     {"page-locked blocks", held.host_blocks},
                                                     {"ranks of NCCL", fake_nccl::HeldRanks()}};
    std::string words;
    for (const auto& [kind, count] : kinds) {
      if (count != 0) words += std::to_string(count) + " " + kind + "; ";
    }
    return words;
  }
};

}  // namespace

const std::vector<DriverUnderTest*>& DriversUnderTest() {
  static FakeCudaUnderTest own(false), shared(true);
  static const std::vector<DriverUnderTest*> all = {&own, &shared};
  return all;
}

}  // namespace rondo::test
