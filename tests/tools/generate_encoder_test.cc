// rondo generate with encoders: what reaches the decoder, and by which ports.
#include "tests/tools/decoder_models.h"
#include "tests/tools/generated_text.h"

namespace rondo {
namespace {

// An encoder gives its tokens as floats. The decoder gives twice their sum plus the number of its own
// positions. The first step doubles them into caches that the other steps read.
struct EncoderAndDecoder {
  ModelMaker encoder, first, next;
  EncoderAndDecoder() {
    TokenIds(&encoder, {1, 4});
    encoder.Input("attention_mask", {1, 4}, onnx::TensorProto::INT64);
    encoder.Node("Mul", {"input_ids", "attention_mask"}, {"real"});
    CastToFloat(&encoder, "real", "flat");
    encoder.Ints("shape", {1, 4, 1});
    encoder.Node("Reshape", {"flat", "shape"}, {"last_hidden_state"});
    encoder.Output("last_hidden_state");

    TokenIds(&first, {1, 1});
    first.Input("encoder_hidden_states", {1, 4, 1});
    first.Node("Add", {"encoder_hidden_states", "encoder_hidden_states"}, {"present.0.encoder.key"});
    first.Output("present.0.encoder.key");
    CastToFloat(&first, "input_ids", "read");
    first.Floats("none", {1}, {0});
    first.Node("Mul", {"read", "none"}, {"nothing"});
    first.Floats("one", {1}, {1});
    first.Node("Add", {"nothing", "one"}, {"present.0.decoder.key"});
    Scores(&first, "present.0.encoder.key");

    TokenIds(&next, {1, 1});
    next.Input("past_sequence_length", {1, 1}, onnx::TensorProto::INT64);
    next.Input("past_key_values.0.encoder.key", {1, 4, 1});
    next.Input("past_key_values.0.decoder.key", {1, 1});
    CastToFloat(&next, "past_sequence_length", "place");
    next.Node("Sub", {"place", "past_key_values.0.decoder.key"}, {"same"});
    next.Node("Mul", {"same", "none"}, {"zero"});
    next.Floats("none", {1}, {0});
    next.Floats("one", {1}, {1});
    next.Node("Add", {"past_key_values.0.decoder.key", "one"}, {"count"});
    next.Node("Add", {"count", "zero"}, {"present.0.decoder.key"});
    Scores(&next, "past_key_values.0.encoder.key");
  }
  static void Scores(ModelMaker* m, const std::string& encoded) {
    m->Output("present.0.decoder.key");
    m->Ints("row", {1, 1});
    m->Node("ReduceSum", {encoded}, {"all"});
    m->Node("Reshape", {"all", "row"}, {"sum"});
    m->Node("Add", {"sum", "present.0.decoder.key"}, {"said"});
    PeakAt(m, "said", "logits");
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
  CastToFloat(&encoder, "real", "flat");
  encoder.Ints("halves", {1, 2, 2});
  encoder.Ints("last", {2});
  encoder.Node("Reshape", {"flat", "halves"}, {"pairs"});
  encoder.Node("ReduceSum", {"pairs", "last"}, {"last_hidden_state"});
  encoder.Output("last_hidden_state");
  const auto decoder = [&](int64_t mask) {
    ModelMaker m;
    TokenIds(&m, {1, 1});
    m.Input("encoder_hidden_states", {1, 2, 1});
    m.Input("encoder_attention_mask", {1, mask}, onnx::TensorProto::INT64);
    m.Input("h", {1, 50, 1});
    m.Floats("none", {1}, {0});
    m.Floats("ten", {1}, {10});
    m.Node("Mul", {"h", "none"}, {"h_out"});
    CastToFloat(&m, "input_ids", "read");
    CastToFloat(&m, "encoder_attention_mask", "mask");
    m.Ints("row", {1, 1});
    m.Node("ReduceSum", {"mask"}, {"count"});
    m.Node("Mul", {"count", "ten"}, {"tens"});
    m.Node("ReduceSum", {"encoder_hidden_states"}, {"all"});
    m.Node("Add", {"all", "tens"}, {"sum"});
    m.Node("Reshape", {"sum", "row"}, {"one"});
    m.Node("Mul", {"read", "none"}, {"nothing"});
    m.Node("Add", {"one", "nothing"}, {"said"});
    PeakAt(&m, "said", "logits");
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

}  // namespace
}  // namespace rondo
