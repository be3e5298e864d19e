// Sharded states: each device's share of a whole cache, and the whole cache joined from the shares.
#include "tools/rondo/dealt_states.h"

#include <algorithm>
#include <set>

#include "tests/e2e/harness.h"

namespace rondo {
namespace {

using tools::DealStates;
using tools::JoinStates;

struct Sharing {
  uint32_t devices, stages;
  bool gather = false;
};

CompiledPlan Decode(const Sharing& sharing) {
  CompileOptions options;
  options.models = {{"main", DataPath("pycoder/decode.onnx")}};
  options.tensor_parallel = sharing.devices;
  options.pipeline_parallel = sharing.stages;
  if (sharing.gather) options.weights = Weights::kGather;
  Result<CompiledPlan> compiled = CompileToMemory(options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.Take();
}

// States in which every element is a different number.
std::vector<Tensor> WholeStates(const CompiledPlan& compiled) {
  std::vector<Tensor> whole;
  std::set<std::string> known;
  for (const StateShare& share : compiled.report.state_shares) {
    if (!known.insert(share.input).second) continue;
    Tensor tensor{share.input, DType::kF32, share.whole,
                  std::vector<uint8_t>(static_cast<size_t>(share.whole.elements()) * 4)};
    for (uint32_t i = 0; i < tensor.bytes.size() / 4; ++i) {
      const uint32_t value = i + 1'000'000 * static_cast<uint32_t>(known.size());
      std::copy_n(reinterpret_cast<const uint8_t*>(&value), 4, tensor.bytes.begin() + 4 * i);
    }
    whole.push_back(std::move(tensor));
  }
  return whole;
}

// The devices' given states under the names of the outputs through which they are read back.
std::vector<Tensor> AsLeft(const CompiledPlan& compiled, std::vector<Tensor> given) {
  const Program& program = compiled.plan.programs[0];
  for (const Port& in : program.inputs) {
    const auto tensor =
        std::find_if(given.begin(), given.end(), [&](const Tensor& t) { return t.name == in.name; });
    const auto out = std::find_if(program.outputs.begin(), program.outputs.end(),
                                  [&](const Port& port) { return port.buffer == in.buffer; });
    if (tensor != given.end() && out != program.outputs.end()) tensor->name = std::string(out->name);
  }
  return given;
}

TEST(DealtStates, AreWhatWasDealtOut) {
  for (const Sharing& sharing : {Sharing{2, 1}, Sharing{3, 1}, Sharing{4, 1}, Sharing{1, 2}, Sharing{1, 3},
                                 Sharing{2, 2}, Sharing{2, 1, true}}) {
    const CompiledPlan compiled = Decode(sharing);
    const std::vector<StateShare>& shares = compiled.report.state_shares;
    const std::vector<Tensor> whole = WholeStates(compiled);
    ASSERT_FALSE(whole.empty());
    const auto dealt = DealStates(compiled.plan, 0, shares, whole);
    ASSERT_TRUE(dealt.ok()) << dealt.status().message();
    size_t ports = 0;
    for (const Port& port : compiled.plan.programs[0].inputs) {
      if (!port.is_state) continue;
      ++ports;
      const auto part =
          std::find_if(dealt->begin(), dealt->end(), [&](const Tensor& t) { return t.name == port.name; });
      ASSERT_NE(part, dealt->end()) << port.name;
      EXPECT_EQ(part->bytes.size(), compiled.plan.buffers[port.buffer].bytes) << port.name;
    }
    EXPECT_EQ(ports, dealt->size());
    const auto joined = JoinStates(compiled.plan, 0, shares, AsLeft(compiled, *dealt));
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    ASSERT_EQ(joined->size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ((*joined)[i].bytes, whole[i].bytes);
  }
}

TEST(DealtStates, OfWhichADeviceHoldsOthersAreAnError) {
  const CompiledPlan compiled = Decode({4, 1, true});  // each device has the whole state
  const std::vector<StateShare>& shares = compiled.report.state_shares;
  auto dealt = DealStates(compiled.plan, 0, shares, WholeStates(compiled));
  ASSERT_TRUE(dealt.ok());
  std::vector<Tensor> left = AsLeft(compiled, *dealt);
  left[1].bytes[40] ^= 1;
  const auto joined = JoinStates(compiled.plan, 0, shares, left);
  ASSERT_FALSE(joined.ok());
  EXPECT_NE(std::string(joined.status().message()).find("device 1 holds other bits"), std::string::npos)
      << joined.status().message();
}

TEST(DealtStates, PartsThatAreMissingAndOtherShapesAreErrors) {
  const CompiledPlan compiled = Decode({2, 1});
  const std::vector<StateShare>& shares = compiled.report.state_shares;
  std::vector<Tensor> whole = WholeStates(compiled);
  auto dealt = DealStates(compiled.plan, 0, shares, whole);
  ASSERT_TRUE(dealt.ok());
  std::vector<Tensor> left = AsLeft(compiled, *dealt);
  left.erase(left.begin());
  EXPECT_NE(
      std::string(JoinStates(compiled.plan, 0, shares, left).status().message()).find("is on no device"),
      std::string::npos);
  whole[0].shape[0] += 1;
  EXPECT_NE(std::string(DealStates(compiled.plan, 0, shares, whole).status().message()).find("the state is"),
            std::string::npos);
}

}  // namespace
}  // namespace rondo
