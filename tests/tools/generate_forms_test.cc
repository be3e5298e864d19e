// rondo generate: the forms of decoders, with models made here; and plans with which it cannot continue
// texts.
#include "tests/import/model_maker.h"
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
  std::vector<float> numbers(60);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  m.Floats("numbers", {1, 60}, numbers);
  m.Node("Add", {state, "more"}, {state + "_out"});
  m.Ints("one", {1, 1});
  m.Ints("axis", {1});
  m.Node("ReduceMax", {state + "_out", "axis"}, {"greatest"});
  m.Node("Reshape", {"greatest", "one"}, {"count"});
  m.Node("Sub", {"numbers", "count"}, {"apart"});
  m.Node("Mul", {"apart", "apart"}, {"square"});
  m.Node("Neg", {"square"}, {"scores"});
  m.Output("scores");
  m.Output(state + "_out");
  return m.proto.SerializeAsString();
}

// Each token is larger than the one before by the adapter's number. A mask gives the text's length.
std::string AdaptedModel(int64_t length, const char* of_scores = "Neg") {
  ModelMaker m;
  m.Input("words", {1, length}, onnx::TensorProto::INT64);
  m.Input("attention_mask", {1, 50}, onnx::TensorProto::INT64);
  m.Input("adapter", {1}, onnx::TensorProto::INT64);
  m.Input("h", {1, 50, 1});
  m.Floats("none", {1}, {0});
  m.Node("Mul", {"h", "none"}, {"h_out"});
  std::vector<float> numbers(60);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  m.Floats("numbers", {1, 60}, numbers);
  m.Ints("axis", {1});
  m.Node("ReduceMax", {"words", "axis"}, {"greatest"});
  m.Node("Add", {"greatest", "adapter"}, {"sum"});
  m.Node("ReduceMax", {"attention_mask", "axis"}, {"read"});
  m.Node("Mul", {"sum", "read"}, {"next"});
  m.Node("Cast", {"next"}, {"count"})->add_attribute();
  auto* to = m.graph()->mutable_node(m.graph()->node_size() - 1)->mutable_attribute(0);
  to->set_name("to");
  to->set_type(onnx::AttributeProto::INT);
  to->set_i(onnx::TensorProto::FLOAT);
  m.Node("Sub", {"numbers", "count"}, {"apart"});
  m.Node("Mul", {"apart", "apart"}, {"square"});
  m.Node("Neg", {"square"}, {"less"});
  m.Node(of_scores, {of_scores == std::string("Neg") ? "square" : "less"}, {"scores"});
  m.Output("scores");
  m.Output("h_out");
  return m.proto.SerializeAsString();
}

// An encoder gives its tokens as floats. The decoder gives twice their sum plus the number of its own
// positions. The first step doubles them into caches that the other steps read.
struct EncoderAndDecoder {
  ModelMaker encoder, first, next;
  EncoderAndDecoder() {
    Ids(&encoder, {1, 4});
    encoder.Input("attention_mask", {1, 4}, onnx::TensorProto::INT64);
    encoder.Node("Mul", {"input_ids", "attention_mask"}, {"real"});
    Cast(&encoder, "real", "flat");
    encoder.Ints("shape", {1, 4, 1});
    encoder.Node("Reshape", {"flat", "shape"}, {"last_hidden_state"});
    encoder.Output("last_hidden_state");

    Ids(&first, {1, 1});
    first.Input("encoder_hidden_states", {1, 4, 1});
    first.Node("Add", {"encoder_hidden_states", "encoder_hidden_states"}, {"present.0.encoder.key"});
    first.Output("present.0.encoder.key");
    Cast(&first, "input_ids", "read");
    first.Floats("none", {1}, {0});
    first.Node("Mul", {"read", "none"}, {"nothing"});
    first.Floats("one", {1}, {1});
    first.Node("Add", {"nothing", "one"}, {"present.0.decoder.key"});
    Scores(&first, "present.0.encoder.key");

    Ids(&next, {1, 1});
    next.Input("past_sequence_length", {1, 1}, onnx::TensorProto::INT64);
    next.Input("past_key_values.0.encoder.key", {1, 4, 1});
    next.Input("past_key_values.0.decoder.key", {1, 1});
    Cast(&next, "past_sequence_length", "place");
    next.Node("Sub", {"place", "past_key_values.0.decoder.key"}, {"same"});
    next.Node("Mul", {"same", "none"}, {"zero"});
    next.Floats("none", {1}, {0});
    next.Floats("one", {1}, {1});
    next.Node("Add", {"past_key_values.0.decoder.key", "one"}, {"count"});
    next.Node("Add", {"count", "zero"}, {"present.0.decoder.key"});
    Scores(&next, "past_key_values.0.encoder.key");
  }
  static void Ids(ModelMaker* m, const std::vector<int64_t>& dims) {
    m->Input("input_ids", dims, onnx::TensorProto::INT64);
  }
  static void Cast(ModelMaker* m, const std::string& from, const std::string& to) {
    onnx::AttributeProto* type = m->Node("Cast", {from}, {to})->add_attribute();
    type->set_name("to");
    type->set_type(onnx::AttributeProto::INT);
    type->set_i(onnx::TensorProto::FLOAT);
  }
  static void Scores(ModelMaker* m, const std::string& encoded) {
    m->Output("present.0.decoder.key");
    m->Ints("row", {1, 1});
    m->Node("ReduceSum", {encoded}, {"all"});
    m->Node("Reshape", {"all", "row"}, {"sum"});
    m->Node("Add", {"sum", "present.0.decoder.key"}, {"said"});
    std::vector<float> numbers(60);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    m->Floats("numbers", {1, 60}, numbers);
    m->Node("Sub", {"numbers", "said"}, {"apart"});
    m->Node("Mul", {"apart", "apart"}, {"square"});
    m->Node("Neg", {"square"}, {"logits"});
    m->Output("logits");
  }
};

TEST_F(Generate, WhatAnEncoderGaveStaysOnTheDevice) {
  EncoderAndDecoder models;
  std::string three;
  for (const auto& [name, model] :
       {std::pair{"encode", &models.encoder}, {"first", &models.first}, {"next", &models.next}})
    three +=
        std::string(" ") + name + "=" + Text(std::string(name) + ".onnx", model->proto.SerializeAsString());
  for (const char* options :
       {"", "--sample logits", "--tp 2", "--tp 2 --sample logits", "--pp 2 --sample logits"}) {
    Compile(three, options);
    const std::string go = "--ids --context 50 --max-tokens 4 --start 0 ";
    EXPECT_EQ(Say(go + "--source \"1 2 3\""), "13 14 15 16 \n") << "one of four tokens is none " << options;
    EXPECT_EQ(Say(go + "--source \"1 2 3\" --source \"5 5 5 5\""), "13 14 15 16 \n41 42 43 44 \n");
    EXPECT_EQ(Say(go + "--source 2 --prompt 7 --prompt \"7 7\""), "6 7 8 9 \n7 8 9 10 \n");
    EXPECT_PRINTS(Run(go), "the plan's encoder reads tokens: --source or --source-file");
    EXPECT_PRINTS(Run(go + "--source \"1 2 3 4 5\""), "a source of 5 tokens: the encoder reads at most 4");
    EXPECT_PRINTS(Run(go + "--source 1 --source 2 --source 3 --prompt 1 --prompt 2"),
                  "3 sources and 2 prompts: there must be as many, or one of either");
    EXPECT_PRINTS(Run("--ids --context 50 --start 60 --source 1"),
                  "--start 60 is not one of the model's 60 tokens");
    EXPECT_PRINTS(Run(go + "--source 1 --prefix-file " + Text("p", "1")),
                  "--prefix-file: what texts attend to");
  }
  // The caches are states: they are not passed in and do not come back.
  const Outcome seen = Shell(kRondo + " inspect --wide " + Plan());
  EXPECT_PRINTS(seen, "state \"past_key_values.0.encoder.key\"");
}

// In Whisper models of onnxruntime-genai's builder the encoder gives keys and values, and one decoder reads
// them.
TEST_F(Generate, AnEncoderMayComputeTheDecodersKeysItself) {
  for (const bool hidden : {false, true}) {
    EncoderAndDecoder models;
    ModelMaker& encoder = models.encoder;
    encoder.Node("Add", {"last_hidden_state", "last_hidden_state"}, {"present.0.encoder.key"});
    if (!hidden) encoder.graph()->clear_output();
    encoder.Output("present.0.encoder.key");
    const std::string both = " encode=" + Text("encode.onnx", encoder.proto.SerializeAsString()) +
                             " next=" + Text("next.onnx", models.next.proto.SerializeAsString());
    for (const char* sample : {"", " --sample logits"}) {
      const std::string options =
          std::string("--state past_key_values.0.decoder.key:present.0.decoder.key") + sample;
      Compile(both, options);
      const std::string go = "--ids --context 50 --max-tokens 4 --start 0 ";
      EXPECT_EQ(Say(go + "--source \"1 2 3\" --source \"5 5 5 5\""), "13 14 15 16 \n41 42 43 44 \n")
          << options;
      EXPECT_PRINTS(Run(go), "the plan's encoder reads tokens: --source or --source-file");
    }
  }
}

// Like Optimum's decoder_model.onnx and decoder_with_past_model.onnx for a decoder that computes the keys of
// the encoder's output in each step. No cache belongs to the encoder.
TEST_F(Generate, AFirstStepOfItsOwnBeginsTheCaches) {
  const auto step = [](bool first) {
    ModelMaker m;
    EncoderAndDecoder::Ids(&m, {1, 1});
    EncoderAndDecoder::Cast(&m, "input_ids", "read");
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
    std::vector<float> numbers(60);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    m.Floats("numbers", {1, 1, 60}, numbers);
    m.Floats("more", {1}, {7});
    m.Node("Add", {"mean", "more"}, {"said"});
    m.Node("Sub", {"numbers", "said"}, {"apart"});
    m.Node("Mul", {"apart", "apart"}, {"square"});
    m.Node("Neg", {"square"}, {"logits"});
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
  EncoderAndDecoder::Cast(&m, "input_ids", "flat");
  m.Node("Reshape", {"flat", "rows"}, {"read"});
  m.Node("Reshape", {"position_ids", "rows"}, {"places"});
  onnx::AttributeProto* axis =
      m.Node("ScatterElements", {"past_key", "places", "read"}, {"present_key"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(1);
  m.Node("ReduceSum", {begins ? "read" : "present_key"}, {"sum"});
  std::vector<float> numbers(60);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  m.Floats("numbers", {1, 1, 60}, numbers);
  m.Node("Sub", {"numbers", "sum"}, {"apart"});
  m.Node("Mul", {"apart", "apart"}, {"square"});
  m.Node("Neg", {"square"}, {"logits"});
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
  EncoderAndDecoder::Cast(&m, "attention_mask", "mask");
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
  std::vector<float> numbers(60);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  m.Floats("numbers", {1, 1, 60}, numbers);
  m.Node("Sub", {"numbers", "counts"}, {"apart"});
  m.Node("Mul", {"apart", "apart"}, {"square"});
  m.Node("Neg", {"square"}, {"logits"});
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
    EncoderAndDecoder::Cast(&m, "input_ids", "flat");
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
    EncoderAndDecoder::Cast(&m, "position_ids", "places");
    m.Node("Add", {"places", "once"}, {"ends"});
    m.Node("Unsqueeze", {"ends", "axis"}, {"counts"});
    m.Node("Mul", {"mean", "counts"}, {"sum"});
    std::vector<float> numbers(60);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    m.Floats("numbers", {1, 1, 60}, numbers);
    m.Node("Sub", {"numbers", "sum"}, {"apart"});
    m.Node("Mul", {"apart", "apart"}, {"square"});
    m.Node("Neg", {"square"}, {"logits"});
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

// As in merged decoders that pass their inputs on: both programs have both ports.
TEST_F(Generate, WhatAnEncoderGaveMayBeHandedOn) {
  EncoderAndDecoder models;
  models.first.Input("past_key_values.0.encoder.key", {1, 4, 1});
  models.next.Node("Identity", {"past_key_values.0.encoder.key"}, {"present.0.encoder.key"});
  models.next.Output("present.0.encoder.key");
  std::string three;
  for (const auto& [name, model] :
       {std::pair{"encode", &models.encoder}, {"first", &models.first}, {"next", &models.next}})
    three +=
        std::string(" ") + name + "=" + Text(std::string(name) + ".onnx", model->proto.SerializeAsString());
  Compile(three, "");
  EXPECT_EQ(Say("--ids --context 50 --max-tokens 4 --start 0 --source \"1 2 3\""), "13 14 15 16 \n");
}

// As in Speech2Text, whose decoder computes the mask of the encoder's output from the mask of the encoder's
// input.
TEST_F(Generate, ADecoderMayReadTheMaskThatItsEncoderIsGiven) {
  const auto integers = [&](const std::string& name, const std::vector<int64_t>& values) {
    std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
    file += "{'descr': '<i8', 'fortran_order': False, 'shape': (1, " + std::to_string(values.size()) + "), }";
    file.resize(127, ' ');
    file += '\n';
    for (const int64_t value : values)
      file += std::string(1, static_cast<char>(value)) + std::string(7, '\0');
    return " --input " + name + "=" + Text(name + ".npy", file);
  };
  ModelMaker encoder;
  encoder.Input("input_features", {1, 4}, onnx::TensorProto::INT64);
  encoder.Input("attention_mask", {1, 4}, onnx::TensorProto::INT64);
  encoder.Node("Mul", {"input_features", "attention_mask"}, {"real"});
  EncoderAndDecoder::Cast(&encoder, "real", "flat");
  encoder.Ints("halves", {1, 2, 2});
  encoder.Ints("last", {2});
  encoder.Node("Reshape", {"flat", "halves"}, {"pairs"});
  encoder.Node("ReduceSum", {"pairs", "last"}, {"last_hidden_state"});
  encoder.Output("last_hidden_state");
  const auto decoder = [&](int64_t mask) {
    ModelMaker m;
    EncoderAndDecoder::Ids(&m, {1, 1});
    m.Input("encoder_hidden_states", {1, 2, 1});
    m.Input("encoder_attention_mask", {1, mask}, onnx::TensorProto::INT64);
    m.Input("h", {1, 50, 1});
    m.Floats("none", {1}, {0});
    m.Floats("ten", {1}, {10});
    m.Node("Mul", {"h", "none"}, {"h_out"});
    EncoderAndDecoder::Cast(&m, "input_ids", "read");
    EncoderAndDecoder::Cast(&m, "encoder_attention_mask", "mask");
    m.Ints("row", {1, 1});
    m.Node("ReduceSum", {"mask"}, {"count"});
    m.Node("Mul", {"count", "ten"}, {"tens"});
    m.Node("ReduceSum", {"encoder_hidden_states"}, {"all"});
    m.Node("Add", {"all", "tens"}, {"sum"});
    m.Node("Reshape", {"sum", "row"}, {"one"});
    m.Node("Mul", {"read", "none"}, {"nothing"});
    m.Node("Add", {"one", "nothing"}, {"said"});
    std::vector<float> numbers(60);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
    m.Floats("numbers", {1, 60}, numbers);
    m.Node("Sub", {"numbers", "said"}, {"apart"});
    m.Node("Mul", {"apart", "apart"}, {"square"});
    m.Node("Neg", {"square"}, {"logits"});
    m.Output("logits");
    m.Output("h_out");
    return m.proto.SerializeAsString();
  };
  const std::string encode = " encode=" + Text("encode.onnx", encoder.proto.SerializeAsString());
  const std::string features = integers("input_features", {1, 2, 3, 4});
  const std::string go = "--ids --max-tokens 2 --start 0" + features;
  for (const char* options : {"--state h:h_out", "--state h:h_out --sample logits"}) {
    Compile(encode + " next=" + Text("next.onnx", decoder(4)), options);
    EXPECT_EQ(Say(go + integers("attention_mask", {1, 1, 1, 0})), "36 36 \n") << options;
    EXPECT_PRINTS(Run(go),
                  "generate does not know what to give the input \"encoder_attention_mask\" (i64[1, 4])");
    Compile(encode + " next=" + Text("short.onnx", decoder(2)), options);
    const std::string mask = integers("attention_mask", {1, 1, 1, 0});
    EXPECT_PRINTS(Run(go + mask),
                  "is not as the mask that its encoder is given, \"attention_mask\" (i64[1, 4])");
    EXPECT_EQ(Say(go + mask + integers("encoder_attention_mask", {1, 1})), "26 26 \n");
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
    EncoderAndDecoder::Cast(&m, "attention_mask", "mask");
    m.Ints("last", {-1});
    m.Node("ReduceSum", {"mask", "last"}, {"count"});
    std::vector<float> numbers;  // one for each row
    for (int64_t i = 0; i < length * 60; ++i) numbers.push_back(static_cast<float>(i % 60));
    m.Floats("numbers", {1, length, 60}, numbers);
    m.Node("Sub", {"numbers", "count"}, {"apart"});
    m.Node("Mul", {"apart", "apart"}, {"square"});
    m.Node("Neg", {"square"}, {"logits"});
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

TEST_F(Generate, LogitsThatAreNoNumbersAreAnError) {
  for (const char* options : {"--state h:h_out", "--state h:h_out --sample scores:words"}) {
    Compile(" a=" + Text("spoilt.onnx", AdaptedModel(1, "Sqrt")), options);
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
  std::vector<float> numbers(60);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  m.Floats("numbers", {1, 60}, numbers);
  m.Floats("one", {1}, {1});
  m.Floats("last", {1}, {19});
  EncoderAndDecoder::Cast(&m, "words", "word");
  m.Node("Add", {"word", "one"}, {"count"});
  m.Node("Sub", {"last", "word"}, {"left"});
  m.Node("Sqrt", {"left"}, {"real"});
  m.Node("Mul", {"real", "none"}, {"nothing"});
  m.Node("Sub", {"numbers", "count"}, {"apart"});
  m.Node("Mul", {"apart", "apart"}, {"square"});
  m.Node("Sub", {"nothing", "square"}, {"scores"});
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
