// The whole pipeline from ONNX files to plans: what programs share, what is refused, and that plans are
// deterministic.
#include "compiler/compile.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "core/synthetic.h"
#include "formats/plan/reader.h"
#include "tests/folders.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

std::string Data(const std::string& name) { return SourceFolder() + "/tests/data/" + name; }

CompileOptions Pycoder() {
  CompileOptions options;
  options.models = {{"prefill", Data("pycoder/prefill64.onnx")}, {"decode", Data("pycoder/decode.onnx")}};
  return options;
}

class Compiling : public ::testing::Test {
 protected:
  std::string File(const std::string& name) const { return folder_.File(name); }
  static std::string Contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  static std::string ErrorOf(const CompileOptions& options, Code code) {
    auto compiled = CompileToMemory(options);
    EXPECT_FALSE(compiled.ok());
    if (compiled.ok()) return "";
    EXPECT_EQ(compiled.status().code(), code) << compiled.status().message();
    return compiled.status().message();
  }
  TemporaryFolder folder_;
};

// hub/models--org--name: the model and its weights are links from snapshots/ into blobs/.
TEST_F(Compiling, ModelsInTheCacheOfHuggingFaceCompile) {
  const fs::path repository = fs::path(folder_ / "hub") / "models--org--name",
                 snapshot = repository / "snapshots" / "0123abcd" / "onnx", blobs = repository / "blobs";
  fs::create_directories(snapshot);
  fs::create_directories(blobs);
  ModelMaker m;
  m.Input("x", {4});
  m.Node("Add", {"x", "w"}, {"y"});
  m.Output("y");
  onnx::TensorProto* w = m.graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->add_dims(4);
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto* entry = w->add_external_data();
  entry->set_key("location");
  entry->set_value("model.onnx_data");
  std::ofstream(blobs / "aaaa", std::ios::binary) << m.proto.SerializeAsString();
  std::ofstream(blobs / "bbbb", std::ios::binary) << std::string(16, '\1');
  fs::create_symlink("../../../blobs/aaaa", snapshot / "model.onnx");
  fs::create_symlink("../../../blobs/bbbb", snapshot / "model.onnx_data");
  CompileOptions options;
  options.models = {{"main", (snapshot / "model.onnx").string()}};
  const auto compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ(compiled->report.weights_bytes, 16u);
  // Other places are read only if the user names them.
  fs::create_directories(folder_ / "weights");
  fs::rename(blobs / "bbbb", folder_ / "weights" / "w");
  fs::remove(snapshot / "model.onnx_data");
  fs::create_symlink(folder_ / "weights" / "w", snapshot / "model.onnx_data");
  EXPECT_NE(ErrorOf(options, Code::kInvalidArgument).find("--external-data"), std::string::npos);
  options.external_data = {(folder_ / "weights").string()};
  EXPECT_TRUE(CompileToMemory(options).ok());
}

TEST_F(Compiling, PrefillAndDecodeShareWeightsAndState) {
  auto compiled = CompileToMemory(Pycoder());
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const PlanData& plan = compiled->plan;
  ASSERT_EQ(plan.programs.size(), 2u);
  int states = 0;
  for (const Buffer& buffer : plan.buffers) states += buffer.kind == BufferKind::kState;
  EXPECT_EQ(states, 2);  // k_cache, v_cache
  EXPECT_EQ(plan.requirements.devices[0].state, 2u * 6 * 2 * 256 * 32 * 4);
  // 2.46 M parameters in f32, stored once, and little more.
  EXPECT_LT(compiled->report.weights_bytes, 10'500'000u);
  for (const Program& program : plan.programs) {
    ASSERT_EQ(program.partitions.size(), 1u);
    EXPECT_EQ(program.partitions[0].reason, BreakReason::kProgramEnd);
    EXPECT_EQ(program.arena_bytes, program.arena_lower_bound);
  }
  // No temporary is as large as one layer's cache.
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::kTemporary && plan.programs[buffer.program].name == "decode") {
      EXPECT_LT(buffer.bytes, 2u * 256 * 32 * 4) << buffer.name;
    }
  }
}

TEST_F(Compiling, TheSameInputsGiveTheSameBytes) {
  CompileOptions options = Pycoder();
  ASSERT_TRUE(Compile(options, File("a.rondo")).ok());
  options.threads = 3;
  ASSERT_TRUE(Compile(options, File("b.rondo")).ok());
  const std::string a = Contents(File("a.rondo"));
  EXPECT_GT(a.size(), 9'000'000u);
  EXPECT_TRUE(a == Contents(File("b.rondo")));
}

TEST_F(Compiling, WhatIsWrittenLoads) {
  CompileOptions options = Pycoder();
  options.weights_file = "shared.weights";
  auto report = Compile(options, File("plan.rondo"));
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(fs::exists(File("shared.weights")));
  Arena arena;
  auto plan = LoadPlanFile(File("plan.rondo").c_str(), {}, arena);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->data.programs.size(), 2u);
  EXPECT_EQ(plan->data.weights_bytes, report->weights_bytes);
}

TEST_F(Compiling, ABreakBeforeANodeCutsThere) {
  CompileOptions options = Pycoder();
  options.models.erase(options.models.begin());
  auto whole = CompileToMemory(options);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  // The first quoted name in the source of a step in the middle.
  const Program& program = whole->plan.programs[0];
  const std::string source(whole->plan.sources[program.steps[program.steps.size() / 2].source]);
  const size_t quote = source.find('"');
  const std::string node = source.substr(quote + 1, source.find('"', quote + 1) - quote - 1);
  options.break_before = {node};
  auto cut = CompileToMemory(options);
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  ASSERT_EQ(cut->plan.programs[0].partitions.size(), 2u);
  EXPECT_EQ(cut->plan.programs[0].partitions[0].reason, BreakReason::kUserBreak);
  EXPECT_NE(std::string(cut->plan.programs[0].partitions[0].detail).find(node), std::string::npos);
  EXPECT_EQ(cut->report.programs[0].partitions.size(), 2u);
}

TEST_F(Compiling, OptionsThatNameNothingAreRefused) {
  auto with = [](auto change) {
    CompileOptions options = Pycoder();
    change(&options);
    return options;
  };
  const Code kBad = Code::kInvalidArgument;
  EXPECT_NE(ErrorOf(with([](auto* o) { o->break_before = {"nowhere"}; }), kBad).find("nowhere"),
            std::string::npos);
  EXPECT_NE(ErrorOf(with([](auto* o) {
                      o->annotations = {{"nowhere*", "stream", "1"}};
                    }),
                    kBad)
                .find("stream: 1 is of node \"nowhere*\""),
            std::string::npos);
  for (const char* value : {"64", "-1", "one", "1 ", ""}) {
    EXPECT_NE(ErrorOf(with([&](auto* o) {
                        o->annotations = {{"*", "stream", value}};
                      }),
                      kBad)
                  .find("is none of stream: 0 to 63"),
              std::string::npos);
  }
  EXPECT_NE(ErrorOf(with([](auto* o) {
                      o->annotations = {{"*", "colour", "red"}};
                    }),
                    kBad)
                .find("colour: red"),
            std::string::npos);
  EXPECT_NE(ErrorOf(with([](auto* o) { o->shapes["nothing"] = {1}; }), kBad).find("nothing"),
            std::string::npos);
  EXPECT_NE(ErrorOf(with([](auto* o) { o->states = {{"a", "b"}}; }), kBad).find("a:b"), std::string::npos);
  EXPECT_NE(ErrorOf(with([](auto* o) { o->dump_after = {"magic"}; }), kBad).find("magic"), std::string::npos);
  EXPECT_NE(ErrorOf(with([](auto* o) { o->skip_passes = {"emit"}; }), kBad).find("emit"), std::string::npos);
  EXPECT_NE(ErrorOf(with([](auto* o) { o->models[1].program = "prefill"; }), kBad).find("prefill"),
            std::string::npos);
  EXPECT_NE(ErrorOf(with([](auto* o) { o->models.clear(); }), kBad).find("no model"), std::string::npos);
  EXPECT_NE(ErrorOf(with([](auto* o) { o->models[0].path = "missing.onnx"; }), Code::kNotFound)
                .find("missing.onnx"),
            std::string::npos);
}

// Converters from TensorFlow use such names, and PyTorch does for a name that occurs twice.
TEST_F(Compiling, StatesMayHaveNamesWithColons) {
  ModelMaker m;
  for (const char* name : {"x", "past:0", "past:1", "past:0:present"}) m.Input(name, {4});
  for (const char* name : {"0", "1"}) {
    m.Node("Add", {std::string("past:") + name, "x"}, {std::string("present:") + name});
    m.Output(std::string("present:") + name);
  }
  m.Node("Sub", {"past:0:present", "x"}, {"2"});
  m.Output("2");
  std::ofstream(File("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  CompileOptions options;
  options.models = {{"main", File("m.onnx")}};
  options.auto_state = false;
  const auto states = [&](std::vector<std::string> texts) {
    options.state_texts = std::move(texts);
    auto compiled = CompileToMemory(options);
    if (!compiled.ok()) return std::string(compiled.status().message());
    std::string names;
    for (const Buffer& buffer : compiled->plan.buffers) {
      if (buffer.kind == BufferKind::kState) names += std::string(buffer.name) + " ";
    }
    return names;
  };
  EXPECT_EQ(states({"past:0:present:0", "past:1:present:1", "past:0:present:2"}),
            "past:0 past:1 past:0:present ");
  const Code bad = Code::kInvalidArgument;
  options.state_texts = {"past:0:presnt:0"};
  const std::string near = ErrorOf(options, bad);
  for (const char* said : {"--state past:0:presnt:0", "inputs near \"past:0\" are \"past:0\", \"past:1\"",
                           "outputs near \"presnt:0\" are \"present:0\", \"present:1\""})
    EXPECT_NE(near.find(said), std::string::npos) << near;

  m.Input("past:1:present", {4});
  m.Node("Sub", {"past:1:present", "2"}, {"1"});
  m.Output("1");
  std::ofstream(File("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  options.state_texts = {"past:1:present:1"};
  const std::string ambiguous = ErrorOf(options, bad);
  for (const char* said : {"\"past:1\" and \"present:1\"", "\"past:1:present\" and \"1\"", "\\:"})
    EXPECT_NE(ambiguous.find(said), std::string::npos) << ambiguous;
  EXPECT_EQ(states({"past\\:1:present\\:1"}), "past:1 ");
  EXPECT_EQ(states({"past\\:1\\:present:1"}), "past:1:present ");
}

TEST_F(Compiling, LogitsMayHaveANameWithColons) {
  ModelMaker m;
  m.Input("ids:0", {1, 1}, onnx::TensorProto::INT64);
  m.Input("other", {1, 1}, onnx::TensorProto::INT64);
  m.Node("Add", {"ids:0", "other"}, {"sum"});
  m.Floats("row", {1, 8}, {0, 1, 2, 3, 4, 5, 6, 7});
  onnx::AttributeProto* to = m.Node("Cast", {"sum"}, {"wide"})->add_attribute();
  to->set_name("to");
  to->set_type(onnx::AttributeProto::INT);
  to->set_i(onnx::TensorProto::FLOAT);
  m.Node("Mul", {"wide", "row"}, {"logits:0"});
  m.Output("logits:0");
  std::ofstream(File("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  CompileOptions options;
  options.models = {{"main", File("m.onnx")}};
  options.sample_text = "logits:0:ids:0";
  auto compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  options.sample_text = "logits:0";
  EXPECT_NE(ErrorOf(options, Code::kInvalidArgument).find("one of ids:0, other"), std::string::npos);
  options.sample_text = "logit:0:ids:0";
  EXPECT_NE(ErrorOf(options, Code::kInvalidArgument).find("near are \"logits:0\""), std::string::npos);
}

// If caches are not recognised by their names, the error names --state, and not --cache-length again.
TEST_F(Compiling, CachesThatNoNameTellsAreAskedFor) {
  ModelMaker m;
  const auto port = [&](onnx::ValueInfoProto* info, const std::string& name, const std::string& positions) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(onnx::TensorProto::FLOAT);
    tensor->mutable_shape()->add_dim()->set_dim_value(1);
    tensor->mutable_shape()->add_dim()->set_dim_param(positions);
    tensor->mutable_shape()->add_dim()->set_dim_value(4);
  };
  m.Input("x", {1, 1, 4});
  for (const std::string name : {"past_a", "mem_b", "mem_c"}) {
    const std::string out = name == "past_a" ? "present_a" : name + "_longer";
    port(m.graph()->add_input(), name, "old");
    port(m.graph()->add_output(), out, "old + 1");
    onnx::AttributeProto* axis = m.Node("Concat", {name, "x"}, {out})->add_attribute();
    axis->set_name("axis");
    axis->set_type(onnx::AttributeProto::INT);
    axis->set_i(1);
  }
  CompileOptions options;
  options.models = {{"main", File("m.onnx")}};
  const auto refusal = [&] {
    std::ofstream(File("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
    auto compiled = CompileToMemory(options);
    return compiled.ok() ? std::string() : std::string(compiled.status().message());
  };
  const std::string state = "--state mem_b:mem_b_longer (2 inputs look like caches)";
  EXPECT_NE(refusal().find("or --cache-length N for the caches"), std::string::npos) << refusal();
  options.cache_length = 8;
  EXPECT_NE(refusal().find(state), std::string::npos) << refusal();
  // Now no cache is known by its name.
  m.graph()->mutable_input(1)->set_name("old_a");
  m.graph()->mutable_node(0)->set_input(0, "old_a");
  EXPECT_NE(refusal().find("no cache is known by its name: say"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("--state old_a:"), std::string::npos) << refusal();
  options.shapes = {{"old", {4}}};
  EXPECT_NE(refusal().find("--state old_a:"), std::string::npos) << refusal();
  options.cache_length = 0;
  options.shapes.clear();
  EXPECT_NE(refusal().find("--cache-length N if it has caches that grow, with --state old_a:"),
            std::string::npos)
      << refusal();
  options.cache_length = 8;
  options.state_texts = {"old_a:present_a", "mem_b:mem_b_longer", "mem_c:mem_c_longer"};
  EXPECT_EQ(refusal(), "");
  options.position_masks = {"none"};
  EXPECT_EQ(refusal(), "");
  options.position_masks = {"seen"};
  EXPECT_NE(refusal().find("position mask \"seen\": no model has an input of that name"), std::string::npos)
      << refusal();
}

TEST_F(Compiling, ShapesMustFitTheModelAndOneAnother) {
  ModelMaker m;
  m.Input("x", {-1, 3});
  m.Input("z", {-1, 1});
  m.Node("Add", {"x", "z"}, {"y"});
  m.Output("y");
  std::ofstream(File("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  using Shapes = std::map<std::string, std::vector<int64_t>>;
  const auto with = [&](const Shapes& shapes) {
    CompileOptions options;
    options.models = {{"main", File("m.onnx")}};
    options.shapes = shapes;
    return options;
  };
  const Code kBad = Code::kInvalidArgument;
  EXPECT_NE(ErrorOf(with({{"x", {2}}}), kBad).find("1 dimensions are given; the model has 2"),
            std::string::npos);
  EXPECT_NE(ErrorOf(with({{"x", {2, 4}}}), kBad).find("dimension 1 is given as 4, but is 3"),
            std::string::npos);
  EXPECT_NE(ErrorOf(with({{"x", {2, 3}}, {"N", {5}}}), kBad).find("(\"N\") is given as 2, but is 5"),
            std::string::npos);
  EXPECT_NE(ErrorOf(with({{"x", {2, 3}}, {"z", {5, 1}}}), kBad).find("\"z\""), std::string::npos);
  auto compiled = CompileToMemory(with({{"x", {2, 3}}}));
  ASSERT_TRUE(compiled.ok()) << "x's shape says what N is: " << compiled.status().message();
}

// Exporters use one name for two lengths. Both can be given for a program; the error for a single length
// names these options.
TEST_F(Compiling, OneNameMayBeTwoLengthsOfAProgram) {
  ModelMaker m;
  m.Input("mask", {-1, 1});
  m.Input("z", {-1, 1});
  m.Ints("axis", {0});
  m.Node("ReduceSum", {"mask", "axis"}, {"count"});
  m.Node("Add", {"count", "z"}, {"y"});
  m.Output("y");
  std::ofstream(File("m.onnx"), std::ios::binary) << m.proto.SerializeAsString();
  CompileOptions options;
  options.models = {{"main", File("m.onnx")}};
  options.models[0].shapes = {{"mask", {7, 1}}, {"N", {2}}};
  auto compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const Program& program = compiled->plan.programs[0];
  EXPECT_EQ(compiled->plan.buffers[program.inputs[0].buffer].shape, Shape({7, 1}));
  EXPECT_EQ(compiled->plan.buffers[program.inputs[1].buffer].shape, Shape({2, 1}));
  options.models[0].shapes.erase("N");
  options.shapes = {{"N", {2}}};
  EXPECT_NE(ErrorOf(options, Code::kInvalidArgument).find("--shape PROGRAM:mask=..., --shape PROGRAM:N=..."),
            std::string::npos);
}

TEST_F(Compiling, EveryPassReportsAndCanBeDumped) {
  CompileOptions options = Pycoder();
  options.models.erase(options.models.begin());
  std::map<std::string, std::string> dumps;
  std::vector<std::string> begun;
  for (const PipelineEntry& entry : Pipeline()) options.dump_after.push_back(entry.name);
  options.dump = [&](const std::string&, const std::string& pass, const std::string& text) {
    dumps[pass] = text;
  };
  options.progress = [&](const std::string&, const std::string& pass) { begun.push_back(pass); };
  auto compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  ASSERT_EQ(compiled->report.passes.size(), Pipeline().size());
  for (size_t i = 0; i < Pipeline().size(); ++i) {
    const PipelineEntry& entry = Pipeline()[i];
    EXPECT_EQ(compiled->report.passes[i].pass, entry.name);
    EXPECT_EQ(begun[i], entry.name);
    EXPECT_FALSE(std::string(entry.does).empty());
    EXPECT_EQ(dumps[entry.name].empty(), entry.leaves == Leaves::kPlan) << entry.name;
  }
}

TEST_F(Compiling, ThePlanIsRightWithoutAnyPassThatCanBeSkipped) {
  for (const PipelineEntry& entry : Pipeline()) {
    if (!entry.skippable()) continue;
    CompileOptions options = Pycoder();
    options.models.erase(options.models.begin());
    options.skip_passes = {entry.name};
    auto compiled = CompileToMemory(options);
    EXPECT_TRUE(compiled.ok()) << "without " << entry.name << ": " << compiled.status().message();
  }
}

TEST_F(Compiling, SyntheticWeightsAreTheSameWrittenOut) {
  const std::string model = File("decode.onnx");
  fs::copy_file(Data("pycoder/decode.onnx"), model);
  CompileOptions options;
  options.models = {{"main", model}};
  EXPECT_NE(ErrorOf(options, Code::kNotFound).find("pycoder.weights"), std::string::npos);
  options.synthetic_seed = 42;
  auto synthetic = CompileToMemory(options);
  ASSERT_TRUE(synthetic.ok()) << synthetic.status().message();
  EXPECT_GT(synthetic->report.synthetic_bytes, 9'000'000u);

  const Status written = WriteSynthetic(model, 42, File("pycoder.weights"));
  ASSERT_TRUE(written.ok()) << written.message();
  options.synthetic_seed.reset();
  auto stored = CompileToMemory(options);
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_EQ(stored->report.synthetic_bytes, 0u);
  // Every synthetic constant has a counterpart among the stored ones.
  std::map<std::string, uint32_t> by_name;
  for (uint32_t i = 0; i < stored->plan.buffers.size(); ++i) {
    by_name[std::string(stored->plan.buffers[i].name)] = i;
  }
  int compared = 0;
  for (const Buffer& buffer : synthetic->plan.buffers) {
    if (buffer.weight != WeightSource::kSynthetic) continue;
    const auto twin = by_name.find(std::string(buffer.name));
    if (twin == by_name.end()) continue;
    std::vector<uint8_t> bytes(buffer.bytes);
    FillSyntheticRange(buffer.dtype, buffer.synthetic_key, buffer.synthetic_scale, 0,
                       buffer.bytes / static_cast<uint64_t>(ByteSize(buffer.dtype)), bytes.data());
    const Span<const uint8_t> other = stored->constant_bytes[twin->second];
    ASSERT_EQ(other.size(), bytes.size()) << buffer.name;
    EXPECT_EQ(std::memcmp(other.data(), bytes.data(), bytes.size()), 0) << buffer.name;
    ++compared;
  }
  EXPECT_GT(compared, 20);
  EXPECT_EQ(WriteSynthetic(model, 42, File("again")).code(),
            Code::kInvalidArgument);  // no weights are missing now
}

}  // namespace
}  // namespace rondo
