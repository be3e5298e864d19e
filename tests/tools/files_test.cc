// Files of the rondo command: an input that is no regular file is an error, outputs replace only files of
// their own kind, and a full disk leaves nothing behind.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/folders.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

const std::string kCase = SourceFolder() + "/tests/data/fixtures/resnet";
const std::string kModel = SourceFolder() + "/tests/data/pycoder/decode.onnx";

class FilesTest : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }
  // Has a time limit, because no command here may block.
  static Outcome Rondo(const std::string& arguments) {
    return Shell("timeout 60 " + std::string(RONDO_COMMAND) + " " + arguments);
  }
  std::string Plan() const {
    const Outcome made = Rondo("compile " + kModel + " -o " + In("plan.rondo"));
    EXPECT_EQ(made.status, 0) << made.text;
    return In("plan.rondo");
  }
  std::string Fifo(const std::string& name) const {
    EXPECT_EQ(mkfifo(In(name).c_str(), 0600), 0);
    return In(name);
  }
  static std::string BytesOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(In(name)) << text; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(FilesTest, InputsThatAreNoRegularFilesAreSentences) {
  const std::string plan = Plan(), fifo = Fifo("fifo"), npy = Fifo("x.npy"), pb = Fifo("x.pb");
  const std::string kCommands[] = {
      "compile " + fifo + " -o " + In("p"),
      "compile " + kModel + " -o " + In("p") + " --ops " + fifo,
      "compile " + kModel + " -o " + In("p") + " --target cuda:sm_90a --profile " + fifo,
      "inspect " + fifo,
      "check " + fifo,
      "check " + plan + " --ops " + fifo,
      "run " + plan + " --input tokens=" + npy,
      "run " + plan + " --input tokens=" + pb,
      "run " + plan + " --ops " + fifo,
      "bench " + plan + " --ops " + fifo,
      "pack " + fifo,
      "pack " + folder_.string(),
      "pack /dev/zero",
      "inspect /dev/zero",
  };
  for (const std::string& command : kCommands) {
    const Outcome outcome = Rondo(command);
    EXPECT_EQ(outcome.status, 1) << command << ": " << outcome.text;
    EXPECT_PRINTS(outcome, "not a regular file") << command;
  }
}

TEST_F(FilesTest, OutputsReplaceOnlyTheirKind) {
  const std::string plan = Plan();
  Write("buffers.csv", "id,lower,upper,size\na,0,1,4\n");
  fs::copy(kModel, In("model.onnx"));
  fs::copy(kModel, In("model.npy"));
  const std::string model = BytesOf(kModel);
  const std::string kWrites[] = {
      "inspect " + plan + " --html ",
      "compile " + kModel + " -o ",
      "bench " + plan + " --runs 1 --trace ",
      "run " + plan + " --trace ",
      "pack " + In("buffers.csv") + " -o ",
      "tune " + plan + " -o ",
      "compile " + kModel + " --synthetic-weights 1 --write-synthetic ",
  };
  for (const std::string& write : kWrites) {
    const Outcome outcome = Rondo(write + In("model.onnx"));
    EXPECT_EQ(outcome.status, 1) << write << outcome.text;
    EXPECT_EQ(BytesOf(In("model.onnx")), model) << write;
    const Outcome over_csv = Rondo(write + In("buffers.csv"));
    EXPECT_EQ(over_csv.status, 1) << write << over_csv.text;
    EXPECT_EQ(BytesOf(In("buffers.csv")), "id,lower,upper,size\na,0,1,4\n") << write;
  }
  for (const std::string& write : {kWrites[0], kWrites[1], kWrites[2], kWrites[4]}) {
    const Outcome over_model = Rondo(write + In("model.onnx"));
    EXPECT_PRINTS(over_model, "it is not replaced") << write;
    const Outcome once = Rondo(write + In("out")), again = Rondo(write + In("out"));
    EXPECT_EQ(once.status, 0) << write << once.text;
    EXPECT_EQ(again.status, 0) << write << again.text;
    fs::remove(In("out"));
    const std::string fifo = Fifo("fifo");
    const Outcome into_fifo = Rondo(write + fifo);
    EXPECT_EQ(into_fifo.status, 1) << write;
    EXPECT_PRINTS(into_fifo, "not a regular file, but a FIFO");
    EXPECT_TRUE(fs::is_fifo(fifo));
    fs::remove(fifo);
  }
}

TEST_F(FilesTest, TensorsReplaceOnlyTensors) {
  const Outcome made = Rondo("compile " + kCase + "/model.onnx -o " + In("plan"));
  ASSERT_EQ(made.status, 0) << made.text;
  const std::string run = "run " + In("plan") + " --input a_0=" + kCase +
                          "/test_data_set_0/input_0.pb --output " + In("out") + " --format ";
  for (const char* format : {"npy", "pb"}) {
    ASSERT_EQ(Rondo(run + format).status, 0);
    ASSERT_EQ(Rondo(run + format).status, 0) << "what it wrote itself is replaced";
    for (const auto& entry : fs::directory_iterator(In("out"))) {
      std::ofstream(entry.path()) << "somebody's notes";
      const Outcome refused = Rondo(run + format);
      EXPECT_EQ(refused.status, 1) << refused.text;
      EXPECT_PRINTS(refused, "it is not replaced");
      EXPECT_EQ(BytesOf(entry.path()), "somebody's notes");
    }
    fs::remove_all(In("out"));
  }
}

// A limit on the size of files simulates a full disk: writes fail part of the way.
TEST_F(FilesTest, AFullDiskLeavesNothing) {
  const std::string plan = Plan();
  std::string buffers = "id,lower,upper,size\n";
  for (int i = 0; i < 400; ++i) buffers += std::to_string(i) + ",0,1,4\n";
  Write("buffers.csv", buffers);
  const std::string kWrites[] = {
      "compile " + kModel + " -o " + In("new"),
      "compile " + kModel + " -o " + In("new") + " --weights-file new.weights",
      "inspect " + plan + " --html " + In("new"),
      "bench " + plan + " --runs 1 --trace " + In("new"),
      "pack " + In("buffers.csv") + " --rounds 1 -o " + In("new"),
  };
  const std::vector<std::string> before = Names();
  for (const std::string& write : kWrites) {
    const Outcome outcome =
        Shell("(ulimit -f 2; timeout 60 " + std::string(RONDO_COMMAND) + " " + write + ") 2>&1 | cat");
    EXPECT_PRINTS(outcome, "File too large") << write;
    EXPECT_EQ(Names(), before) << write;
  }
  // And an old file stays unchanged.
  const std::string old = BytesOf(plan);
  Shell("(ulimit -f 2; " + std::string(RONDO_COMMAND) + " compile " + kModel + " -o " + plan +
        ") 2>&1 | cat");
  EXPECT_EQ(BytesOf(plan), old);
}

}  // namespace
}  // namespace rondo
