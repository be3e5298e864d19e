// rondo generate: texts that a language model continues, and plans that it cannot continue any with.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

const std::string kRondo = RONDO_COMMAND;
const std::string kData = SourceFolder() + "/tests/data/";
const std::string kPycoder =
    " prefill=" + kData + "pycoder/prefill64.onnx decode=" + kData + "pycoder/decode.onnx ";

std::string Greedy() {
  std::ifstream file(kData + "pycoder/greedy.bytes", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Generate : public testing::Test {
 protected:
  void Compile(const std::string& models, const std::string& options) {
    const Outcome made = Shell(kRondo + " compile" + models + " " + options + " -o " + Plan());
    ASSERT_EQ(made.status, 0) << made.text;
  }
  std::string Plan() const { return folder_.File("plan.rondo"); }
  // The file's name.
  std::string Text(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.File(name), std::ios::binary) << text;
    return folder_.File(name);
  }
  // An npy of one i64, 5: the number of an adapter.
  std::string Adapter() const {
    std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
    file += "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }";
    file.resize(127, ' ');
    file += '\n';
    file += std::string("\x05\0\0\0\0\0\0\0", 8);
    return Text("adapter.npy", file);
  }
  // Standard output alone.
  std::string Say(const std::string& options) const {
    const Outcome said = Shell("sh -c '" + kRondo + " generate " + Plan() + " " + options + " 2>/dev/null'");
    EXPECT_EQ(said.status, 0) << options << Run(options).text;
    return said.text;
  }
  Outcome Run(const std::string& options) const {
    return Shell(kRondo + " generate " + Plan() + " " + options);
  }
  nlohmann::json Json(const std::string& options) const {
    return nlohmann::json::parse(Say(options + " --json"), nullptr, false);
  }
  TemporaryFolder folder_;
};

TEST_F(Generate, GreedyTextIsWhatPyTorchWrites) {
  const std::string want = Greedy(), prompt = Text("p", want.substr(0, 32));
  for (const char* options : {"", "--sample logits", "--sample logits --tp 2", "--sample logits --pp 2"}) {
    Compile(kPycoder, options);
    EXPECT_EQ(Say("--prompt-file " + prompt + " --max-tokens 120 --raw"), want) << options;
    EXPECT_EQ(Say("--prompt-file " + prompt + " --max-tokens 120 --raw --program decode"), want) << options;
    for (size_t length : {33u, 64u, 127u}) {
      const std::string more = Text("q", want.substr(0, length));
      EXPECT_EQ(Say("--prompt-file " + more + " --max-tokens 2 --raw"), want.substr(0, length + 2)) << length;
    }
  }
}

// Random numbers need no weight, and are made where they are read: they tie no layer to the last stage.
TEST_F(Generate, StagesHoldHalfOfTheWeightsEachWhereTokensAreDrawn) {
  Compile(kPycoder, "--sample logits --pp 2");
  const nlohmann::json plan = nlohmann::json::parse(Shell(kRondo + " inspect --json " + Plan()).text);
  const nlohmann::json& devices = plan["requirements"]["devices"];
  ASSERT_EQ(devices.size(), 2u);
  for (const char* what : {"weights", "state"}) {
    const double first = devices[0][what], second = devices[1][what];
    EXPECT_LT(std::max(first, second), 0.6 * (first + second)) << what << " " << devices;
  }
}

TEST_F(Generate, OneSeedIsOneText) {
  const std::string drawn =
      " --temperature 0.9 --top-k 30 --top-p 0.95 --max-tokens 60 --prompt import --raw";
  Compile(kPycoder, "--sample logits");
  const std::string first = Say("--seed 5" + drawn);
  EXPECT_EQ(Say("--seed 5" + drawn), first);
  EXPECT_EQ(Say("--seed 5 --threads 2" + drawn), first);
  EXPECT_NE(Say("--seed 6" + drawn), first);
  EXPECT_EQ(Say("--seed 6 --top-k 1 --temperature 0.9 --max-tokens 60 --prompt import --raw"),
            Say("--max-tokens 60 --prompt import --raw"));
  Compile(kPycoder, "--sample logits --tp 2");
  EXPECT_EQ(Say("--seed 5" + drawn), first) << "on two devices";
  Compile(kPycoder, "");
  const Outcome refused = Run("--seed 5" + drawn);
  EXPECT_EQ(refused.status, 1);
  EXPECT_PRINTS(refused, "the plan draws no tokens; compile it with --sample logits");
}

TEST_F(Generate, TextsEndBeforeWhatStopsThem) {
  const std::string want = Greedy(), prompt = Text("p", want.substr(0, 32));
  Compile(kPycoder, "--sample logits");
  const std::string go = "--prompt-file " + prompt + " --max-tokens 100 ";
  for (const char* stop : {"called", "ring.", "string rep", "e", "self.c"}) {
    const size_t at = want.find(stop, 32);
    const std::string left = want.substr(32, std::min<size_t>(at - 32, 100));
    const std::string options = go + " --stop-text \"" + stop + "\" --stop-text \"never this\"";
    EXPECT_EQ(Say(options + " --raw --no-echo"), left) << stop;
    const nlohmann::json said = Json(options);
    EXPECT_EQ(said["texts"][0]["text"], left);
    EXPECT_EQ(said["texts"][0]["ended_by"], at < 132 ? "stop" : "length");
  }
  // The beginning of a stop is written where nothing more comes.
  const std::string begun = " --stop-text \"" + want.substr(127, 4) + want.substr(131, 1) + "~\" --raw";
  EXPECT_EQ(Say(go + begun), want.substr(0, 132));
  const int token = static_cast<unsigned char>(want[60]);
  EXPECT_EQ(Say(go + "--raw --stop " + std::to_string(token)), want.substr(0, want.find(want[60], 32)));
  EXPECT_PRINTS(Run(go + "--stop-text \"\""), "--stop-text is empty");
}

TEST_F(Generate, PromptsAreLinesOrStandardInputAndComeSeveralTimes) {
  Compile(kPycoder, "--sample logits");
  const std::string drawn = " --temperature 0.8 --max-tokens 20 ",
                    lines = Text("lines", "def f\nclass\r\nimport");
  const auto tokens = [](const nlohmann::json& said) {
    std::vector<std::string> texts;
    for (const auto& text : said["texts"]) texts.push_back(text["text"]);
    return texts;
  };
  std::vector<std::string> alone;
  for (const char* prompt : {"def f\" --seed 7", "class\" --seed 8", "import\" --seed 9"})
    alone.push_back(tokens(Json(drawn + "--prompt \"" + prompt))[0]);
  EXPECT_EQ(tokens(Json(drawn + "--seed 7 --prompt-lines " + lines)), alone);
  EXPECT_EQ(tokens(Json(drawn + "--seed 7 --prompt-lines - <" + lines)), alone);
  alone.clear();
  for (const char* seed : {"7", "8", "9"})
    alone.push_back(tokens(Json(drawn + "--prompt x --seed " + seed))[0]);
  EXPECT_EQ(tokens(Json(drawn + "--seed 7 --prompt-file - --count 3 <" + Text("x", "x"))), alone);
  EXPECT_PRINTS(Run("--prompt-lines " + Text("none", "")), "has no line");
  EXPECT_PRINTS(Run("--prompt-lines " + Text("gap", "a\n\nb")), "line 2 is empty");
}

TEST_F(Generate, SessionsThatBeginWithAPrefixSayWhatWholePromptsDo) {
  const std::string want = Greedy(), prefix = Text("prefix", want.substr(0, 70));
  Compile(kPycoder, "--sample logits");
  const std::string drawn = " --temperature 0.8 --max-tokens 30 --seed 4 --prompt class --prompt \"  # x\"";
  const nlohmann::json shared = Json("--prefix-file " + prefix + drawn);
  ASSERT_EQ(shared["texts"].size(), 2u) << shared;
  for (size_t i = 0; i < 2; ++i) {
    const std::string whole = Text("whole", want.substr(0, 70) + (i == 0 ? "class" : "  # x"));
    const nlohmann::json alone =
        Json("--prompt-file " + whole + " --temperature 0.8 --max-tokens 30 --seed " + std::to_string(4 + i));
    EXPECT_EQ(shared["texts"][i]["tokens"], alone["texts"][0]["tokens"]) << i;
  }
  EXPECT_NE(shared["texts"][0]["tokens"], shared["texts"][1]["tokens"]);
  EXPECT_EQ(shared["prefix"]["tokens"], 70);
  // Of two caches of 12 rows of 256 positions of 128 bytes, the prefix's; and what is drawn with.
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(shared["sessions"][i]["copied_bytes"], 2 * 12 * 70 * 128 + 8 + 12 + 16);
  EXPECT_PRINTS(Run("--prefix-file " + prefix + drawn), "prefix of 70 tokens");
}

TEST_F(Generate, ATextEndsAtAStopToken) {
  const std::string want = Greedy(), prompt = Text("p", want.substr(0, 32));
  Compile(kPycoder, "");
  const size_t end = want.find('\n', 32);
  ASSERT_NE(end, want.npos);
  EXPECT_EQ(Say("--prompt-file " + prompt + " --max-tokens 120 --raw --stop 10 --stop 255"),
            want.substr(0, end));
  EXPECT_PRINTS(Run("--prompt x --stop 10 --stop 256"), "--stop 256 is not one of the model's 256 tokens");
}

TEST_F(Generate, TokensGoInAndComeOutAsNumbers) {
  const std::string want = Greedy();
  Compile(kPycoder, "");
  std::string ids;
  for (char c : want.substr(0, 32)) ids += std::to_string(static_cast<unsigned char>(c)) + "\n";
  std::istringstream said(Say("--ids --prompt-file " + Text("p", ids) + " --max-tokens 120"));
  std::string text;
  for (int token; said >> token;) text += static_cast<char>(token);
  EXPECT_EQ(want.substr(0, 32) + text, want);
  EXPECT_PRINTS(Run("--ids --prompt '1 x'"), "--prompt: \"x\" is no number of a token");
  EXPECT_PRINTS(Run("--ids --prompt '1 256'"), "--prompt: token 256 is not one of the model's 256");
  EXPECT_PRINTS(Run("--ids --prompt ' '"), "--prompt is empty");
}

// A decoder as ONNX Runtime's builder writes them: its plan has one prefill of 4 tokens and one of 16.
TEST_F(Generate, TextsOfABatchGoOnTogether) {
  const std::string model = kData + "open_shapes/builder_decode/model.onnx";
  const auto compile = [&](int batch) {
    Compile(" a=" + model + " b=" + model + " c=" + model,
            " --cache-length 48 --sample logits --shape batch_size=" + std::to_string(batch) +
                " --shape a:sequence_length=16 --shape b:sequence_length=4 --shape c:sequence_length=1");
  };
  const std::string prompts[] = {"3 1 4 1 5 9 2 6", "2 7 1 8 2 8 1 8", "1 4 1 4 2 1 3 5"};
  for (const char* drawn : {"", " --temperature 1.2 --top-p 0.9 "}) {
    compile(3);
    std::string all;
    for (const std::string& prompt : prompts) all += " --prompt \"" + prompt + "\"";
    const nlohmann::json together = Json("--ids --max-tokens 30 --seed 9" + std::string(drawn) + all);
    ASSERT_EQ(together["texts"].size(), 3u) << together;
    EXPECT_EQ(Json("--ids --max-tokens 3 --prompt 7")["texts"].size(), 3u) << "one prompt is that of all";
    EXPECT_EQ(Json("--ids --prompt 7 --max-tokens 48")["texts"][0]["tokens"].size(), 48u)
        << "the last is not read";
    EXPECT_EQ(Json("--ids --prompt 7")["texts"][0]["tokens"].size(), 48u);
    EXPECT_PRINTS(Run("--ids --prompt 7 --max-tokens 49"),
                  "the prompt's 1 tokens and 48 that are read after it exceed the model's context of 48");
    EXPECT_PRINTS(Run("--prompt 7"), "--prompt: token 55 is not one of the model's 50");
    EXPECT_PRINTS(Run("--ids --prompt 7 --context 49"),
                  "--context 49: the mask of the plan has 48 positions");
    EXPECT_EQ(Json("--ids --max-tokens 30 --context 40 --seed 9" + std::string(drawn) + all)["texts"],
              together["texts"]);
    compile(1);
    for (int i = 0; i < 3; ++i) {
      const nlohmann::json alone = Json("--ids --max-tokens 30 --seed " + std::to_string(9 + i) + drawn +
                                        " --prompt \"" + prompts[i] + "\"");
      EXPECT_EQ(together["texts"][static_cast<size_t>(i)]["tokens"], alone["texts"][0]["tokens"])
          << i << drawn;
    }
  }
}

// Texts of one batch with prompts of any lengths, and stops of their own: each is what it is alone, on one
// device and on several.
TEST_F(Generate, TextsOfABatchMayHavePromptsOfDifferentLengths) {
  const std::string model = kData + "open_shapes/builder_decode/model.onnx";
  const auto compile = [&](int batch, const std::string& more = "") {
    Compile(" b=" + model + " c=" + model,
            " --cache-length 48 --sample logits --shape batch_size=" + std::to_string(batch) +
                " --shape b:sequence_length=4 --shape c:sequence_length=1 " + more);
  };
  const std::string prompts[] = {"3 1 4 1 5 9 2 6 5 3 5", "7", "1 4 1 4 2 1", "2 7 1 8 2 8", "9 9 9"};
  const std::string prefix = Text("prefix", "4 4 2 1 0");
  for (const std::string& said : {std::string("--ids --stop 3 "), "--ids --stop 3 --prefix-file " + prefix}) {
    for (const char* drawn : {" ", " --temperature 1.2 --top-p 0.9 "}) {
      compile(3);
      std::string all;
      for (const std::string& prompt : prompts) all += " --prompt \"" + prompt + "\"";
      const nlohmann::json together = Json(said + " --max-tokens 30 --seed 9" + drawn + all);
      ASSERT_EQ(together["texts"].size(), 5u) << "two sessions, one of them not full: " << together;
      for (const char* shared : {"--tp 2", "--pp 2"}) {
        compile(3, shared);
        EXPECT_EQ(Json(said + " --max-tokens 30 --seed 9" + drawn + all)["texts"], together["texts"])
            << shared;
      }
      compile(1);
      for (size_t i = 0; i < 5; ++i) {
        const nlohmann::json alone = Json(said + " --max-tokens 30 --seed " + std::to_string(9 + i) + drawn +
                                          " --prompt \"" + prompts[i] + "\"");
        EXPECT_EQ(together["texts"][i]["tokens"], alone["texts"][0]["tokens"]) << i << drawn;
        EXPECT_EQ(together["texts"][i]["prompt"], alone["texts"][0]["prompt"]);
      }
    }
  }
  // As many tokens as fit behind each prompt.
  compile(3);
  const nlohmann::json filled = Json("--ids --prompt \"1 2 3 4 5 6 7 8\" --prompt 5");
  EXPECT_EQ(filled["texts"][0]["tokens"].size(), 41u);
  EXPECT_EQ(filled["texts"][1]["tokens"].size(), 48u);
  EXPECT_PRINTS(Run("--ids --prompt \"1 2 3 4 5 6 7 8\" --prompt 5"),
                "prompts of 1 to 8 tokens: the first token");
}

// A model that counts the tokens it has read, in a state of which no part is a position's, though it may have
// `rows`, and says their number.
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

// A token behind another is the greater by the number of its adapter; a mask says how far a text is.
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

// An encoder gives its tokens as floats; the decoder says twice their sum and the number of its own
// positions. The first step doubles them, into caches that the others read.
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
  // The caches are states: nobody gives them, nothing of them comes back.
  const Outcome seen = Shell(kRondo + " inspect --wide " + Plan());
  EXPECT_PRINTS(seen, "state \"past_key_values.0.encoder.key\"");
}

// As onnxruntime-genai's builder writes Whisper: the encoder gives keys and values, and one decoder reads
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

// As Optimum's decoder_model.onnx and decoder_with_past_model.onnx of a decoder that computes keys of the
// encoder's output anew in each step: no cache is the encoder's.
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
    // Attention of no scores: the mean of all rows. Times their number, it is their sum.
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
  // 4, and 4 + 7; their mean 7.5 and 7, ...
  const std::string go = "--ids --context 16 --max-tokens 4 ";
  EXPECT_EQ(Say(go + "--prompt 4"), "11 14 17 18 \n");
}

// Says the sum of all tokens, which a cache of 8 positions holds; one that begins has read its own alone.
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

// Says how many positions each query sees, by a mask [1, 1, length, 8], of numbers that are added where it is
// of floats.
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

// Whose caches grow: each token counts twice in texts of more than 4, and the model says the sum. Prompts
// that are read in chunks are as long in each of them as they are at once.
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
    // The mean of what positions count, by queries of 0, times the number of positions.
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

// As merged decoders have it that pass on what they were given: both programs have both ports.
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

// As a model whose angles depend on how long the text is: it says how many positions its mask has.
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
    std::vector<float> numbers;  // of every row
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

// Though it has positions, as the branch without a past of a merged decoder.
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
  // As many rows as there are to be positions.
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
      if (*how != 0 && std::string(options).find("sample") == std::string::npos) continue;
      const Outcome said = Run("--ids --prompt \"3 4\" --max-tokens 3 --input adapter=" + Adapter() + how);
      EXPECT_EQ(said.status, 1) << options << how;
      EXPECT_PRINTS(said, "program \"a\": the logit of token 0, behind the 2 tokens of text 1");
      EXPECT_PRINTS(said, "is no number (NaN)");
    }
  }
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
