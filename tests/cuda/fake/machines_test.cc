// The command's messages on machines that lack something, in processes of their own with a fake libcuda.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "formats/plan/writer.h"
#include "tests/collectives/mesh.h"
#include "tests/cuda/fake/fake_gpu.h"
#include "tests/runtime/open_tiny.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

std::string Bench(const std::string& machine, const std::string& plan) {
  const Outcome bench =
      Shell("RONDO_FAKE_CUDA=" + machine +
            " LD_LIBRARY_PATH=" RONDO_FAKE_CUDA_FOLDER " " RONDO_COMMAND " bench --driver cuda " + plan);
  EXPECT_EQ(bench.status, 1) << bench.text;
  return bench.text;
}

void Write(const PlanData& plan, const std::string& path) {
  WriteOptions options;
  options.path = path;
  auto weights = [](uint32_t, uint64_t, uint64_t bytes, uint8_t* out) {
    std::memset(out, 0, bytes);
    return Status::Ok();
  };
  const Status written = WritePlan(plan, weights, options);
  ASSERT_TRUE(written.ok()) << written.message();
}

// For a plan with more GPUs than the machine has.
TEST(CudaMachines, NameTheListThatWouldDo) {
  Layers layers(4, 1, 64);
  PlanData data = layers.mesh.data;
  FakeGpu gpu(&data);
  data.requirements.target = "cuda:sm_90";
  const TemporaryFolder folder;
  const std::string path = folder.File("four.rondo");
  Write(data, path);
  EXPECT_NE(Bench("devices=1", path)
                .find("the plan needs 4 GPUs; this machine has 1 (--devices 0,0,0,0 has several"),
            std::string::npos);
  EXPECT_NE(Bench("devices=3", path).find("(--devices 0,1,2,0 has"), std::string::npos);
  // The command has no fake kernels, so the run fails there; but the devices are accepted.
  EXPECT_NE(Bench("devices=1", path + " --devices 0,0,0,0").find("as the fake was asked (500)"),
            std::string::npos);
  EXPECT_NE(Bench("devices=1", path + " --devices 0,0,0,1").find("device 1 asked for; driver \"cuda\" has 1"),
            std::string::npos);
}

TEST(CudaMachines, SayWhatTheyLack) {
  TinyPlan tiny;
  FakeGpu gpu(&tiny.data);
  tiny.data.requirements.target = "cuda:sm_90";
  const TemporaryFolder folder;
  const std::string path = folder.File("cuda_machines.rondo");
  Write(tiny.data, path);
  struct Lack {
    const char *machine, *words;
  };
  const Lack kLacks[] = {
      {"devices=0", "the NVIDIA driver finds no GPU on this machine"},
      {"version=11080", "the NVIDIA driver supports CUDA 11.8; 12.0 is needed"},
      {"init=100", "cuInit: as the fake was asked (100)"},
  };
  for (const Lack& lack : kLacks) {
    const std::string text = Bench(lack.machine, path);
    EXPECT_NE(text.find(lack.words), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace rondo
