// rondo generate: texts that a real language model continues.
#include "tests/tools/generated_text.h"

namespace rondo {
namespace {

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

// Random numbers need no weight and are computed where they are read, so they tie no layer to the last stage.
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
  EXPECT_EQ(Say("--seed 5" + drawn), first) << "on the host";
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
  // If the text ends with the beginning of a stop text, that beginning is written.
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
  // The prefix's part of two caches with 12 rows of 256 positions of 128 bytes, plus the sampling state.
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
  EXPECT_PRINTS(Run("--ids --prompt '1 x'"), "--prompt: \"x\" is not a token number");
  EXPECT_PRINTS(Run("--ids --prompt '1 256'"), "--prompt: token 256 is not one of the model's 256");
  EXPECT_PRINTS(Run("--ids --prompt ' '"), "--prompt is empty");
}

// A decoder of ONNX Runtime's builder, with one prefill of 4 tokens and one of 16 in its plan.
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

// Several sizes give a program for each size, and prompts are read in chunks of these sizes.
TEST_F(Generate, AListOfSizesIsAProgramForEach) {
  const std::string model = kData + "open_shapes/builder_decode/model.onnx";
  const std::string more = " --cache-length 48 --shape batch_size=1",
                    asked = "--ids --max-tokens 20 --prompt \"3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3 2 3 8\"";
  Compile(" a=" + model + " b=" + model + " c=" + model,
          more + " --shape a:sequence_length=16 --shape b:sequence_length=4 --shape c:sequence_length=1");
  const nlohmann::json apart = Json(asked);
  Compile(" " + model, more + " --shape sequence_length=1,4,16");
  EXPECT_EQ(Json(asked)["texts"], apart["texts"]);
}

// Texts in one batch have prompts of any lengths and their own stops. Each equals the text generated alone,
// on one device and on several.
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
  // As many tokens as fit after each prompt.
  compile(3);
  const nlohmann::json filled = Json("--ids --prompt \"1 2 3 4 5 6 7 8\" --prompt 5");
  EXPECT_EQ(filled["texts"][0]["tokens"].size(), 41u);
  EXPECT_EQ(filled["texts"][1]["tokens"].size(), 48u);
  EXPECT_PRINTS(Run("--ids --prompt \"1 2 3 4 5 6 7 8\" --prompt 5"),
                "prompts of 1 to 8 tokens: the first token");
}

}  // namespace
}  // namespace rondo
