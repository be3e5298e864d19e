// Behaviour common to all subcommands: --version, --json, lines that fit the terminal, the named driver,
// pointer files of Git LFS.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/folders.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Outcome Rondo(const std::string& arguments) { return Shell(std::string(RONDO_COMMAND) + " " + arguments); }

class Manners : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }

  // pycoder's decode step, for `target`.
  std::string Decode(const std::string& target = "host") const {
    const std::string plan = In("decode.rondo");
    const Outcome made = Rondo("compile " + kDecode + " --target " + target + " -o " + plan);
    EXPECT_EQ(made.status, 0) << made.text;
    return plan;
  }
  std::string Inputs() const {
    return " --input tokens=" + kPycoder +
           "/decode.test/test_data_set_0/input_0.pb --input positions=" + kPycoder +
           "/decode.test/test_data_set_0/input_1.pb";
  }

  static inline const std::string kPycoder = SourceFolder() + "/tests/data/pycoder";
  static inline const std::string kDecode = kPycoder + "/decode.onnx";
  TemporaryFolder folder_;
};

TEST_F(Manners, TheVersionNamesThePlanFormat) {
  const Outcome outcome = Rondo("--version");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_PRINTS(outcome, "rondo ");
  EXPECT_PRINTS(outcome, "plan format ");
}

TEST_F(Manners, JsonIsOneObjectOfEveryCommand) {
  const std::string plan = Decode();
  std::ofstream(In("buffers.csv")) << "id,lower,upper,size\na,0,2,4\nb,1,3,4\n";
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"compile " + kDecode + " -o " + In("again.rondo"), "kernels"},
      {"compile --list-passes", "passes"},
      {"inspect " + plan, "programs"},
      {"check " + plan, "proven"},
      {"check " + plan + " --kernels --driver host --kernel k0_map", "kernels"},
      {"run " + plan + Inputs() + " --output " + In("out"), "runs_on"},
      {"bench " + plan + " --runs 3", "programs"},
      {"test --model " + kDecode + " " + kPycoder + "/decode.test", "passed"},
      {"pack " + In("buffers.csv"), "lower_bound"}};
  for (const auto& [command, key] : commands) {
    const Outcome outcome = Rondo(command + " --json 2>/dev/null");
    EXPECT_EQ(outcome.status, 0) << command;
    const Json json = Json::parse(outcome.text, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << command << ":\n" << outcome.text;
    EXPECT_TRUE(json.contains(key)) << command << ":\n" << outcome.text;
  }
}

TEST_F(Manners, JsonOfACaseThatFailsSaysSoAndSoDoesTheStatus) {
  fs::copy(kPycoder + "/decode.test", In("case"), fs::copy_options::recursive);
  fs::copy_file(In("case") + "/test_data_set_0/input_1.pb", In("case") + "/test_data_set_0/input_0.pb",
                fs::copy_options::overwrite_existing);
  const Outcome outcome = Rondo("test --model " + kDecode + " " + In("case") + " --json 2>/dev/null");
  EXPECT_EQ(outcome.status, 1);
  const Json json = Json::parse(outcome.text, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.text;
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["cases"][0]["verdict"], "FAIL");
}

TEST_F(Manners, LinesFitATerminalUnlessWide) {
  const std::string plan = Decode();
  const std::string commands[] = {
      "inspect " + plan + " --steps --buffers", "bench " + plan + " --runs 3 --top 0", "check " + plan,
      "compile " + kDecode + " -v -o " + In("again.rondo"), "compile --list-passes"};
  bool cut = false;
  for (const std::string& command : commands) {
    const Outcome outcome = ShellOnTerminal(RONDO_COMMAND " " + command, 100);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    std::istringstream lines(outcome.text);
    for (std::string line; std::getline(lines, line);) {
      const std::string shown = line.substr(line.rfind('\r', line.size() - 2) + 1);  // progress is erased
      const auto characters =
          std::count_if(shown.begin(), shown.end(), [](char c) { return (c & 0xc0) != 0x80 && c != '\r'; });
      EXPECT_LE(characters, 100) << command << ": " << line;
      cut = cut || line.find("…") != std::string::npos;
    }
  }
  EXPECT_TRUE(cut);
  EXPECT_EQ(Rondo("inspect " + plan + " --steps --wide").text.find("…"), std::string::npos);
}

TEST_F(Manners, SentencesInAPipeStayWhole) {
  const std::string folder = In(std::string(120, 'l'));
  fs::create_directory(folder);
  const std::string plan = folder + "/decode.rondo";
  EXPECT_EQ(Rondo("compile " + kDecode + " -o " + plan).status, 0);
  EXPECT_PRINTS(Rondo("run --verify " + plan), plan + ": memory is used as the plan says on driver host");
}

TEST_F(Manners, WhatRunsIsNamed) {
  const std::string plan = Decode();
  EXPECT_PRINTS(Rondo("run " + plan + Inputs() + " --threads 1"), "on driver host, 1 thread, ");
  EXPECT_PRINTS(Rondo("bench " + plan + " --runs 3 --threads 2"), "on driver host, 2 threads, ");
  EXPECT_PRINTS(Rondo("test --model " + kDecode + " " + kPycoder + "/decode.test"), "on driver host, ");
}

TEST_F(Manners, TheHostHasNoDeviceTimeAndNoGpusFloor) {
  const std::string plan = Decode();
  const Outcome outcome = Rondo("bench " + plan + " --runs 3");
  EXPECT_EQ(outcome.text.find("device time"), std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.text.find("floor"), std::string::npos) << outcome.text;
  EXPECT_PRINTS(Rondo("bench " + plan + " --runs 3 --memory-gbps 20"), "floor: bytes at 20 GB/s");
}

TEST_F(Manners, APlanForGpusRunsOnTheHostOnlyWhenAskedFor) {
  const std::string plan = Decode("cuda:sm_90a");
  EXPECT_PRINTS(Rondo("run " + plan + Inputs() + " --driver host"), "on driver host, ");
  const Outcome outcome = Rondo("run " + plan + Inputs());
  EXPECT_EQ(outcome.text.find("on driver host"), std::string::npos) << outcome.text;
  if (outcome.status == 0) return;  // there is a GPU
  EXPECT_PRINTS(outcome, "--driver host runs it on the CPU");
}

TEST_F(Manners, AGitLfsPointerIsCalledThat) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid "
      "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
      "size 12345\n";
  for (const char* name : {"model.onnx", "plan.rondo", "x.npy"}) std::ofstream(In(name)) << pointer;
  for (const std::string& command :
       {"compile " + In("model.onnx") + " -o " + In("p.rondo"), "inspect " + In("plan.rondo"),
        "run " + Decode() + " --input tokens=" + In("x.npy")}) {
    const Outcome outcome = Rondo(command);
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_PRINTS(outcome, "Git LFS pointer");
  }
}

TEST_F(Manners, CollectivesThatAreNoneAreRefusedOnTheHostToo) {
  const std::string plan = Decode();
  const Outcome outcome = Rondo("bench " + plan + " --runs 1 --collectives fast");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_PRINTS(outcome, "--collectives: fast is none of nccl, small, fused, auto");
  EXPECT_EQ(Rondo("bench " + plan + " --runs 1 --collectives small").status, 0);
}

TEST_F(Manners, AFullDiskIsSaidOnce) {
  const std::string plan = Decode();
  for (const char* form : {"", " --raw", " --json"}) {
    const Outcome outcome = Shell("sh -c '" + std::string(RONDO_COMMAND) + " generate " + plan +
                                  " --prompt a --max-tokens 3" + form + " >/dev/full'");
    EXPECT_EQ(outcome.status, 1) << form;
    const std::string said = "standard output cannot be written";
    const size_t at = outcome.text.find("rondo generate: ");
    ASSERT_NE(at, std::string::npos) << outcome.text;
    EXPECT_EQ(outcome.text.substr(at), "rondo generate: " + said + "\n") << form;
  }
}

TEST_F(Manners, AShapeCanBeOneProgramsOnly) {
  const std::string models = "compile a=" + kDecode + " b=" + kDecode + " -o " + In("p.rondo");
  EXPECT_EQ(Rondo(models + " --shape a:tokens=1x1 --shape tokens=1x1").status, 0);
  const Outcome unknown = Rondo(models + " --shape b:tokenz=1x1");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_PRINTS(unknown, "program \"b\"");
  EXPECT_PRINTS(unknown, "shape \"tokenz\"");
  EXPECT_PRINTS(Rondo(models + " --shape b:tokens=1x2"), "program \"b\"");
}

TEST_F(Manners, WeightsAreReadOrMappedAsAsked) {
  const std::string plan = Decode();
  for (const char* how : {"", " --read-weights", " --map-weights"}) {
    EXPECT_EQ(Rondo("bench " + plan + " --runs 1" + how).status, 0) << how;
  }
  const Outcome both = Rondo("bench " + plan + " --read-weights --map-weights");
  EXPECT_EQ(both.status, 2);
  EXPECT_PRINTS(both, "--read-weights");
  EXPECT_PRINTS(both, "--map-weights");
}

}  // namespace
}  // namespace rondo
