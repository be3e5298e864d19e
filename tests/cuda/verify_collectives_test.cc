// The lifecycle verifier on the cuda driver with collectives over NCCL: a sound plan has no findings, and an
// access outside a collective's contract is reported. With a single GPU it runs there if NCCL lets ranks
// share it; otherwise it is skipped.
#include "core/forwarding_driver.h"
#include "drivers/cuda/cuda_driver.h"
#include "runtime/verify/lifecycle_verifier.h"
#include "tests/collectives/mesh_plan.h"
#include "tests/cuda/machine_code.h"
#include "tests/cuda/rank_devices.h"

namespace rondo {
namespace {

constexpr uint32_t kRanks = 2;
constexpr int64_t kElements = 96;
constexpr uint64_t kBytes = kElements * 4;

// The faults of a device's collectives. With none set, the device works.
struct Wrong {
  uint64_t shifted = 0, shifted_in_graphs = 0;  // results are shifted by this many bytes
  bool writes_behind = false;                   // writes a byte behind each result, outside of graphs
};

class WrongDevice : public ForwardingDevice {
 public:
  WrongDevice(Device* inner, const Wrong& wrong) : ForwardingDevice(inner), wrong_(wrong) {}
  Status BeginRecord(Stream* stream) override {
    recording_ = true;
    return inner_->BeginRecord(stream);
  }
  Result<Graph*> EndRecord(Stream* stream) override {
    recording_ = false;
    return inner_->EndRecord(stream);
  }
  Status StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                         Stream* stream) override {
    to_ = to;
    return inner_->StartCollective(part, from, to + (recording_ ? wrong_.shifted_in_graphs : wrong_.shifted),
                                   stream);
  }
  Status WaitCollective(const CollectivePart& part, Stream* stream) override {
    RONDO_RETURN_IF_ERROR(inner_->WaitCollective(part, stream));
    return wrong_.writes_behind && !recording_ ? inner_->Fill(to_ + kBytes, 0x5a, 1, stream) : Status::Ok();
  }

 private:
  const Wrong& wrong_;
  bool recording_ = false;
  DeviceAddress to_ = 0;  // the destination of the last collective begun
};

// The cuda driver with such a device as device 1.
class WrongDriver : public ForwardingDriver {
 public:
  WrongDriver(Driver* inner, const Wrong& wrong) : ForwardingDriver(inner), wrong_(wrong) {}
  Result<Device*> Open(uint32_t index) override {
    RONDO_ASSIGN_OR_RETURN(Device * device, inner_->Open(index));
    if (index != 1) return device;
    if (device1_ == nullptr) device1_ = std::make_unique<WrongDevice>(device, wrong_);
    return static_cast<Device*>(device1_.get());
  }

 private:
  const Wrong& wrong_;
  std::unique_ptr<WrongDevice> device1_;
};

// out = all-reduce(in * 2) * 3 on each rank. The collective's result lies before a gap.
void MakeSums(MeshPlan* mesh) {
  const uint32_t before = mesh->ScaleKernel(kElements, 2), after = mesh->ScaleKernel(kElements, 3);
  const uint32_t point =
      mesh->AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, kBytes, 0, mesh->AllDevices(), "sum");
  for (uint32_t d = 0; d < mesh->devices(); ++d) {
    const auto buffer = [&](BufferKind kind, const char* name) {
      return mesh->Add(kind, d, name + std::to_string(d), kElements);
    };
    const uint32_t in = buffer(BufferKind::kInput, "in"), from = buffer(BufferKind::kTemporary, "from"),
                   to = buffer(BufferKind::kTemporary, "to"), out = buffer(BufferKind::kOutput, "out");
    mesh->Launch(d, before, {in, from});
    mesh->Start(d, point, {from, 0}, {to, 0});
    mesh->Wait(d, point);
    mesh->Launch(d, after, {to, out});
  }
  mesh->Finish();
}

class VerifyOverNccl : public testing::Test {
 protected:
  void SetUp() override {
    Result<Driver*> driver = CreateCudaDriverFor(CollectiveKernels::kNccl);
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    driver_ = *driver;
    devices_ = driver_->DeviceCount() >= kRanks ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{0, 0};
  }
  void TearDown() override {
    if (driver_ != nullptr) DestroyCudaDriver(driver_);
  }

  // All findings of `mesh` as text.
  std::string FindingsOf(const MeshPlan& mesh, Driver* driver) {
    PlanData data = mesh.data;
    const MachineCode code(&data);
    const Result<Plan> plan = Plan::FromData(data, {});
    if (!plan.ok()) return plan.status().message();
    VerifyOptions options;
    options.devices = devices_;
    const Result<VerifyReport> report = VerifyLifecycle(*plan, driver, options);
    if (!report.ok()) return std::string("not verified: ") + report.status().message();
    EXPECT_GT(report->steps, 0u);
    EXPECT_GT(report->graph_runs, 0u);
    std::string text;
    for (const Finding& finding : report->findings) text += finding.Text() + "\n";
    return text;
  }
  // The findings for MakeSums on devices with the faults `wrong`.
  std::string FindingsWith(const Wrong& wrong) {
    MeshPlan mesh(kRanks);
    MakeSums(&mesh);
    WrongDriver driver(driver_, wrong);
    return FindingsOf(mesh, &driver);
  }
  // Whether two ranks can meet; on two GPUs they always can.
  bool CanMeet() {
    if (devices_[0] != devices_[1]) return true;
    const std::string text = FindingsWith({});
    if (text.starts_with("not verified")) why_not_ = text;
    return why_not_.empty();
  }

  Driver* driver_ = nullptr;
  std::vector<uint32_t> devices_;
  std::string why_not_;
};

TEST_F(VerifyOverNccl, SoundPlansHaveNoFindings) {
  if (!CanMeet()) GTEST_SKIP() << why_not_;
  EXPECT_EQ(FindingsWith({}), "");
  for (const bool split : {false, true}) {
    MeshPlan layers(kRanks);
    MakeLayers(&layers, 4, kElements, split);
    EXPECT_EQ(FindingsOf(layers, driver_), "");
  }
}

TEST_F(VerifyOverNccl, AResultThatReachesFurtherThanItsBufferIsTold) {
  if (!CanMeet()) GTEST_SKIP() << why_not_;
  Wrong wrong;
  wrong.writes_behind = true;
  const std::string text = FindingsWith(wrong);
  EXPECT_NE(text.find("stray write: program \""), std::string::npos) << text;
  EXPECT_NE(text.find("device 1"), std::string::npos) << text;
  EXPECT_NE(text.find("sum"), std::string::npos) << text;
}

TEST_F(VerifyOverNccl, AResultInAnotherPlaceIsTold) {
  if (!CanMeet()) GTEST_SKIP() << why_not_;
  Wrong wrong;
  wrong.shifted = 128;
  const std::string text = FindingsWith(wrong);
  EXPECT_NE(text.find("not written: program \""), std::string::npos) << text;
  EXPECT_NE(text.find("stray write: program \""), std::string::npos) << text;
}

TEST_F(VerifyOverNccl, GraphsWhoseCollectivesWriteElsewhereAreTold) {
  if (!CanMeet()) GTEST_SKIP() << why_not_;
  Wrong wrong;
  wrong.shifted_in_graphs = 128;
  const std::string text = FindingsWith(wrong);
  EXPECT_NE(text.find("replay differs: program \""), std::string::npos) << text;
}

}  // namespace
}  // namespace rondo
