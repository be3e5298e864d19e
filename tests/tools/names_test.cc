// Names with control sequences. Whatever the names in a model, a plan, a file or the environment, rondo's
// output for people has no control character, no mark that reverses text, and only valid UTF-8.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/printable.h"
#include "formats/tensor/tensor.h"
#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

// ESC, BEL, newline, CR, DEL, C1 (CSI), a right-to-left override and isolate, a line separator, invalid
// UTF-8.
const std::string kEvil =
    "\x1b]0;t\x07\n\r\x7f\xc2\x9b"
    "2J\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8\xff\xc3(";

std::string Evil(const std::string& name) { return name + kEvil + name; }
std::string WithNul(const std::string& name) { return Evil(name) + std::string(1, '\0') + "z"; }

// Quotes a text for a shell.
std::string Quoted(const std::string& text) { return "'" + text + "'"; }

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void ExpectClean(const std::string& text, const std::string& what) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    ASSERT_TRUE(IsPrintable(line)) << what << ": " << Printable(line);
    at = end + 1;
  }
}

Outcome Rondo(const std::string& arguments) {
  Outcome outcome = Shell(std::string(RONDO_COMMAND) + " " + arguments);
  ExpectClean(outcome.text, Printable(arguments));
  return outcome;
}

class Names : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }

  // A model with two layers, a state, a convolution and a constant, whose names `name` makes.
  void WriteModel(std::string (*name)(const std::string&)) const {
    ModelMaker m;
    m.graph()->set_name(name("graph"));
    m.Input(name("x"), {4, 4});
    m.Input(name("past"), {4, 4});
    m.Floats(name("w"), {4, 4}, std::vector<float>(16, 0.5f));
    const auto node = [&](const char* op, const std::vector<std::string>& in, const std::string& out) {
      m.Node(op, in, {name(out)})->set_name(name(op + out));
    };
    node("MatMul", {name("x"), name("w")}, "h");
    node("Softmax", {name("h")}, "s");
    node("Add", {name("past"), name("s")}, "present");
    node("MatMul", {name("present"), name("w")}, "y");
    m.Output(name("y"));
    m.Output(name("present"));
    std::ofstream(In("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  }
  std::string Compile(const std::string& more = "") const {
    return "compile " + Quoted(Evil("main") + "=" + In("m.onnx")) + " -o " + In("p") + " --state " +
           Quoted(Evil("past") + ":" + Evil("present")) + " " + more;
  }
  TemporaryFolder folder_;
};

TEST_F(Names, OfModelsArePrintableInEverythingThatIsPrintedAndWritten) {
  WriteModel(Evil);
  ASSERT_EQ(Rondo(Compile("-v")).status, 0);
  std::string dumps;
  const std::string passes = Shell(RONDO_COMMAND " compile --list-passes --wide").text;
  std::istringstream lines(passes.substr(0, passes.find("What holds")));
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("  ", 0) != 0 || line.rfind("  pass ", 0) == 0) continue;
    dumps += " --dump-after " + line.substr(2, line.find(' ', 2) - 2);
    ++count;
  }
  EXPECT_GT(count, 30u);
  const Outcome dumped = Rondo(Compile(dumps));
  EXPECT_EQ(dumped.status, 0) << Printable(dumped.text);
  EXPECT_PRINTS(dumped, "\\x1b]0;t\\x07");
  EXPECT_EQ(Rondo(Compile("--json" + dumps)).status, 0);
  ASSERT_EQ(Rondo(Compile()).status, 0);

  const std::string p = In("p");
  Tensor x{"x", DType::kF32, Shape{4, 4}, std::vector<uint8_t>(64)};
  ASSERT_TRUE(WriteTensor(x, In("x.npy")).ok());
  const std::string input = " --input " + Quoted(Evil("x") + "=" + In("x.npy"));
  const std::string commands[] = {
      "inspect --steps --buffers " + p,
      "inspect --json " + p,
      "inspect --html " + In("page.html") + " " + p,
      "run " + p + input + " --output " + In("out") + " --trace " + In("trace.json"),
      "run --json " + p + input,
      "run --verify " + p,
      "bench --runs 2 --top 0 " + p,
      "bench --json --runs 2 " + p,
      "check " + p,
      "check --json --write-expect " + In("expect.json") + " " + p,
      "check --expect " + In("expect.json") + " " + p,
      "check --kernels --driver host " + p,
      "profile --runs 3 -o " + In("profile.json") + " " + p,
      "inspect --profile " + In("profile.json") + " " + p,
  };
  for (const std::string& command : commands) {
    const Outcome outcome = Rondo(command);
    EXPECT_EQ(outcome.status, 0) << Printable(command) << Printable(outcome.text);
  }
  for (const char* file : {"page.html", "trace.json", "expect.json", "profile.json"})
    ExpectClean(Contents(In(file)), file);
  size_t outputs = 0;
  for (const auto& entry : fs::directory_iterator(In("out"))) {
    EXPECT_TRUE(IsPrintable(entry.path().filename().string())) << entry.path();
    ++outputs;
  }
  EXPECT_EQ(outputs, 2u);
}

TEST_F(Names, OfModelsArePrintableInErrors) {
  WriteModel(Evil);
  ASSERT_EQ(Rondo(Compile()).status, 0);
  const std::string p = In("p"), evil = Quoted(Evil("z"));
  std::ofstream(In("expect.json"))
      << R"({"rondo_expect": 1, "expect": [{"value": "\u001b]0;\u009b", "dies_after": "\u202e"}]})";
  std::ofstream(In("b.csv")) << "id,lower,upper,size\n"
                             << "a\x1b[2J\xc2\x9b,0,2,4\n";
  std::ofstream(In("bad.csv")) << "id,lower,upper,size\n"
                               << "a\x1b[2J\xc2\x9b,0,x,4\n";
  fs::create_directories(In(Evil("case")) + "/test_data_set_0");
  fs::copy_file(In("m.onnx"), In(Evil("case")) + "/model.onnx");
  const Tensor x{Evil("q"), DType::kF32, Shape{2}, std::vector<uint8_t>(8)};
  for (const char* name : {"input_0.pb", "output_0.pb"})
    ASSERT_TRUE(WriteTensor(x, In(Evil("case")) + "/test_data_set_0/" + name).ok());
  const std::string compile = Compile();
  const std::string commands[] = {
      "run " + p,  // an input is missing
      "run --json " + p,
      "run " + p + " --program " + evil,
      "run " + p + " --input " + Quoted(Evil("z") + "=" + In("none")),
      "check --expect " + In("expect.json") + " " + p,
      "generate " + p + " --prompt a",
      "generate " + p + " --prompt a --port " + Quoted("tokens=" + Evil("z")),
      "tune -o " + In("f") + " " + p,
      "test " + Quoted(In(Evil("case"))),
      "test --json " + Quoted(In(Evil("case"))),
      "test " + Quoted(In(Evil("none"))),
      "pack " + In("bad.csv"),
      "inspect " + Quoted(In(Evil("none"))),
      "inspect --json " + Quoted(In(Evil("none"))),
      compile + " --shape " + Quoted(Evil("z") + "=1"),
      compile + " --shape " + evil,
      compile + " --bind " + Quoted(Evil("z") + "=1"),
      compile + " --annotate " + Quoted(Evil("z") + ":fuse=off"),
      compile + " --dump-after " + evil,
      compile + " --skip-pass " + evil,
      compile + " --target " + evil,
      compile + " --precision " + evil,
      compile + " --ops " + evil,
      evil,
      evil + " --json",
      "run --" + evil,
      "run --json --" + evil,
      "run " + evil + " " + evil,
      "help " + evil,
      "completion " + evil,
  };
  for (const std::string& command : commands) EXPECT_NE(Rondo(command).status, 0) << Printable(command);
  EXPECT_EQ(Rondo("pack " + In("b.csv")).status, 0);
  for (const char* set : {"RANK=0 WORLD_SIZE=", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE="}) {
    const Outcome outcome = Shell(set + evil + " " RONDO_COMMAND " run " + p);
    ExpectClean(outcome.text, set);
    EXPECT_NE(outcome.status, 0);
  }
}

// C code decides where a name with NUL ends; the test only checks that it does no harm.
TEST_F(Names, MayHoldNul) {
  WriteModel(WithNul);
  Rondo("compile -v " + In("m.onnx") + " -o " + In("p") + " --dump-after import --dump-after fuse");
  for (const char* command :
       {"inspect --steps --buffers ", "inspect --json ", "check ", "run ", "bench --runs 1 "})
    Rondo(command + In("p"));
}

TEST_F(Names, AreShownOnATerminalWithoutWorkingIt) {
  WriteModel(Evil);
  ASSERT_EQ(Rondo(Compile()).status, 0);
  const std::string commands[] = {"inspect --steps --buffers " + In("p"), Compile("-v --dump-after import")};
  for (const std::string& command : commands) {
    const Outcome outcome = ShellOnTerminal(RONDO_COMMAND " " + command, 100);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.text.find("\x1b]"), std::string::npos);
    EXPECT_EQ(outcome.text.find("\xe2\x80\xae"), std::string::npos);
    EXPECT_EQ(outcome.text.find("\xc2\x9b"), std::string::npos);
    EXPECT_EQ(outcome.text.find('\x07'), std::string::npos);
  }
}

}  // namespace
}  // namespace rondo
