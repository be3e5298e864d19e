#include "tests/e2e/anywhere.h"

#include <array>
#include <cstring>
#include <random>

namespace rondo {
namespace {

// One program's tensors, and the places where they may lie.
class Runs {
 public:
  Runs(LiveModel& model, Session& session, uint32_t program, const MakePlace& make, uint32_t seed)
      : session_(session), program_(program), random_(seed), host_(model.MakeBuffers(program)) {
    const PlanData& plan = model.data();
    const auto add = [&](Span<const Port> ports, std::vector<TwoPlaces>* places) {
      for (const Port& port : ports) {
        const Buffer& buffer = plan.buffers[port.buffer];
        if (!port.is_state) places->push_back({make(session, buffer), make(session, buffer)});
      }
    };
    add(plan.programs[program].inputs, &inputs_);
    add(plan.programs[program].outputs, &outputs_);
  }

  void Round() {
    FillInputs();
    Run(host_.inputs, host_.outputs, {});
    std::vector<Bytes> expected;
    for (const Output& output : host_.outputs) {
      const auto* data = static_cast<const uint8_t*>(output.data);
      expected.emplace_back(data, data + output.bytes);
    }
    for (int again = 0; again < 2; ++again) Anywhere(expected);
  }

 private:
  using TwoPlaces = std::array<std::unique_ptr<Place>, 2>;

  void FillInputs() {
    std::normal_distribution<float> noise;
    for (const Input& input : host_.inputs) {
      if (input.dtype != DType::kF32) continue;
      auto* bytes = static_cast<uint8_t*>(const_cast<void*>(input.data));
      for (size_t at = 0; at + 4 <= input.bytes; at += 4) {
        const float value = noise(random_);
        std::memcpy(bytes + at, &value, 4);
      }
    }
  }
  void Run(const std::vector<Input>& inputs, const std::vector<Output>& outputs, const RunOptions& options) {
    EXPECT_TRUE(session_.ResetState().ok());
    const Status status = session_.Run(program_, inputs, outputs, options);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // A random place; null for host memory.
  Place* Draw(const TwoPlaces& places) { return random_() % 4 == 0 ? nullptr : places[random_() % 2].get(); }
  size_t Alignment() {
    constexpr size_t kAlignments[] = {1, 4, 16, 64, 256, 4096};
    return kAlignments[random_() % 6];
  }

  void Anywhere(const std::vector<Bytes>& expected) {
    std::vector<Input> inputs = host_.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Place* place = Draw(inputs_[i]);
      if (place == nullptr) continue;
      void* at = place->At(Alignment());
      place->Write(at, inputs[i].data);
      inputs[i].data = at;
      inputs[i].memory = MemoryKind::kDevice;
    }
    std::vector<Output> outputs;
    std::vector<std::pair<size_t, Place*>> from;  // the output's index, and its place
    for (size_t i = 0; i < host_.outputs.size(); ++i) {
      if (random_() % 8 == 0) continue;
      Output output = host_.outputs[i];
      if (output.bytes != 0) std::memset(output.data, 0xcd, output.bytes);
      Place* place = Draw(outputs_[i]);
      if (place != nullptr) {
        void* at = place->At(Alignment());
        place->Write(at, output.data);
        output.data = at;
        output.memory = MemoryKind::kDevice;
      }
      outputs.push_back(output);
      from.emplace_back(i, place);
    }
    RunOptions options;
    options.stepwise = random_() % 16 == 0;
    Run(inputs, outputs, options);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto [number, place] = from[i];
      const auto* data = static_cast<const uint8_t*>(outputs[i].data);
      const Bytes got = place != nullptr ? place->Read(data) : Bytes(data, data + outputs[i].bytes);
      EXPECT_EQ(got, expected[number]) << "output " << number;
    }
  }

  Session& session_;
  const uint32_t program_;
  std::mt19937 random_;
  LiveModel::Buffers host_;
  std::vector<TwoPlaces> inputs_, outputs_;
};

}  // namespace

void ExpectSameAnywhere(LiveModel& model, Session& session, const MakePlace& make, uint32_t seed,
                        int rounds) {
  for (uint32_t program = 0; program < model.data().programs.size(); ++program) {
    Runs runs(model, session, program, make, seed);
    for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
      SCOPED_TRACE("program " + std::to_string(program) + ", round " + std::to_string(round));
      runs.Round();
    }
  }
}

}  // namespace rondo
