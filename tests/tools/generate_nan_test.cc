// rondo generate: logits that are NaN end it with an error, on every device and however tokens are drawn.
#include "tests/tools/decoder_models.h"
#include "tests/tools/generated_text.h"

namespace rondo {
namespace {

TEST_F(Generate, LogitsThatAreNoNumbersAreAnError) {
  for (const char* options : {"--state h:h_out", "--state h:h_out --sample scores:words"}) {
    Compile(" a=" + Text("spoilt.onnx", AdaptedModel(1, true)), options);
    for (const char* how : {"", " --temperature 1"}) {
      const Outcome said = Run("--ids --prompt \"3 4\" --max-tokens 3 --input adapter=" + Adapter() + how);
      EXPECT_EQ(said.status, 1) << options << how;
      EXPECT_PRINTS(said, "program \"a\": a logit behind the 2 tokens of text 1");
      EXPECT_PRINTS(said, "is NaN");
    }
  }
}

// Two texts in which each token is one more than the one before; after 20 the logits are NaN.
std::string SpoiltFrom20() {
  ModelMaker m;
  m.Input("words", {2, 1}, onnx::TensorProto::INT64);
  m.Input("h", {2, 50, 1});
  m.Floats("none", {1}, {0});
  m.Node("Mul", {"h", "none"}, {"h_out"});
  m.Floats("one", {1}, {1});
  m.Floats("last", {1}, {19});
  CastToFloat(&m, "words", "word");
  m.Node("Add", {"word", "one"}, {"count"});
  m.Node("Sub", {"last", "word"}, {"left"});
  m.Node("Sqrt", {"left"}, {"real"});
  m.Node("Mul", {"real", "none"}, {"nothing"});
  PeakAt(&m, "count", "less");
  m.Node("Add", {"nothing", "less"}, {"scores"});
  m.Output("scores");
  m.Output("h_out");
  return m.proto.SerializeAsString();
}

class SpoiltTexts : public Generate {
 protected:
  // Expects that texts are drawn in the way `how`, and an error where a token cannot be drawn.
  void Expect(const std::string& how) {
    const std::string texts = "--ids --prompt \"3 14\" --prompt \"3 15\" --max-tokens ";
    EXPECT_EQ(Say(texts + "5" + how), "15 16 17 18 19 \n16 17 18 19 20 \n") << how;
    const Outcome said = Run(texts + "9" + how);
    EXPECT_EQ(said.status, 1) << how;
    EXPECT_PRINTS(said, "program \"a\": a logit behind the 7 tokens of text 2 of the session is NaN");
  }
};
constexpr const char* kWaysToDraw[] = {"", " --temperature 0.01",
                                       " --temperature 0.01 --top-k 3 --top-p 0.9"};

TEST_F(SpoiltTexts, EndAtTheStepWhereALogitIsNoNumber) {
  const std::string model = Text("becomes.onnx", SpoiltFrom20());
  for (const char* options : {"--state h:h_out", "--state h:h_out --sample scores:words"}) {
    Compile(" a=" + model, options);
    for (const char* how : kWaysToDraw) Expect(how);
  }
}

// On a GPU, or tests/cuda/emulated.
TEST_F(SpoiltTexts, EndThereOnAGpu) {
  const std::string options = "--state h:h_out --sample scores:words --target cuda:sm_90a --no-kernel-cache";
  const std::string model = Text("becomes.onnx", SpoiltFrom20());
  const Outcome made = Shell(kRondo + " compile a=" + model + " " + options + " -o " + Plan());
  if (made.text.find("libnvrtc") != std::string::npos) GTEST_SKIP() << made.text;
  ASSERT_EQ(made.status, 0) << made.text;
  const Outcome tried = Run("--ids --prompt 3 --max-tokens 1 --driver cuda");
  if (tried.text.find("libcuda") != std::string::npos) GTEST_SKIP() << tried.text;
  for (const char* how : kWaysToDraw) Expect(std::string(" --driver cuda") + how);
}

}  // namespace
}  // namespace rondo
