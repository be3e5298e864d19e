// Random small programs on 2 to 8 virtual devices: collectives of all devices and of groups, small
// collectives that are combined, chunks of rows, regions and other annotations. The results are those of the
// plain program. Every annotation is in the plan, or refused.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "runtime/verify/value_names.h"
#include "tests/e2e/harness.h"
#include "tests/how_many.h"
#include "tests/import/model_maker.h"
#include "tests/streams/annotated_plan.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

// The seed of the first program; the others follow.
uint32_t FirstSeed() { return static_cast<uint32_t>(HowMany("RONDO_RANDOM_SEED", 1)); }

constexpr int64_t kRows = 8, kColumns = 16;

struct Said {
  std::string node, label;  // `Op "node"`
  std::string key, value;
};

// A program over values of kRows x kColumns, each computed from earlier ones.
class RandomProgram {
 public:
  RandomProgram(uint32_t seed, uint32_t devices) : random_(seed), devices_(devices) {
    group_ = devices > 2 && Below(2) == 0 ? 2 : 0;
    const int steps = 8 + Below(10);
    for (int i = 0; i < steps; ++i) choices_.push_back({Below(9), Below(1 << 20), Below(1 << 20)});
    for (size_t& number : region_) number = static_cast<size_t>(Below(1 << 20));
  }

  // The model of device `rank`: the same nodes with different weights.
  ModelMaker Model(uint32_t rank) {
    ModelMaker m;
    said_.clear();
    values_ = {"x"};
    m.Input("x", {kRows, kColumns});
    for (const char* name : {"zero", "half", "all"})
      m.Ints(name, {std::string(name) == "zero" ? 0 : std::string(name) == "half" ? kRows / 2 : kRows});
    weights_.seed(rank + 1);
    for (size_t i = 0; i < choices_.size(); ++i) Add(&m, choices_[i], "v" + std::to_string(i), rank);
    // Makes every node needed: values that nothing reads are summed into the output.
    std::set<std::string> read;
    for (const onnx::NodeProto& node : m.graph()->node())
      read.insert(node.input().begin(), node.input().end());
    std::string sum = "x";
    for (const std::string& value : values_) {
      if (value == "x" || read.count(value) != 0) continue;
      m.Node("Add", {sum, value}, {"sum_" + value});
      sum = "sum_" + value;
    }
    m.Output(sum);
    AddRegions(m.proto.graph());
    return m;
  }
  // {node: region} of the last Model.
  const std::map<std::string, std::string>& regions() const { return regions_; }
  // The annotations of the last Model.
  const std::vector<Said>& said() const { return said_; }

 private:
  struct Choice {
    int op, first, second;
  };

  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  const std::string& Pick(int number) const { return values_[static_cast<size_t>(number) % values_.size()]; }

  // Puts a random run of consecutive nodes into region "r", and a part of it into the inner region "r/inner".
  void AddRegions(const onnx::GraphProto& graph) {
    regions_.clear();
    const auto count = static_cast<size_t>(graph.node_size());
    const size_t first = region_[0] % count, end = first + region_[1] % (count - first);
    const size_t inner = first + region_[2] % (end - first + 1),
                 inner_end = inner + region_[3] % (end - inner + 1);
    for (size_t i = first; i < end; ++i)
      regions_[graph.node(static_cast<int>(i)).name()] = i >= inner && i < inner_end ? "r/inner" : "r";
  }

  onnx::NodeProto* Collective(ModelMaker* m, const std::string& operation, const std::string& from,
                              const std::string& to, uint32_t rank) {
    onnx::NodeProto* node = m->Node("DistCollective", {from}, {to});
    for (const auto& [name, text] : {std::pair<const char*, std::string>{"collective_operation", operation},
                                     {"reduce_op", operation == "all_gather" ? "none" : "sum"}}) {
      onnx::AttributeProto* a = node->add_attribute();
      a->set_name(name);
      a->set_type(onnx::AttributeProto::STRING);
      a->set_s(text);
    }
    if (group_ == 0) return node;
    onnx::AttributeProto* groups = node->add_attribute();
    groups->set_name("groups");
    groups->set_type(onnx::AttributeProto::INTS);
    for (uint32_t member = 0; member < group_; ++member) groups->add_ints(rank / group_ * group_ + member);
    return node;
  }

  void Concat(ModelMaker* m, const std::vector<std::string>& from, const std::string& to) {
    onnx::AttributeProto* axis = m->Node("Concat", from, {to})->add_attribute();
    axis->set_name("axis");
    axis->set_type(onnx::AttributeProto::INT);
    axis->set_i(0);
  }

  void Add(ModelMaker* m, const Choice& choice, const std::string& to, uint32_t rank) {
    const std::string a = Pick(choice.first), b = Pick(choice.second);
    onnx::NodeProto* plain = nullptr;  // the node to annotate
    switch (choice.op) {
      case 0: {
        std::vector<float> weight(kColumns * kColumns);
        for (float& w : weight) w = (static_cast<float>(weights_() % 1024) / 1024 - 0.5f) / 2;
        m->Floats("w_" + to, {kColumns, kColumns}, weight);
        plain = m->Node("MatMul", {a, "w_" + to}, {to});
        break;
      }
      case 1: plain = m->Node("Add", {a, b}, {to}); break;
      case 2: plain = m->Node("Mul", {a, b}, {to + "_p"}), m->Node("Tanh", {to + "_p"}, {to}); break;
      case 3: plain = m->Node("Softmax", {a}, {to}); break;
      case 4: plain = m->Node("Relu", {a}, {to}); break;
      case 5:  // swap the halves
        m->Node("Slice", {a, "zero", "half"}, {to + "_u"});
        m->Node("Slice", {b, "half", "all"}, {to + "_l"});
        Concat(m, {to + "_l", to + "_u"}, to);
        break;
      case 6: {  // several small all-reduces, which can be combined
        Collective(m, "all_reduce", a, to + "_a", rank);
        Collective(m, "all_reduce", b, to + "_b", rank);
        plain = m->Node("Sub", {to + "_a", to + "_b"}, {to});
        break;
      }
      case 7:
        Collective(m, "all_gather", a, to + "_g", rank);
        m->Node("Slice", {to + "_g", "half", "all"}, {to + "_m"});
        m->Node("Slice", {to + "_g", "zero", "half"}, {to + "_n"});
        Concat(m, {to + "_m", to + "_n"}, to);
        break;
      default: {
        const int64_t share = group_ == 0 ? devices_ : group_;
        Collective(m, "reduce_scatter", a, to + "_s", rank);
        Concat(m, std::vector<std::string>(static_cast<size_t>(share), to + "_s"), to + "_c");
        plain = m->Node("Tanh", {to + "_c"}, {to});
      }
    }
    values_.push_back(to);
    if (plain == nullptr || choice.second % 5 != 0) return;
    const char* const kinds[][2] = {{"fuse", "off"},         {"graph", "off"},     {"stream", "1"},
                                    {"stream", "2"},         {"assert", "finite"}, {"matmul", "generated"},
                                    {"deterministic", "on"}, {"precision", "f32"}};
    const auto& kind = kinds[choice.first % (plain->op_type() == "MatMul" ? 8 : 5)];
    said_.push_back({plain->name(), plain->op_type() + " \"" + plain->name() + "\"", kind[0], kind[1]});
  }

  std::mt19937 random_, weights_;
  const uint32_t devices_;
  uint32_t group_ = 0;  // devices in a group; 0: all devices
  std::vector<Choice> choices_;
  std::vector<std::string> values_;
  std::vector<Said> said_;
  size_t region_[4] = {};
  std::map<std::string, std::string> regions_;
};

std::vector<float> Floats(const std::vector<uint8_t>& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::vector<float>> ResultsOf(LiveModel& model) {
  LiveModel::Buffers buffers = model.MakeBuffers(0);
  for (std::vector<uint8_t>& bytes : buffers.input_bytes) {
    for (size_t k = 0; k < bytes.size() / 4; ++k) {
      const float value = static_cast<float>(static_cast<int>(k * 7 % 23) - 11) / 16;
      std::memcpy(&bytes[4 * k], &value, 4);
    }
  }
  const Status status = model.session().Run(0, buffers.inputs, buffers.outputs, {});
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::vector<float>> outputs;
  for (const std::vector<uint8_t>& bytes : buffers.output_bytes) outputs.push_back(Floats(bytes));
  return outputs;
}

void ExpectAlike(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t o = 0; o < got.size(); ++o) {
    ASSERT_EQ(got[o].size(), wanted[o].size());
    for (size_t k = 0; k < got[o].size(); ++k)
      ASSERT_NEAR(got[o][k], wanted[o][k], 2e-4f * (1 + std::fabs(wanted[o][k])))
          << "output " << o << ", " << k;
  }
}

// Turns off the passes under test.
void MakePlain(CompileOptions* options) {
  options->skip_passes = {"combine_collectives", "chunk_collectives", "weigh_fusions", "overlap"};
  options->annotations.clear();
  options->chunks = 1;
}

// Expects that the plan's steps follow the annotation on each device that runs the node.
void ExpectSeen(const PlanData& plan, const Said& said) {
  SCOPED_TRACE(said.label + ": " + said.key + "=" + said.value);
  const Program& program = plan.programs[0];
  const std::vector<uint32_t> steps = ValueNames(plan).Steps(0, said.label);
  ASSERT_FALSE(steps.empty());
  const std::vector<AssertionNote> notes = AssertionsOf(plan, program);
  const auto is_of = [&](const AssertionNote& note) {
    return note.node == said.label && Asserting(plan, program.steps[note.step], note.assertion) != nullptr;
  };
  EXPECT_TRUE(said.key != "assert" || std::any_of(notes.begin(), notes.end(), is_of));
  for (uint32_t s : steps) {
    const Step& step = program.steps[s];
    if (said.key == "stream") {
      EXPECT_NE(step.stream, 0u);
    }
    if (said.key == "fuse") {
      EXPECT_EQ(LabelsOf(plan.sources[step.source]).size(), 1u) << plan.sources[step.source];
    }
    for (const Partition& partition : program.partitions) {
      const bool holds = s >= partition.first_step && s < partition.first_step + partition.num_steps;
      if (!holds || said.key != "graph") continue;
      for (uint32_t k = 0; k < partition.num_steps; ++k) {
        const uint32_t other = partition.first_step + k;
        EXPECT_NE(std::find(steps.begin(), steps.end(), other), steps.end()) << "step " << other;
      }
    }
  }
}

TEST(RandomPrograms, OfSeveralDevicesAreThePlainOnes) {
  const int count = HowMany("RONDO_RANDOM_PROGRAMS", 24);
  const TemporaryFolder folder;
  int refused = 0, seen = 0;
  std::string reasons;
  for (int seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const uint32_t devices = 2u << seed % 3;
    RandomProgram program(FirstSeed() + static_cast<uint32_t>(seed), devices);
    for (uint32_t rank = 0; rank < devices; ++rank)
      std::ofstream(folder.File("m" + std::to_string(rank) + ".onnx"), std::ios::binary)
          << program.Model(rank).proto.SerializeAsString();
    CompileOptions options;
    options.devices = devices;
    options.models = {{"main", folder.File("m{rank}.onnx")}};
    for (const Said& said : program.said()) options.annotations.push_back({said.node, said.key, said.value});
    for (const auto& [node, region] : program.regions())
      options.annotations.push_back({node, "region", region});
    CompileOptions plain = options;
    MakePlain(&plain);
    LiveModel reference(plain, {});
    const Result<CompiledPlan> compiled = CompileToMemory(options);
    if (!compiled.ok()) {  // an annotation that cannot be kept is refused with an error
      EXPECT_NE(std::string(compiled.status().message()).find("does not hold of"), std::string::npos)
          << compiled.status().message();
      reasons += std::string(compiled.status().message()) + "\n";
      ++refused;
      continue;
    }
    LiveModel live(options, {});
    ExpectAlike(ResultsOf(live), ResultsOf(reference));
    for (const Said& said : program.said()) ExpectSeen(live.data(), said), ++seen;
    EXPECT_EQ(WhyRegionsDoNotHold(live.data(), program.regions()), "");
  }
  EXPECT_LE(refused, count / 4) << reasons;
  EXPECT_GE(seen, count / 2);
}

// y = x + Relu(x a) b, three times with norms between, sharded and cut into chunks.
TEST(RandomPrograms, InChunksAreThePlainOnes) {
  const int count = HowMany("RONDO_RANDOM_PROGRAMS", 24) / 2;
  const TemporaryFolder folder;
  for (int seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(FirstSeed() + static_cast<uint32_t>(seed));
    const auto below = [&](int limit) {
      return static_cast<int64_t>(random() % static_cast<uint32_t>(limit));
    };
    const int64_t width = 32 << below(2), inner = 64 << below(2), rows = 16 << below(2);
    ModelMaker m;
    m.Input("x", {rows, width});
    const auto weight = [&](const std::string& name, int64_t k, int64_t n) {
      std::vector<float> values(static_cast<size_t>(k * n));
      for (float& w : values) w = (static_cast<float>(random() % 1024) / 1024 - 0.5f) / 4;
      m.Floats(name, {k, n}, values);
    };
    std::string x = "x";
    for (int layer = 0; layer < 3; ++layer) {
      const std::string n = std::to_string(layer);
      weight("a" + n, width, inner);
      weight("b" + n, inner, width);
      m.Node("MatMul", {x, "a" + n}, {"h" + n});
      m.Node(below(2) == 0 ? "Relu" : "Tanh", {"h" + n}, {"i" + n});
      m.Node("MatMul", {"i" + n, "b" + n}, {"o" + n});
      m.Node("Add", {"o" + n, x}, {"r" + n});
      const int64_t then = below(3);
      if (then == 0) m.Node("Softmax", {"r" + n}, {"y" + n});
      x = then == 0 ? "y" + n : "r" + n;
    }
    m.Node("Neg", {x}, {"y"});
    m.Output("y");
    std::ofstream(folder.File("t.onnx"), std::ios::binary) << m.proto.SerializeAsString();
    CompileOptions options;
    options.models = {{"main", folder.File("t.onnx")}};
    CompileOptions plain = options;
    MakePlain(&plain);
    LiveModel reference(plain, {});
    options.tensor_parallel = 2u << below(3);
    options.profile.times = std::make_shared<const MeasuredTimes>(MeasuredTimes{"idle", {}, {}, 0.0});
    options.chunks = std::array{0u, 1u, 2u, 4u}[static_cast<size_t>(below(4))];
    LiveModel live(options, {});
    const std::vector<std::vector<float>> wanted = ResultsOf(reference);
    for (const std::vector<float>& output : ResultsOf(live)) ExpectAlike({output}, wanted);
  }
}

}  // namespace
}  // namespace rondo
