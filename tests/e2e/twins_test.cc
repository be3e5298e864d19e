// SmallTwins on virtual devices with delays and other orders of steps; and the layers cut out of a decoder's
// graph. For GPUs see tests/cuda/gpu_twins_test.cc.
#include "tests/e2e/twins.h"

#include "tests/e2e/first_layers.h"
#include "tests/e2e/llama_model.h"
#include "tests/says.h"

namespace rondo {
namespace {

class TwinsTest : public testing::TestWithParam<TwinCase> {};

TEST_P(TwinsTest, AreAlike) {
  HostOptions host;
  host.devices = GetParam().devices();
  host.faults.seed = host.devices;
  host.faults.most_delay_us = 20;
  host.faults.reorder = true;
  Driver* const driver = CreateHostDriver(host).Take();
  std::vector<uint32_t> devices;
  for (uint32_t d = 0; d < host.devices; ++d) devices.push_back(d);
  ExpectTwins(GetParam(), "host", *driver, devices);
  DestroyHostDriver(driver);
}

INSTANTIATE_TEST_SUITE_P(Of, TwinsTest, testing::ValuesIn(SmallTwins()),
                         [](const auto& of) { return NameOf(of.param); });

// With the bench models' graphs it takes half a minute each, and twice the memory of two layers' weights.
TEST(BenchTwinsTest, TwoLayersOnEightDevicesAreAlike) {
  HostOptions host;
  host.devices = 8;
  Driver* const driver = CreateHostDriver(host).Take();
  for (const TwinCase& of : BenchTwins(8)) ExpectTwins(of, "host", *driver, {0, 1, 2, 3, 4, 5, 6, 7});
  DestroyHostDriver(driver);
}

// The first two layers of a decoder of four give a decoder of two, to the bit.
TEST(FirstLayersTest, AreADecoderOfAsMany) {
  const TemporaryFolder folder;
  LlamaShape shape;
  shape.positions = 64;
  LlamaModel(shape).Write(folder.File("two.onnx"));
  shape.layers = 4;
  LlamaModel(shape).Write(folder.File("four.onnx"));
  ASSERT_TRUE(WriteFirstLayers(folder.File("four.onnx"), 2, folder.File("cut.onnx")).ok());
  const Status none = WriteFirstLayers(folder.File("four.onnx"), 5, folder.File("none.onnx"));
  EXPECT_NE(std::string(none.message()).find("has 4 layers, not 5"), std::string::npos) << none.message();
  const auto ports = [&](const char* file) {
    CompileOptions options;
    options.models = {{"main", folder.File(file)}};
    options.synthetic_seed = 3;
    LiveModel model(options, {});
    std::string text;
    for (const Port& port : model.data().programs[0].inputs) text += std::string(port.name) + " ";
    for (const Port& port : model.data().programs[0].outputs) text += std::string(port.name) + " ";
    return text + std::to_string(model.data().programs[0].steps.size());
  };
  EXPECT_EQ(ports("cut.onnx"), ports("two.onnx"));
}

}  // namespace
}  // namespace rondo
