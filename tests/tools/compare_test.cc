// rondo compare: plans that agree, and wrong kernels that are traced to their ONNX node.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/plan/check/checker.h"
#include "formats/plan/reader.h"
#include "formats/plan/verifier.h"
#include "formats/plan/writer.h"
#include "formats/tensor/tensor.h"
#include "tests/defects/wrong_operation.h"
#include "tests/folders.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {
namespace {

using Json = nlohmann::json;

Outcome Rondo(const std::string& arguments) { return Shell(std::string(RONDO_COMMAND) + " " + arguments); }

std::string Fixture(const std::string& name) {
  return SourceFolder() + "/tests/data/fixtures/" + name + "/model.onnx";
}

constexpr const char* kModels[] = {"bert_ts17", "llama_decode_op23", "mobilenetv2",
                                   "resnet",    "unet_op23",         "vit_op23"};

class Compare : public ::testing::Test {
 protected:
  std::string In(const std::string& name) const { return folder_.File(name); }
  void Compile(const std::string& arguments, const std::string& to) const {
    const Outcome compiled = Rondo("compile " + arguments + " -o " + In(to));
    ASSERT_EQ(compiled.status, 0) << compiled.text;
  }
  TemporaryFolder folder_;
};

// Writes a damaged plan. False if verifier and checker do not accept it.
bool WriteDamaged(const std::string& from, const defects::WrongOperation& operation, const std::string& to) {
  Arena arena;
  Result<PlanFile> plan = OpenPlanFile(from.c_str(), {}, arena);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return false;
  defects::Plant(plan->data, operation);
  if (!VerifyPlan(plan->data).ok() || !CheckPlan(plan->data).ok()) return false;
  const Result<Span<const uint8_t>> weights = plan->weights.Map();
  EXPECT_TRUE(weights.ok()) << weights.status().message();
  if (!weights.ok()) return false;
  const FillWeight fill = [&](uint32_t buffer, uint64_t first, uint64_t bytes, uint8_t* out) {
    std::memcpy(out, weights->data() + plan->data.buffers[buffer].file_offset + first, bytes);
    return Status::Ok();
  };
  const Status written = WritePlan(plan->data, fill, {to});
  EXPECT_TRUE(written.ok()) << written.message();
  return written.ok();
}

// Whether an output of `damaged` differs from that of `sound`. Some kernels of the fixtures have no effect.
bool ChangesAnOutput(const PlanData& plan, const std::string& sound, const std::string& damaged) {
  const Json compared =
      Json::parse(Rondo("compare " + sound + " " + damaged + " --json").text, nullptr, false);
  for (const Json& value : compared["values"]) {
    for (const Port& port : plan.programs[0].outputs) {
      if (value["name"] == port.name && (value["differs"] == true || value["in_another_order"] == true))
        return true;
    }
  }
  return false;
}

// Each wrong operation in the fixtures' kernels, one at a time, is traced to its node.
TEST_F(Compare, FindsEveryPlantedOperationToItsNode) {
  size_t planted = 0, found = 0;
  for (const char* model : kModels) {
    Compile(Fixture(model), "plan");
    Compile(Fixture(model) + " --annotate '*:fuse=off'", "reference");
    Arena arena;
    Result<PlanFile> plan = OpenPlanFile(In("plan").c_str(), {}, arena);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    size_t of_model = 0;
    for (const defects::WrongOperation& operation : defects::WrongOperations(plan->data)) {
      if (of_model == 4) break;
      if (!WriteDamaged(In("plan"), operation, In("damaged")) ||
          !ChangesAnOutput(plan->data, In("plan"), In("damaged")))
        continue;
      ++of_model;
      ++planted;
      const Outcome outcome = Rondo("compare " + In("reference") + " " + In("damaged") + " --bisect --json");
      const Json json = Json::parse(outcome.text, nullptr, false);
      const std::string kernel(plan->data.kernels[operation.kernel].name);
      const bool named = outcome.status == 1 && json.is_object() && json.contains("bisect") &&
                         json["bisect"][0]["kernel"] == kernel &&
                         json["bisect"][0]["wrong"] == Json::array({operation.node});
      found += named;
      EXPECT_TRUE(named) << model << ", " << kernel << ": " << operation.what << " of " << operation.node
                         << "\n"
                         << outcome.text;
    }
  }
  EXPECT_GE(planted, 20u);
  EXPECT_EQ(found, planted);
}

TEST_F(Compare, AgreesWithTheModelOfASoundPlan) {
  for (const char* model : kModels) {
    Compile(Fixture(model), "plan");
    const Outcome outcome = Rondo("compare " + Fixture(model) + " " + In("plan") + " --bisect");
    EXPECT_EQ(outcome.status, 0) << model << "\n" << outcome.text;
    EXPECT_PRINTS(outcome, "the plan agrees with the reference");
  }
}

// The reference has the plan's own shapes and states.
TEST_F(Compare, TakesShapesFromThePlan) {
  const std::string pycoder = SourceFolder() + "/tests/data/pycoder/";
  Compile("prefill=" + pycoder + "prefill64.onnx decode=" + pycoder + "decode.onnx --precision bf16 --tp 2",
          "plan");
  const Outcome outcome = Rondo("compare " + pycoder + "decode.onnx " + In("plan") + " --program decode");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
}

// However little is held at a time, the comparison is the same.
TEST_F(Compare, TakesMoreRunsWhereLessIsHeld) {
  Compile(Fixture("unet_op23"), "plan");
  const auto compared = [&](const std::string& options) {
    const Outcome outcome =
        Rondo("compare " + Fixture("unet_op23") + " " + In("plan") + " --json " + options);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return Json::parse(outcome.text);
  };
  const Json once = compared(""), often = compared("--held 0");
  EXPECT_EQ(once["runs"], 1);
  EXPECT_EQ(often["runs"], once["compared"]);
  EXPECT_EQ(often["values"], once["values"]);
}

TEST_F(Compare, RefusesAnotherModelAndOtherShapes) {
  Compile(Fixture("resnet"), "resnet");
  Compile(Fixture("mobilenetv2"), "mobilenet");
  const Outcome other = Rondo("compare " + In("mobilenet") + " " + In("resnet"));
  EXPECT_EQ(other.status, 1);
}

// Dumps an intermediate value by its own name and by its node's name; and refuses one that is in no memory.
TEST_F(Compare, RunDumpsIntermediates) {
  Compile(Fixture("bert_ts17"), "plan");
  const std::string run = "run " + In("plan") + " --input input.1=" + In("ids.npy") +
                          " --input attention_mask.1=" + In("mask.npy") + " --output " + In("out") + " ";
  Tensor ids{"ids", DType::kI64, Shape{2, 16}, std::vector<uint8_t>(256)};
  ASSERT_TRUE(WriteTensor(ids, In("ids.npy")).ok());
  ASSERT_TRUE(WriteTensor(ids, In("mask.npy")).ok());
  const std::string value = "/m/embeddings/LayerNorm/LayerNormalization_output_0";
  const Outcome dumped = Rondo(run + "--dump " + value + " --dump /m/encoder/layer.0/output/Add");
  EXPECT_EQ(dumped.status, 0) << dumped.text;
  EXPECT_TRUE(
      std::filesystem::exists(In("out") + "/_m_embeddings_LayerNorm_LayerNormalization_output_0.npy"));
  const Result<Tensor> add = ReadTensor(In("out") + "/_m_encoder_layer.0_output_Add_output_0.npy");
  ASSERT_TRUE(add.ok()) << add.status().message() << dumped.text;
  EXPECT_EQ(add->shape, (Shape{2, 16, 64}));
  const Outcome inside =
      Rondo(run + "--dump /m/encoder/layer.0/intermediate/intermediate_act_fn/Erf_output_0");
  EXPECT_EQ(inside.status, 1);
  EXPECT_PRINTS(inside, "lives inside kernel");
}

}  // namespace
}  // namespace rondo
