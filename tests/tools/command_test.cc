// The rondo command as users call it: exit statuses, sentences, files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "formats/tensor/tensor.h"
#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

const std::string kData = SourceFolder() + "/tests/data";

Outcome Rondo(const std::string& arguments) { return Shell(std::string(RONDO_COMMAND) + " " + arguments); }

class CommandTest : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }

  // Compiles pycoder's two programs into a plan in this test's folder.
  std::string Pycoder() const {
    const std::string plan = In("pycoder.rondo");
    const Outcome made = Rondo("compile prefill=" + kData + "/pycoder/prefill64.onnx decode=" + kData +
                               "/pycoder/decode.onnx -o " + plan);
    EXPECT_EQ(made.status, 0) << made.text;
    return plan;
  }

  TemporaryFolder folder_;
};

using Usage = CommandTest;

TEST_F(Usage, EveryCommandHasHelpWithExamples) {
  for (const char* name :
       {"compile", "inspect", "run", "bench", "check", "test", "pack", "tune", "profile"}) {
    const Outcome help = Rondo(std::string(name) + " --help");
    EXPECT_EQ(help.status, 0) << name;
    EXPECT_PRINTS(help, "Examples:");
    EXPECT_PRINTS(help, std::string("rondo ") + name);
    std::istringstream lines(help.text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  }
}

TEST_F(Usage, APlanForGpusAndTheHostRunsWhereNoGpuCan) {
  const std::string plan = In("both.rondo");
  const Outcome made = Rondo("compile " + kData + "/fixtures/resnet/model.onnx -o " + plan +
                             " --target cuda:sm_86,cuda:compute_80,host --no-kernel-cache");
  if (made.text.find("libnvrtc") != std::string::npos) GTEST_SKIP() << made.text;
  ASSERT_EQ(made.status, 0) << made.text;
  const Outcome inspected = Rondo("inspect --wide " + plan);
  EXPECT_PRINTS(inspected, "target cuda:sm_86,cuda:compute_80,host");
  EXPECT_PRINTS(
      inspected,
      "8.6 (A10, A40, RTX 30), 8.7 (Orin) and 8.9 (L4, L40, RTX 40); it has never run on such GPUs");
  EXPECT_PRINTS(inspected,
                "PTX for compute capability 8.0 and all later; it has run on compute capability 9.0 only");
  const Outcome checked = Rondo("check " + plan);
  EXPECT_EQ(checked.status, 0) << checked.text;
  EXPECT_PRINTS(checked, "binaries are what was compiled");
  const Outcome ran = Rondo("bench --runs 1 " + plan);
  EXPECT_EQ(ran.status, 0) << ran.text;
}

TEST_F(Usage, WrongUseIsExitStatus2) {
  for (const char* arguments : {"",
                                "nonsense",
                                "compile",
                                "compile x.onnx",
                                "compile x.onnx -o p --shape x",
                                "compile x.onnx -o p --state y",
                                "compile x.onnx -o p --donate y,,z",
                                "compile x.onnx -o p --sample :tokens",
                                "compile a.onnx b.onnx -o p",
                                "compile x.onnx -o p --synthetic-weights abc",
                                "compile x.onnx -o p --precision f64",
                                "compile x.onnx -o p --alternatives 3",
                                "compile x.onnx -o p --kernel-cache d --no-kernel-cache",
                                "tune p",
                                "profile p",
                                "profile p -o f --runs 2",
                                "profile p -o f --devices x",
                                "profile p -o f --alone --program x",
                                "tune -o f",
                                "compile x.onnx -o p --target cuda:sm_90a --alternatives 33",
                                "compile x.onnx -o p --target cuda:sm_90a --matmuls fast",
                                "compile x.onnx -o p --target cuda:sm_90a --matmuls library --deterministic",
                                "inspect",
                                "inspect a b",
                                "run p --threads many",
                                "run p --format txt",
                                "run p --input x",
                                "bench p --input =f.npy",
                                "bench p --runs 0",
                                "test c --rtol nan",
                                "test c --atol nan",
                                "test c --rtol inf",
                                "test c --atol -1e-5",
                                "bench p --memory-gbps nan",
                                "bench p --memory-gbps -1",
                                "check p --seed 5",
                                "check p --kernel k",
                                "check p --driver host",
                                "check p --kernels --driver host --seed 99999999999999999999",
                                "generate p --prompt a --max-tokens 0x10",
                                "pack f --capacity 1.5",
                                "pack f --capacity 99999999999999999999",
                                "check p --frobnicate"}) {
    EXPECT_EQ(Rondo(arguments).status, 2) << arguments;
  }
}

TEST_F(Usage, NumbersAreDecimalWithZerosBeforeThemToo) {
  std::ofstream(In("buffers.csv")) << "id,lower,upper,size\na,0,2,9\n";
  EXPECT_EQ(Rondo("pack " + In("buffers.csv") + " --capacity 010").status, 0);
  EXPECT_EQ(Rondo("pack " + In("buffers.csv") + " --capacity 08").status, 1);  // 9 bytes do not fit
}

TEST_F(Usage, FilesThatAreNotThereAreExitStatus1AndNamed) {
  for (const char* arguments :
       {"inspect nowhere.rondo", "check nowhere.rondo", "run nowhere.rondo", "bench nowhere.rondo",
        "compile nowhere.onnx -o p.rondo", "pack nowhere.csv"}) {
    const Outcome outcome = Rondo(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_PRINTS(outcome, "nowhere");
  }
}

TEST_F(Usage, OutputThatCannotBeWrittenIsExitStatus1) {
  std::ofstream(In("buffers.csv")) << "id,lower,upper,size\na,0,2,4\n";
  const Outcome outcome =
      Shell(std::string("(") + RONDO_COMMAND + " pack " + In("buffers.csv") + " > /dev/full)");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_PRINTS(outcome, "standard output");
}

using Plans = CommandTest;

TEST_F(Plans, PycoderCompilesIsProvenAndCanBeInspected) {
  const std::string plan = Pycoder();
  const Outcome check = Rondo("check " + plan);
  EXPECT_EQ(check.status, 0) << check.text;
  EXPECT_PRINTS(check, "verified and proven");
  EXPECT_PRINTS(check, "lower bound");

  const Outcome text = Rondo("inspect " + plan + " --steps --buffers");
  EXPECT_EQ(text.status, 0) << text.text;
  for (const char* words : {"Requirements", "Program decode", "Program prefill", "lower bound", "k_cache_out",
                            "Kernels", "source nodes", "program end", "state"}) {
    EXPECT_PRINTS(text, words);
  }
  const Outcome json = Rondo("inspect " + plan + " --json --html " + In("plan.html"));
  EXPECT_EQ(json.status, 0);
  EXPECT_EQ(json.text[0], '{');
  EXPECT_PRINTS(json, "\"arena_lower_bound\"");
  std::ifstream page(In("plan.html"));
  const std::string html((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  EXPECT_NE(html.find("id=\"plan\""), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "the page needs no other file";
}

TEST_F(Plans, NothingButAPlanIsReplacedByAPlan) {
  const std::string model = In("model.onnx");
  fs::copy_file(kData + "/pycoder/decode.onnx", model);
  fs::copy_file(kData + "/pycoder/pycoder.weights", In("pycoder.weights"));
  ASSERT_EQ(mkfifo(In("fifo").c_str(), 0600), 0);
  for (const std::string& output : {model, In("pycoder.weights"), In(""), In("fifo")}) {
    const auto before = fs::status(output).type();
    const Outcome outcome = Rondo("compile " + model + " -o " + output);
    EXPECT_EQ(outcome.status, 1) << output << "\n" << outcome.text;
    EXPECT_PRINTS(outcome, "it is not replaced");
    EXPECT_EQ(fs::status(output).type(), before) << output;
  }
  EXPECT_EQ(Shell("cmp " + model + " " + kData + "/pycoder/decode.onnx").status, 0);
  EXPECT_EQ(Rondo("compile " + model + " -o " + In("p") + " --weights-file p").status, 1);
  EXPECT_EQ(Rondo("compile " + model + " -o " + In("p")).status, 0);
  EXPECT_EQ(Rondo("compile " + model + " -o " + In("p")).status, 0) << "a plan is replaced by a plan";
}

TEST_F(Plans, CompilingTwiceGivesTheSameBytes) {
  const std::string first = Pycoder();
  fs::rename(first, In("first.rondo"));
  const std::string second = Pycoder();
  EXPECT_EQ(Shell("cmp " + In("first.rondo") + " " + second).status, 0);
}

TEST_F(Plans, RunWritesEveryOutputAndStateCanBeGiven) {
  const std::string plan = Pycoder();
  const std::string set = kData + "/pycoder/decode.test/test_data_set_0";
  const Outcome run = Rondo("run " + plan + " --program decode --input tokens=" + set +
                            "/input_0.pb --input positions=" + set + "/input_1.pb --input k_cache=" + set +
                            "/input_2.pb --input v_cache=" + set + "/input_3.pb --output " + In("out"));
  ASSERT_EQ(run.status, 0) << run.text;
  const char* names[] = {"logits", "k_cache_out", "v_cache_out"};
  for (int i = 0; i < 3; ++i) {
    Result<Tensor> got = ReadTensor(In("out") + "/" + names[i] + ".npy");
    Result<Tensor> want = ReadTensor(set + "/output_" + std::to_string(i) + ".pb");
    ASSERT_TRUE(got.ok() && want.ok());
    Result<Comparison> result = Compare(*got, *want, 1e-3, 1e-5);
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->mismatches, 0) << names[i];
  }
}

TEST_F(Plans, OutputsOfAnyNameAreFilesOfTheirOwnInsideTheFolder) {
  ModelMaker m;
  m.Input("x", {2});
  const std::string names[] = {
      "a/b", "a_b", "../up", "/abs", "..", std::string(5000, 'n'), std::string(4999, 'n')};
  for (const std::string& name : names) {
    m.Node("Relu", {"x"}, {name})->set_name("relu");
    m.Output(name);
  }
  std::ofstream(In("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  Tensor x{"x", DType::kF32, Shape{2}, std::vector<uint8_t>(8)};
  ASSERT_TRUE(WriteTensor(x, In("x.npy")).ok());
  ASSERT_EQ(Rondo("compile " + In("m.onnx") + " -o " + In("m.rondo")).status, 0);
  const auto entries = [](const std::string& folder) {
    return std::distance(fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator());
  };
  const auto before = entries(In(""));
  const Outcome run = Rondo("run " + In("m.rondo") + " --input x=" + In("x.npy") + " --output " + In("out"));
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_EQ(entries(In("out")), 7);
  EXPECT_EQ(entries(In("")), before + 1 + 7) << "nothing outside";
}

TEST_F(Plans, WrongInputsAreOneSentenceAndExitStatus1) {
  const std::string plan = Pycoder();
  const std::string set = kData + "/pycoder/decode.test/test_data_set_0";
  const std::string tokens = " --input tokens=" + set + "/input_0.pb",
                    positions = " --input positions=" + set + "/input_1.pb";
  struct Case {
    std::string arguments;
    const char* says;
  };
  const Case cases[] = {
      {"run " + plan + tokens + positions, "decode"},                        // the program is ambiguous
      {"run " + plan + " --program encode" + tokens + positions, "encode"},  // no such program
      {"run " + plan + " --program decode" + tokens, "positions"},           // an input is missing
      {"run " + plan + " --program decode --input nothing=" + set + "/input_0.pb", "nothing"},  // unknown
      {"run " + plan + " --program decode" + positions + " --input tokens=" + set + "/input_1.pb",
       "tokens"},  // shape
      {"run " + plan + " --program decode" + positions + " --input tokens=" + set + "/input_2.pb",
       "tokens"},  // dtype
      {"run " + plan + " --program decode --driver cuda" + tokens + positions, "cuda"},
  };
  for (const Case& c : cases) {
    const Outcome outcome = Rondo(c.arguments);
    EXPECT_EQ(outcome.status, 1) << c.arguments << "\n" << outcome.text;
    EXPECT_PRINTS(outcome, c.says);
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
  }
}

TEST_F(Plans, BenchNamesTheSlowestStepsAndTheirNodes) {
  const Outcome bench = Rondo("bench " + Pycoder() + " --program decode --runs 5 --threads 1");
  EXPECT_EQ(bench.status, 0) << bench.text;
  EXPECT_PRINTS(bench, "median");
  EXPECT_PRINTS(bench, "source nodes");
}

TEST_F(Plans, InstructionsOfTheHostAreThoseThatAreAskedFor) {
  const std::string plan = Pycoder();
  const Outcome plain = Rondo("bench " + plan + " --program decode --runs 1 --instructions baseline");
  EXPECT_EQ(plain.status, 0) << plain.text;
  EXPECT_PRINTS(plain, ", baseline; ready in");
  const Outcome other = Rondo("bench " + plan + " --program decode --runs 1 --instructions sse");
  EXPECT_EQ(other.status, 2);
  EXPECT_PRINTS(other, "--instructions: sse is none of avx512, avx2, baseline");
}

TEST_F(Plans, ATraceHasALaneOfPartitionsAndOneOfStepsNamedByTheirNodes) {
  const Outcome bench = Rondo("bench " + Pycoder() + " --program decode --runs 5 --trace " + In("t.json"));
  EXPECT_EQ(bench.status, 0) << bench.text;
  std::ifstream file(In("t.json"));
  const nlohmann::json trace = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(trace.is_object());
  std::set<std::string> lanes;
  size_t partitions = 0, steps = 0;
  std::map<std::string, double> ends;  // by lane
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") lanes.insert(event["args"]["name"].get<std::string>());
    if (event["ph"] != "X") continue;
    (event["cat"] == "step" ? steps : partitions) += 1;
    double& end = ends[event["cat"].get<std::string>()];
    EXPECT_GE(event["ts"].get<double>(), end - 1e-3);
    end = event["ts"].get<double>() + event["dur"].get<double>();
    if (event["cat"] != "step") continue;
    EXPECT_NE(event["name"].get<std::string>().find("node_"), std::string::npos);
  }
  EXPECT_EQ(lanes, (std::set<std::string>{"graph replay", "stream 0"}));
  EXPECT_EQ(partitions, 2u);  // one for each replay: as a graph, and with timed steps
  EXPECT_GT(steps, 10u);
}

TEST_F(Plans, ADamagedPlanIsRefusedAndNeverCrashes) {
  const std::string plan = Pycoder();
  std::fstream file(plan, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(700);
  file.write("\xff\xff\xff\xff", 4);
  file.close();
  const Outcome refused = Rondo("check " + plan);
  EXPECT_EQ(refused.status, 1) << refused.text;
  const Outcome past = Rondo("check --ignore-hashes " + plan);
  EXPECT_TRUE(past.status == 0 || past.status == 1) << past.text;
}

using Verifying = CommandTest;

// Models with all-reduces in place; each opening starts and ends many threads.
TEST_F(Verifying, ASharedModelHasNoFindings) {
  for (const char* devices : {"2", "4"}) {
    const std::string model = kData + "/fixtures/llama_decode_op23/model.onnx --tp " + devices;
    ASSERT_EQ(Rondo("compile " + model + " -o " + In("p")).status, 0);
    const Outcome outcome = Rondo("run --verify " + In("p"));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_PRINTS(outcome, "memory is used as the plan says on driver host");
  }
}

using Tuning = CommandTest;

TEST_F(Tuning, APlanWithoutAlternativesIsToldHowToGetThem) {
  const Outcome outcome = Rondo("tune " + Pycoder() + " -o " + In("f.json"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_PRINTS(outcome, "holds no machine code: compile it with --target cuda:sm_90a --alternatives");
  EXPECT_FALSE(fs::exists(In("f.json")));
}

TEST_F(Tuning, AProfileThatIsNoneIsRefusedBeforeAnythingIsCompiled) {
  std::ofstream(In("f.json")) << "{\"rondo_profile\": 9}";
  const std::string rest = " -o " + In("p") + " --target cuda:sm_90a --profile ";
  const Outcome outcome = Rondo("compile " + kData + "/pycoder/decode.onnx" + rest + In("f.json"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_PRINTS(outcome, "its version is 9, and this build reads 1");
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  const struct {
    std::string text;
    const char* says;
  } kDeep[] = {{std::string(200000, '['), "it is not a JSON object"},
               {deep, "it is not a JSON object"},
               {"{\"rondo_profile\": " + deep + "}", "it is no profile of rondo tune"},
               {"{\"rondo_profile\": 1, \"gpu\": " + deep + "}", "\"gpu\" is not a text"},
               {"{\"rondo_profile\": 1, \"gpu\": \"\", \"architecture\": \"\", \"driver\": 1, \"kernels\": " +
                    deep + "}",
                "kernel 0: it is not an object"}};
  for (const auto& file : kDeep) {
    std::ofstream(In("deep.json")) << file.text;
    const Outcome nested = Rondo("compile " + kData + "/pycoder/decode.onnx" + rest + In("deep.json"));
    EXPECT_EQ(nested.status, 1) << file.says;
    EXPECT_PRINTS(nested, file.says);
  }
  const Outcome missing = Rondo("compile " + kData + "/pycoder/decode.onnx" + rest + In("nowhere.json"));
  EXPECT_EQ(missing.status, 1);
  EXPECT_PRINTS(missing, "nowhere.json");
  EXPECT_FALSE(fs::exists(In("p")));
  EXPECT_EQ(Rondo("tune x -o " + In("f.json") + " --merge").status, 1);
}

using Profiling = CommandTest;

// Times are measured on virtual devices, used by the compiler, and shown.
TEST_F(Profiling, TimesGoFromARunIntoTheNextPlan) {
  const std::string model = "compile " + kData + "/pycoder/decode.onnx --tp 2 -o ";
  ASSERT_EQ(Rondo(model + In("a")).status, 0);
  EXPECT_PRINTS(Rondo("inspect " + In("a")), "by the table of one core");
  const Outcome measured = Rondo("profile " + In("a") + " -o " + In("f.json") + " --runs 5");
  ASSERT_EQ(measured.status, 0) << measured.text;
  EXPECT_PRINTS(measured, "estimates of the plan are by the table of one core");
  EXPECT_PRINTS(measured, "with the profile");
  EXPECT_PRINTS(measured, "2 kinds of collectives on host, host");
  const std::string with = " --profile " + In("f.json");
  const Outcome compiled = Rondo(model + In("b") + with);
  ASSERT_EQ(compiled.status, 0) << compiled.text;
  EXPECT_PRINTS(compiled, "estimates are by profile");
  ASSERT_EQ(Rondo(model + In("c") + with).status, 0);
  EXPECT_EQ(Shell("cmp " + In("b") + " " + In("c")).status, 0);
  const auto report = nlohmann::json::parse(Rondo("inspect --json " + In("b")).text);
  ASSERT_EQ(report["programs"].size(), 1u);
  for (const auto& estimate : report["programs"][0]["estimates"])
    EXPECT_EQ(estimate["from"], "profile") << estimate.dump();
  const Outcome shown = Rondo("inspect --wide " + In("b") + with);
  std::smatch kernels;
  ASSERT_TRUE(std::regex_search(shown.text, kernels,
                                std::regex("(\\d+) of (\\d+) kernels and 14 of 14 collectives as measured")))
      << shown.text;
  EXPECT_EQ(kernels[1], kernels[2]);
  EXPECT_PRINTS(shown, "it takes");
  EXPECT_PRINTS(Rondo("bench --runs 3 --wide " + In("b")), "by estimate");
  // With --alone kernels are measured too, but not collectives.
  const Outcome alone = Rondo("profile " + In("a") + " -o " + In("g.json") + " --alone --runs 3");
  EXPECT_EQ(alone.status, 0) << alone.text;
  EXPECT_PRINTS(alone, " kernels and 0 kinds of collectives");
  EXPECT_PRINTS(
      Rondo("compile " + kData + "/pycoder/decode.onnx --tp 2 -o " + In("d") + " --profile " + In("g.json")),
      " kernels and 0 of 14 collectives as measured");
  // The times of the next measurement replace these.
  EXPECT_EQ(Rondo("profile " + In("b") + " -o " + In("f.json") + " --merge --runs 3").status, 0);
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(In("f.json")))["runs"].size(), 2u);
}

TEST_F(Profiling, OfAnotherMachineIsRefused) {
  const std::string model = kData + "/pycoder/decode.onnx";
  ASSERT_EQ(Rondo("compile " + model + " -o " + In("a")).status, 0);
  std::ofstream(In("f.json")) << R"({"rondo_profile": 1, "gpu": "NVIDIA A100", "architecture": "sm_80",
    "driver": 13000, "kernels": [], "times": [{"key": "0000000000000007", "kernel": "k0_map", "source": "Add",
    "launches": 1, "microseconds": 2.5}]})";
  const Outcome compiled = Rondo("compile " + model + " -o " + In("p") + " --profile " + In("f.json"));
  EXPECT_EQ(compiled.status, 1);
  EXPECT_PRINTS(compiled, "has times of NVIDIA A100, sm_80, but the plan is for host");
  EXPECT_FALSE(fs::exists(In("p")));
  const Outcome merged = Rondo("profile " + In("a") + " -o " + In("f.json") + " --merge --runs 3");
  EXPECT_EQ(merged.status, 1);
  EXPECT_PRINTS(merged, "is of NVIDIA A100, sm_80, but this is host, host");
  std::ofstream(In("g.json")) << R"({"rondo_profile": 1, "gpu": "host", "architecture": "host", "driver": 0,
    "kernels": []})";
  const Outcome shown = Rondo("inspect " + In("a") + " --profile " + In("g.json"));
  EXPECT_EQ(shown.status, 1);
  EXPECT_PRINTS(shown, "has no times");
}

using Packing = CommandTest;

TEST_F(Packing, OffsetsAreWrittenAndTheCapacityIsKept) {
  std::ofstream(In("buffers.csv")) << "id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,3,5,8\n";
  const Outcome fits = Rondo("pack " + In("buffers.csv") + " --capacity 8");
  EXPECT_EQ(fits.status, 0) << fits.text;
  EXPECT_PRINTS(fits, "offset");
  EXPECT_EQ(Rondo("pack " + In("buffers.csv") + " --capacity 7").status, 1);
}

TEST_F(Packing, ACapacityThatIsTooSmallIsToldFromASearchThatGaveUp) {
  std::ofstream(In("buffers.csv")) << "id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,3,5,8\n";
  const Outcome alive = Rondo("pack " + In("buffers.csv") + " --capacity 7");
  EXPECT_EQ(alive.status, 1);
  EXPECT_PRINTS(alive, "cannot fit in the capacity of 7 bytes: those alive at one time take 8");

  // At most 8 bytes are alive at any time, but no packing fits into 8.
  std::ofstream(In("nine.csv"))
      << "id,lower,upper,size\na,6,10,4\nb,4,6,1\nc,2,7,1\nd,1,4,4\ne,4,9,3\nf,1,2,3\n"
         "g,9,10,4\nh,1,6,1\ni,2,5,2\nj,7,9,1\n";
  const Outcome none = Rondo("pack " + In("nine.csv") + " --capacity 8 --seconds 60");
  EXPECT_EQ(none.status, 1);
  EXPECT_PRINTS(none, "cannot fit in the capacity of 8 bytes: the search saw every packing");
  EXPECT_EQ(Rondo("pack " + In("nine.csv") + " --capacity 9").status, 0);

  const Outcome usage = Rondo("pack " + In("nine.csv") + " --seconds -1");
  EXPECT_EQ(usage.status, 2);
  EXPECT_PRINTS(usage, "--seconds must be a number from 0");
}

using TestRuns = CommandTest;

TEST_F(TestRuns, AWrongOutputFailsWithItsPlace) {
  fs::copy(kData + "/fixtures/bert_ts17", folder_ / "bert", fs::copy_options::recursive);
  const std::string path = In("bert/test_data_set_0/output_0.pb");
  Result<Tensor> tensor = ReadTensor(path);
  ASSERT_TRUE(tensor.ok());
  tensor->bytes[3] ^= 0x40;
  ASSERT_TRUE(WriteTensor(*tensor, path).ok());
  const Outcome outcome = Rondo("test " + In("bert"));
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_PRINTS(outcome, "FAIL");
  EXPECT_PRINTS(outcome, "at [0, 0, 0]");
  EXPECT_PRINTS(outcome, "0 passed, 1 failed, 0 skipped\n");
}

TEST_F(TestRuns, NothingButFoldersWithoutCasesIsNoSuccess) {
  const Outcome outcome = Rondo("test " + folder_.string());
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_PRINTS(outcome, "0 passed, 0 failed, 1 skipped\n");
}

}  // namespace
}  // namespace rondo
