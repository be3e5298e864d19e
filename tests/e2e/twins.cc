#include "tests/e2e/twins.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "core/dtype.h"
#include "core/synthetic.h"
#include "tools/rondo/dealt_states.h"
#include "tools/rondo/kernel_folder.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/run_tensors.h"

namespace rondo {
namespace {

constexpr uint32_t kRuns = 3;

using Tensors = std::vector<Tensor>;

const Tensor* Find(const Tensors& tensors, std::string_view name) {
  const auto found = std::ranges::find_if(tensors, [&](const Tensor& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// Random inputs of a run; before the first run also the states.
Tensors Drawn(const PlanData& one, int64_t first, uint32_t run) {
  Tensors tensors;
  for (const Port& port : one.programs[0].inputs) {
    if (port.is_state && run > 0) continue;
    const Buffer& buffer = one.buffers[port.buffer];
    Tensor tensor{std::string(port.name), buffer.dtype, buffer.shape, std::vector<uint8_t>(buffer.bytes)};
    const int64_t count = buffer.shape.elements();
    if (IsFloat(buffer.dtype)) {
      FillSyntheticRange(buffer.dtype, SyntheticKey(run + 1, port.name), 1.0f, 0,
                         static_cast<uint64_t>(count), tensor.bytes.data());
    } else {
      EXPECT_EQ(buffer.dtype, DType::kI64) << port.name;
      auto* values = reinterpret_cast<int64_t*>(tensor.bytes.data());
      for (int64_t t = 0; t < count; ++t)
        values[t] = port.name == "positions" ? first + run * count + t : (t * 37 + run * 91 + 5) % 251;
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Runs once. Returns the outputs and the states, joined from the devices' shares.
Tensors Left(LiveModel& model, const Tensors& inputs) {
  const std::vector<StateShare>& shares = model.report().state_shares;
  Result<Tensors> dealt = tools::DealStates(model.data(), 0, shares, inputs);
  EXPECT_TRUE(dealt.ok()) << dealt.status().message();
  if (!dealt.ok()) return {};
  Result<Tensors> left = tools::RunOnTensors(model.session(), 0, *dealt);
  EXPECT_TRUE(left.ok()) << left.status().message();
  if (!left.ok()) return {};
  Result<Tensors> joined = tools::JoinStates(model.data(), 0, shares, left.Take());
  EXPECT_TRUE(joined.ok()) << joined.status().message();
  return joined.ok() ? joined.Take() : Tensors{};
}

// The distance of `got` from `want` over the elements that differ from `before` (null: all elements). All
// other elements of `got` must have the bits of `before`.
double Apart(const Tensor& got, const Tensor& want, const Tensor* before) {
  EXPECT_TRUE(got.dtype == want.dtype && got.shape == want.shape) << want.name;
  if (got.bytes.size() != want.bytes.size()) return INFINITY;
  const auto size = static_cast<size_t>(ByteSize(want.dtype));
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < want.shape.elements(); ++i) {
    const auto at = static_cast<ptrdiff_t>(static_cast<size_t>(i) * size);
    const auto same = [&](const Tensor& a, const Tensor& b) {
      return std::equal(a.bytes.begin() + at, a.bytes.begin() + at + static_cast<ptrdiff_t>(size),
                        b.bytes.begin() + at);
    };
    if (before != nullptr && same(want, *before) && same(got, *before)) continue;
    const double a = ElementAsDouble(got, i), b = ElementAsDouble(want, i);
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  EXPECT_GT(norm, 0) << want.name << ": nothing to compare";
  return std::sqrt(difference / norm);
}

// Expects the same output from all other devices.
void ExpectDevicesAlike(const Tensors& left, const Tensor& first) {
  for (const Tensor& tensor : left) {
    const bool other = tensor.name.rfind(first.name + "@", 0) == 0;
    EXPECT_TRUE(!other || tensor.bytes == first.bytes)
        << tensor.name << ": other bits than on the first device";
  }
}

// Runs both models run by run. Their outputs and states may differ by at most `tolerance`.
void ExpectAlike(const TwinCase& of, LiveModel& twin, LiveModel& model, const char* what) {
  double outputs = 0, states = 0;
  Tensors before;
  for (uint32_t run = 0; run < kRuns && !testing::Test::HasFailure(); ++run) {
    const Tensors inputs = Drawn(twin.data(), of.first, run);
    Tensors want = Left(twin, inputs);
    const Tensors got = Left(model, inputs);
    for (const Port& port : twin.data().programs[0].outputs) {
      SCOPED_TRACE(of.name + ", run " + std::to_string(run) + ", " + std::string(port.name));
      const Tensor *wanted = Find(want, port.name), *found = Find(got, port.name);
      ASSERT_TRUE(wanted != nullptr && found != nullptr);
      ExpectDevicesAlike(got, *found);
      const Tensor* old = nullptr;
      if (port.is_state) {
        for (const Port& in : twin.data().programs[0].inputs) {
          if (run == 0 && in.is_state && in.buffer == port.buffer) old = Find(inputs, in.name);
        }
        if (run > 0) old = Find(before, port.name);
      }
      const double apart = Apart(*found, *wanted, old);
      EXPECT_LE(apart, of.tolerance);
      double& most = port.is_state ? states : outputs;
      most = std::max(most, apart);
    }
    before = std::move(want);
  }
  std::printf("%s, %s: outputs at most %.2g apart, states %.2g (may be %.2g)\n", of.name.c_str(), what,
              outputs, states, of.tolerance);
}

CompileOptions OptionsOf(const TwinCase& of, const TemporaryFolder& folder, const char* target) {
  CompileOptions options = of.model(folder);
  options.targets = *ParseTargets(target);
  if (options.targets.any_gpu()) options.kernel_cache = tools::DefaultKernelFolder("test");
  return options;
}

}  // namespace

void ExpectTwins(const TwinCase& of, const char* target, Driver& driver,
                 const std::vector<uint32_t>& devices) {
  const TemporaryFolder folder;
  CompileOptions options = OptionsOf(of, folder, target);
  const uint32_t first[] = {devices.front()};
  LiveModel twin(options, driver, first);
  options.tensor_parallel = of.tensor;
  options.pipeline_parallel = of.stages;
  options.weights = of.weights;
  LiveModel model(options, driver, devices);
  ASSERT_TRUE(twin.session().valid() && model.session().valid());
  ASSERT_EQ(model.data().requirements.devices.size(), of.devices());
  const uint64_t whole = twin.data().requirements.devices[0].weights;
  for (const DeviceBytes& held : model.data().requirements.devices)
    EXPECT_LE(static_cast<double>(held.weights), of.share * static_cast<double>(whole))
        << of.name << ": of " << whole << " bytes";
  ExpectAlike(of, twin, model, ("on " + std::to_string(of.devices()) + " and on 1").c_str());
}

void ExpectSameOnBoth(const TwinCase& of, Driver& one, const char* target_of_one, Driver& other,
                      const char* target_of_other) {
  const TemporaryFolder folder;
  LiveModel a(OptionsOf(of, folder, target_of_one), one, {}),
      b(OptionsOf(of, folder, target_of_other), other, {});
  ASSERT_TRUE(a.session().valid() && b.session().valid());
  TwinCase allowed = of;
  allowed.tolerance = std::max(of.tolerance, kApartF32);
  ExpectAlike(allowed, a, b, "on 1 of two drivers");
}

}  // namespace rondo
