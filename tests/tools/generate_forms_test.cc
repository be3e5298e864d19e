// rondo generate: the forms of decoders, with models made here; and plans with which it cannot continue
// texts.
#include "tests/tools/decoder_models.h"
#include "tests/tools/generated_text.h"

namespace rondo {
namespace {

// A model that counts the tokens it has read and gives their number. Its state has no part for each position,
// though it may have `rows` rows.
std::string CountingModel(int64_t length, const std::string& state, int64_t rows = 0) {
  ModelMaker m;
  m.Input("words", {1, length}, onnx::TensorProto::INT64);
  m.Input(state, rows == 0 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{1, rows, 1});
  m.Floats("more", {1}, {static_cast<float>(length)});
  m.Node("Add", {state, "more"}, {state + "_out"});
  m.Ints("one", {1, 1});
  m.Ints("axis", {1});
  m.Node("ReduceMax", {state + "_out", "axis"}, {"greatest"});
  m.Node("Reshape", {"greatest", "one"}, {"count"});
  PeakAt(&m, "count", "scores");
  m.Output("scores");
  m.Output(state + "_out");
  return m.proto.SerializeAsString();
}

// Like Optimum's decoder_model.onnx and decoder_with_past_model.onnx for a decoder that computes the keys of
// the encoder's output in each step. No cache belongs to the encoder.
TEST_F(Generate, AFirstStepOfItsOwnBeginsTheCaches) {
  const auto step = [](bool first) {
    ModelMaker m;
    TokenIds(&m, {1, 1});
    CastToFloat(&m, "input_ids", "read");
    m.Ints("rows", {1, 1, 1});
    m.Node("Reshape", {"read", "rows"}, {"row"});
    if (!first)
      DescribePort(m.graph()->add_input(), "past_key_values.0.key", onnx::TensorProto::FLOAT,
                   {"1", "past", "1"});
    onnx::NodeProto* join = m.Node(
        "Concat",
        first ? std::vector<std::string>{"row"} : std::vector<std::string>{"past_key_values.0.key", "row"},
        {"present.0.key"});
    onnx::AttributeProto* axis = join->add_attribute();
    axis->set_name("axis");
    axis->set_type(onnx::AttributeProto::INT);
    axis->set_i(1);
    // Attention with zero scores gives the mean of all rows; times their number it is the sum.
    m.Floats("none", {1}, {0});
    m.Node("Mul", {"row", "none"}, {"query"});
    onnx::AttributeProto* perm = nullptr;
    onnx::NodeProto* turn = m.Node("Transpose", {"present.0.key"}, {"turned"});
    perm = turn->add_attribute();
    perm->set_name("perm");
    perm->set_type(onnx::AttributeProto::INTS);
    for (int d : {0, 2, 1}) perm->add_ints(d);
    m.Node("MatMul", {"query", "turned"}, {"scores"});
    m.Node("Softmax", {"scores"}, {"weights"});
    m.Node("MatMul", {"weights", "present.0.key"}, {"mean"});
    m.Floats("more", {1}, {7});
    m.Node("Add", {"mean", "more"}, {"said"});
    PeakAt(&m, "said", "logits", {1, 1, 60});
    m.Output("logits");
    DescribePort(m.graph()->add_output(), "present.0.key", onnx::TensorProto::FLOAT,
                 {"1", first ? "1" : "past + 1", "1"});
    return m.proto.SerializeAsString();
  };
  Compile(" first=" + Text("first.onnx", step(true)) + " next=" + Text("next.onnx", step(false)),
          "--cache-length 16");
  // First 4, then 4 + 7 = 11; their mean 7.5 and 7; ...
  const std::string go = "--ids --context 16 --max-tokens 4 ";
  EXPECT_EQ(Say(go + "--prompt 4"), "11 14 17 18 \n");
}

// Gives the sum of all tokens, which a cache of 8 positions holds. With `begins`, it reads only the run's own
// tokens.
std::string SummingModel(int64_t length, bool begins) {
  ModelMaker m;
  m.Input("input_ids", {1, length}, onnx::TensorProto::INT64);
  m.Input("position_ids", {1, length}, onnx::TensorProto::INT64);
  m.Input("past_key", {1, 8, 1});
  m.Ints("rows", {1, length, 1});
  CastToFloat(&m, "input_ids", "flat");
  m.Node("Reshape", {"flat", "rows"}, {"read"});
  m.Node("Reshape", {"position_ids", "rows"}, {"places"});
  onnx::AttributeProto* axis =
      m.Node("ScatterElements", {"past_key", "places", "read"}, {"present_key"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(1);
  m.Node("ReduceSum", {begins ? "read" : "present_key"}, {"sum"});
  PeakAt(&m, "sum", "logits", {1, 1, 60});
  m.Output("logits");
  m.Output("present_key");
  return m.proto.SerializeAsString();
}

// Gives the number of positions that each query sees by a mask [1, 1, length, 8], which is additive if it has
// floats.
std::string SeeingModel(int64_t length, int type) {
  ModelMaker m;
  m.Input("input_ids", {1, length}, onnx::TensorProto::INT64);
  m.Input("attention_mask", {1, 1, length, 8}, type);
  m.Input("h", {1, 8, 1});
  m.Floats("zero", {1}, {0});
  CastToFloat(&m, "attention_mask", "mask");
  const bool added = type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::FLOAT16;
  if (added) {
    m.Floats("least", {1}, {-60000});
    m.Node("Max", {"mask", "least"}, {"some"});
    m.Floats("more", {1}, {60000});
    m.Node("Div", {"some", "more"}, {"below"});  // 0 or -1
    m.Floats("one", {1}, {1});
    m.Node("Add", {"below", "one"}, {"seen"});
  }
  m.Ints("last", {-1});
  m.Node("ReduceSum", {added ? "seen" : "mask", "last"}, {"count"});  // [1, 1, length, 1]
  m.Ints("rows", {1, length, 1});
  m.Node("Reshape", {"count", "rows"}, {"counts"});
  PeakAt(&m, "counts", "logits", {1, 1, 60});
  m.Node("Add", {"h", "zero"}, {"h_out"});
  m.Output("logits");
  m.Output("h_out");
  return m.proto.SerializeAsString();
}

TEST_F(Generate, AMaskMaySayWhatEachQuerySees) {
  for (const int type : {onnx::TensorProto::BOOL, onnx::TensorProto::INT64, onnx::TensorProto::FLOAT,
                         onnx::TensorProto::FLOAT16}) {
    Compile(" a=" + Text("three.onnx", SeeingModel(3, type)) + " b=" + Text("one.onnx", SeeingModel(1, type)),
            "--state h:h_out");
    EXPECT_EQ(Say("--ids --prompt \"0 0 0 0\" --max-tokens 3"), "4 5 6 \n") << type;
    EXPECT_EQ(Say("--ids --prompt \"0 0 0\" --max-tokens 3"), "3 4 5 \n") << type;
  }
}

// A model with growing caches that gives the sum of tokens, each twice in texts of more than 4. A prompt that
// is read in chunks counts with its whole length in each chunk.
TEST_F(Generate, WhatIsChosenByTheLengthOfAPromptIsSoInEachOfItsChunks) {
  constexpr int kInt64 = onnx::TensorProto::INT64, kFloat = onnx::TensorProto::FLOAT;
  const auto integer = [](const char* name, onnx::NodeProto* node, int64_t value) {
    onnx::AttributeProto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  };
  for (const bool by_positions : {false, true}) {
    ModelMaker m;
    m.proto.add_opset_import()->set_domain("com.microsoft");
    m.proto.mutable_opset_import(1)->set_version(1);
    DescribePort(m.graph()->add_input(), "input_ids", kInt64, {"batch_size", "sequence_length"});
    DescribePort(m.graph()->add_input(), "position_ids", kInt64, {"batch_size", "sequence_length"});
    DescribePort(m.graph()->add_input(), "attention_mask", kInt64, {"batch_size", "total_sequence_length"});
    for (const std::string cache : {"key", "value"}) {
      DescribePort(m.graph()->add_input(), "past_key_values.0." + cache, kFloat,
                   {"batch_size", "1", "past_sequence_length", "16"});
      DescribePort(m.graph()->add_output(), "present.0." + cache, kFloat,
                   {"batch_size", "1", "total_sequence_length", "16"});
    }
    m.Ints("one", {1});
    m.Ints("four", {4});
    m.Floats("once", {1}, {1});
    m.Floats("twice", {1}, {2});
    m.Floats("nothing", {1}, {0});
    if (by_positions) {
      integer("keepdims", m.Node("ReduceMax", {"position_ids"}, {"last"}), 0);
      m.Node("Add", {"last", "one"}, {"total"});
    } else {
      m.Node("Shape", {"attention_mask"}, {"shape"});
      m.Node("Gather", {"shape", "one"}, {"total"});
    }
    m.Node("Greater", {"total", "four"}, {"long"});
    m.Node("Where", {"long", "twice", "once"}, {"count"});
    CastToFloat(&m, "input_ids", "flat");
    m.Node("Mul", {"flat", "nothing"}, {"none"});
    m.Node("Add", {"none", "count"}, {"each"});
    // Zero queries give the mean over positions; times their number it is the sum.
    m.Ints("axis", {2});
    m.Node("Unsqueeze", {"each", "axis"}, {"column"});
    m.Floats("wide", {16}, std::vector<float>(16, 1));
    m.Node("Mul", {"column", "wide"}, {"key"});
    m.Node("Mul", {"key", "nothing"}, {"query"});
    m.Node("ReduceSum", {"attention_mask", "one"}, {"held"});
    m.Node("Sub", {"held", "one"}, {"last_held"});
    integer("to", m.Node("Cast", {"last_held"}, {"seqlens"}), onnx::TensorProto::INT32);
    m.Node("Shape", {"attention_mask"}, {"mask_shape"});
    m.Node("Gather", {"mask_shape", "one"}, {"positions"});
    integer("to", m.Node("Cast", {"positions"}, {"positions_i32"}), onnx::TensorProto::INT32);
    onnx::NodeProto* attention = m.Node("GroupQueryAttention",
                                        {"query", "key", "key", "past_key_values.0.key",
                                         "past_key_values.0.value", "seqlens", "positions_i32"},
                                        {"attended", "present.0.key", "present.0.value"});
    attention->set_domain("com.microsoft");
    integer("num_heads", attention, 1);
    integer("kv_num_heads", attention, 1);
    m.Node("ReduceMean", {"attended", "axis"}, {"mean"});
    CastToFloat(&m, "position_ids", "places");
    m.Node("Add", {"places", "once"}, {"ends"});
    m.Node("Unsqueeze", {"ends", "axis"}, {"counts"});
    m.Node("Mul", {"mean", "counts"}, {"sum"});
    PeakAt(&m, "sum", "logits", {1, 1, 60});
    DescribePort(m.graph()->add_output(), "logits", kFloat, {"batch_size", "sequence_length", "60"});
    const std::string model = Text("model.onnx", m.proto.SerializeAsString());
    for (const char* sample : {"", " --sample logits"}) {
      Compile(
          " a=" + model + " b=" + model,
          "--cache-length 16 --shape batch_size=2 --shape a:sequence_length=3 --shape b:sequence_length=1" +
              std::string(sample));
      EXPECT_EQ(Say("--ids --prompt \"0 0 0 0 0 0 0\" --max-tokens 3 --raw"), "14 16 18 \n14 16 18 \n");
      EXPECT_EQ(Say("--ids --prompt \"0 0 0\" --max-tokens 4 --raw"), "3 4 6 8 \n3 4 6 8 \n");
      EXPECT_EQ(Say("--ids --prompt \"0 0 0\" --prompt \"0 0 0 0 0 0\" --max-tokens 3 --raw"),
                "3 4 6 \n12 14 16 \n")
          << "of a batch, each is as long as it is";
      EXPECT_EQ(Say("--ids --prompt \"0 0 0 0\" --prefix-file " + Text("p", "0 0") + " --max-tokens 2 --raw"),
                "12 14 \n12 14 \n");
    }
  }
}

// As in a model whose angles depend on the text's length: it gives the number of positions of its mask.
TEST_F(Generate, ALastChunkThatAProgramIsTooLongForEndsWithTheText) {
  const auto model = [](int64_t length) {
    ModelMaker m;
    m.Input("input_ids", {1, length}, onnx::TensorProto::INT64);
    m.Input("attention_mask", {1, 8}, onnx::TensorProto::INT64);
    m.Input("h", {1, 8, 1});
    m.Floats("zero", {1}, {0});
    CastToFloat(&m, "attention_mask", "mask");
    m.Ints("last", {-1});
    m.Node("ReduceSum", {"mask", "last"}, {"count"});
    PeakAt(&m, "count", "logits", {1, length, 60});
    m.Node("Add", {"h", "zero"}, {"h_out"});
    m.Output("logits");
    m.Output("h_out");
    return m.proto.SerializeAsString();
  };
  Compile(" a=" + Text("three.onnx", model(3)) + " b=" + Text("one.onnx", model(1)), "--state h:h_out");
  EXPECT_EQ(Say("--ids --prompt \"0 0 0 0 0\" --max-tokens 3"), "5 6 7 \n");
  EXPECT_EQ(Say("--ids --prompt \"0 0 0 0 0 0 0 0\" --max-tokens 1"), "8 \n") << "up to the end of the cache";
}

// Also if it has positions, like the branch without a past of a merged decoder.
TEST_F(Generate, AProgramThatReadsNoCacheReadsTheFirstTokensAlone) {
  for (const int64_t length : {1, 2}) {
    for (const char* options : {"", "--sample logits"}) {
      Compile(" first=" + Text("first.onnx", SummingModel(length, true)) +
                  " next=" + Text("next.onnx", SummingModel(1, false)),
              options);
      const std::string go = "--ids --context 8 --max-tokens 2 --prompt ";
      EXPECT_EQ(Say(go + "5"), "5 10 \n") << options;
      EXPECT_EQ(Say(go + "\"1 2 4\""), "7 14 \n") << options;
      EXPECT_EQ(Say(go + "\"1 2 1 2 1\""), "7 14 \n") << options;
    }
  }
}

TEST_F(Generate, StatesThatAreNoCachesSeeNoPadding) {
  const std::string three = Text("three.onnx", CountingModel(3, "h")),
                    one = Text("one.onnx", CountingModel(1, "h"));
  for (const char* options : {"--state h:h_out", "--state h:h_out --sample scores"}) {
    Compile(" a=" + three + " b=" + one, options);
    EXPECT_EQ(Say("--ids --prompt \"0 0 0 0 0\" --max-tokens 3 --context 50"), "5 6 7 \n") << options;
    EXPECT_EQ(Say("--ids --prompt \"0 0 0 0 0\" --prompt 0 --max-tokens 2 --context 50 --port logits=scores"),
              "5 6 \n1 2 \n");
    EXPECT_PRINTS(Run("--ids --prompt 0"), "do not say how many positions they hold: give --context N");
  }
  // As many rows as the context has positions.
  Compile(" a=" + Text("long.onnx", CountingModel(3, "h", 50)) +
              " b=" + Text("single.onnx", CountingModel(1, "h", 50)),
          "--state h:h_out");
  EXPECT_EQ(Say("--ids --prompt \"0 0 0 0 0\" --max-tokens 3 --context 50"), "5 6 7 \n");
  Compile(" a=" + three + " b=" + Text("other.onnx", CountingModel(1, "g")),
          "--state h:h_out --state g:g_out");
  EXPECT_PRINTS(Run("--ids --prompt 0 --context 50"),
                "programs \"a\" and \"b\" are no decoder together: they have not the same states");
  EXPECT_EQ(Say("--ids --prompt 0 --context 50 --program b --max-tokens 2"), "1 2 \n");
}

TEST_F(Generate, AnIntegerBesideAMaskIsNoPosition) {
  Compile(" a=" + Text("adapted.onnx", AdaptedModel(1)), "--state h:h_out");
  const Outcome refused = Run("--ids --prompt \"3 4\" --max-tokens 2");
  EXPECT_EQ(refused.status, 1);
  EXPECT_PRINTS(refused, "generate does not know what to give the input \"adapter\" (i64[1])");
  EXPECT_EQ(Say("--ids --prompt \"3 4\" --max-tokens 3 --input adapter=" + Adapter()), "9 14 19 \n");
}

TEST_F(Generate, WhatIsNoDecoderIsRefusedInASentence) {
  ModelMaker m;
  m.Input("x", {2, 3});
  m.Node("Relu", {"x"}, {"y"});
  m.Output("y");
  const std::string model = folder_.File("m.onnx");
  std::ofstream(model, std::ios::binary) << m.proto.SerializeAsString();
  Compile(" " + model, "");
  Outcome refused = Run("--prompt a");
  EXPECT_EQ(refused.status, 1);
  EXPECT_PRINTS(refused,
                "program \"main\" is no part of a decoder: no input has tokens: integers [texts, tokens]");

  Compile(" " + kData + "pycoder/prefill64.onnx", "");
  EXPECT_PRINTS(Run("--prompt a"), "no program of the plan reads one token of each text");
  Compile(" " + kData + "pycoder/decode.onnx", "--no-auto-state");
  refused = Run("--prompt a");
  EXPECT_PRINTS(refused, "generate does not know what to give the input \"k_cache\" (f32[6, 1, 2, 256, 32])");
  EXPECT_PRINTS(refused, "if it is a cache, compile so that runs keep it: --cache-length N");

  Compile(kPycoder, "");
  EXPECT_PRINTS(Run("--prompt a --program decoder"), "the plan has no program \"decoder\"");
  EXPECT_PRINTS(Run("--prompt a --port tokens=positions"), "no tokens: integers [texts, tokens]");
  EXPECT_PRINTS(Run("--prompt a --port mask=tokenz"), "no program has an input \"tokenz\"");
  EXPECT_PRINTS(Run("--prompt a --port positions=k_cache"), "no program has an input \"k_cache\"");
  EXPECT_PRINTS(Run("--prompt a --input none=" + kData + "fixtures/resnet/test_data_set_0/input_0.pb"),
                "--input: no program has an input \"none\"");
  EXPECT_PRINTS(Run("--prompt a --port logits=lo"), "no output has logits called \"lo\"");
  EXPECT_PRINTS(Run("--prompt-file " + folder_.File("none")), "No such file");
  for (const char* wrong :
       {"", "--prompt a --top-p 0", "--prompt a --temperature -1", "--prompt a --port x=y",
        "--prompt a --stop x", "--prompt a --seed -1", "--prompt a --input x"}) {
    EXPECT_EQ(Run(wrong).status, 2) << wrong;
  }
  EXPECT_PRINTS(Shell(kRondo + " compile" + kPycoder + "--sample logit -o " + Plan()),
                "--sample: no model has an output \"logit\"");
}

}  // namespace
}  // namespace rondo
