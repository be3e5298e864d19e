// Random models with annotations on random nodes: each annotation holds in the steps, or the compile fails
// and names the node for which it does not hold. The results are those without annotations.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/streams/annotated_models.h"
#include "tests/streams/annotated_plan.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

constexpr int64_t kBatch = 2, kRows = 4, kColumns = 4;

// A model over values [2, 4, 4] with operators that passes and fusion split and combine.
class RandomModel {
 public:
  explicit RandomModel(uint32_t seed) : rng_(seed) {
    m_.Input("x", {kBatch, kRows, kColumns});
    m_.Floats("w", {kColumns, kColumns}, Numbers(kColumns * kColumns));
    m_.Floats("g", {kColumns}, Numbers(kColumns));
    m_.Floats("one", {}, {1});
    m_.Floats("half", {}, {0.5f});
    m_.Floats("eps", {}, {1e-3f});
    m_.Ints("last", {-1});
    m_.Ints("flat", {kBatch, kRows * kColumns});
    m_.Ints("back", {kBatch, kRows, kColumns});
    values_ = {"x"};
    const int pieces = 3 + static_cast<int>(rng_() % 6);
    for (int i = 0; i < pieces; ++i) Piece();
    m_.Output(values_.back());
    if (values_.size() > 2 && rng_() % 3 == 0 && values_[values_.size() - 2] != "x")
      m_.Output(values_[values_.size() - 2]);
  }

  std::vector<NodeAnnotation> Annotations() {
    std::vector<NodeAnnotation> annotations;
    const int count = 1 + static_cast<int>(rng_() % 4);
    std::set<std::pair<std::string, std::string>> known;
    for (int i = 0; i < count; ++i) {
      NodeAnnotation one;
      one.node = names_[rng_() % names_.size()];
      const uint32_t kind = rng_() % 5;
      one.key = kind < 2 ? "fuse" : kind == 2 ? "stream" : kind == 3 ? "graph" : "assert";
      one.value = kind == 2 ? std::to_string(1 + rng_() % 2) : kind == 4 ? "finite" : "off";
      if (known.emplace(one.node, one.key).second) annotations.push_back(one);
    }
    if (rng_() % 2 == 0) AddRegions(&annotations);
    return annotations;
  }
  const onnx::ModelProto& proto() const { return m_.proto; }

 private:
  static std::vector<float> Numbers(int64_t count) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(i * 5 % 7 - 2) / 4);
    return numbers;
  }
  // Puts a random run of consecutive nodes into a region, and some of them into a region inside it.
  void AddRegions(std::vector<NodeAnnotation>* annotations) {
    const size_t count = names_.size(), first = rng_() % count, end = first + 1 + rng_() % (count - first);
    const size_t inner = first + rng_() % (end - first), inner_end = inner + rng_() % (end - inner + 1);
    for (size_t i = first; i < end; ++i)
      annotations->push_back({names_[i], "region", i >= inner && i < inner_end ? "r/inner" : "r"});
  }
  std::string Old() { return values_[values_.size() - 1 - rng_() % std::min<size_t>(values_.size(), 3)]; }

  std::string Node(const char* op, const std::vector<std::string>& inputs) {
    const std::string name = "n" + std::to_string(names_.size());
    onnx::NodeProto* node = m_.Node(op, inputs, {name + "_out"});
    node->set_name(name);
    names_.push_back(name);
    last_ = node;
    return name + "_out";
  }
  void Set(const char* name, const std::vector<int64_t>& values) {
    onnx::AttributeProto* a = last_->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::INTS);
    for (int64_t v : values) a->add_ints(v);
  }
  void Set(const char* name, int64_t value) {
    onnx::AttributeProto* a = last_->add_attribute();
    a->set_name(name);
    a->set_type(onnx::AttributeProto::INT);
    a->set_i(value);
  }
  std::string Turned(const std::string& x) {
    const std::string turned = Node("Transpose", {x});
    Set("perm", {0, 2, 1});
    return turned;
  }

  void Piece() {
    const std::string x = Old();
    switch (rng_() % 16) {
      case 0: return Add(Node("Relu", {x}));
      case 1: return Add(Node("Tanh", {x}));
      case 2: return Add(Node("Softmax", {x}));
      case 3: return Add(Node("LayerNormalization", {x, "g"}));
      case 4: return Add(Node("MatMul", {x, "w"}));
      case 5: return Add(Node("Add", {Node("MatMul", {x, "w"}), "g"}));
      case 6: return Add(Node("Add", {x, Old()}));
      case 7: return Add(Node("Mul", {x, rng_() % 2 == 0 ? "one" : "half"}));
      case 8: return Add(Turned(x));
      case 9: return Add(Node("Reshape", {Node("Sigmoid", {Node("Reshape", {x, "flat"})}), "back"}));
      case 10: {  // attention as separate operators
        const std::string scores = Node("MatMul", {x, Turned(Old())});
        return Add(Node("MatMul", {Node("Softmax", {Node("Mul", {scores, "half"})}), Old()}));
      }
      case 11: {  // a norm as separate operators
        const std::string mean = Node("ReduceMean", {Node("Mul", {x, x}), "last"});
        return Add(Node("Mul", {Node("Div", {x, Node("Sqrt", {Node("Add", {mean, "eps"})})}), "g"}));
      }
      case 12: {  // two equal nodes
        const std::string a = Node("Tanh", {x}), b = Node("Tanh", {x});
        return Add(Node("Add", {a, b}));
      }
      case 13: {  // a weight that is folded
        return Add(Node("MatMul", {x, Node("Tanh", {"w"})}));
      }
      case 14: {  // split and concatenated
        const std::string both = Node("Concat", {x, Old()});
        Set("axis", 2);
        m_.Ints("from" + both, {2});
        m_.Ints("to" + both, {2 + kColumns});
        m_.Ints("axes" + both, {2});
        return Add(Node("Slice", {both, "from" + both, "to" + both, "axes" + both}));
      }
      default: {  // a gated activation
        const std::string gate = Node("MatMul", {x, "w"}), up = Node("MatMul", {x, "w"});
        return Add(Node("Mul", {Node("Mul", {gate, Node("Sigmoid", {gate})}), up}));
      }
    }
  }
  void Add(const std::string& value) { values_.push_back(value); }

  std::mt19937 rng_;
  ModelMaker m_;
  std::vector<std::string> values_, names_;
  onnx::NodeProto* last_ = nullptr;
};

// Runs on the host and returns the outputs.
std::vector<float> ResultsOf(const CompileOptions& options) {
  LiveModel model(options, HostOptions{});
  LiveModel::Buffers buffers = model.MakeBuffers(0);
  for (std::vector<uint8_t>& bytes : buffers.input_bytes) {
    float* x = reinterpret_cast<float*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / 4; ++i) x[i] = std::sin(static_cast<float>(i) * 0.7f);
  }
  const Status status = model.session().Run(0, buffers.inputs, buffers.outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> all;
  for (const std::vector<uint8_t>& bytes : buffers.output_bytes) {
    const float* y = reinterpret_cast<const float*>(bytes.data());
    all.insert(all.end(), y, y + bytes.size() / 4);
  }
  return all;
}

// Removes the annotation that the refusal names. False if it names none, or if its node runs.
bool TakeOutNamed(const Status& status, std::vector<NodeAnnotation>* annotations) {
  const std::string message = status.message();
  const auto says = [&](const char* why) { return message.find(why) != message.npos; };
  const bool region = says(":region=");
  if (!says("no output of the model needs it") && !says("no kernel computes") &&
      !(region && says("runs nothing")))
    return false;
  for (size_t i = 0; i < annotations->size(); ++i) {
    const NodeAnnotation& one = (*annotations)[i];
    if (message.find("--annotate " + TextOf(one) + " ") == message.npos ||
        message.find("\"" + one.node + "\"") == message.npos)
      continue;
    const NodeAnnotation named = one;
    std::erase_if(*annotations, [&](const NodeAnnotation& other) {
      return other.key == named.key && (region ? other.value == named.value : other.node == named.node);
    });
    return true;
  }
  return false;
}

class RandomAnnotations : public testing::Test {
 protected:
  void Write(const RandomModel& model) {
    const std::string path = folder_.File("m.onnx");
    std::ofstream(path, std::ios::binary) << model.proto().SerializeAsString();
    options_.models = {{"main", path}};
    options_.annotations.clear();
    options_.check_passes = true;
  }
  TemporaryFolder folder_;
  CompileOptions options_;
};

int Seeds() {
  const char* seeds = std::getenv("RONDO_ANNOTATION_SEEDS");
  return seeds == nullptr ? 60 : std::atoi(seeds);
}

TEST_F(RandomAnnotations, HoldInPlansForTheHostAndChangeNoResult) {
  int held = 0, in_regions = 0;
  for (int seed = 0; seed < Seeds(); ++seed) {
    RandomModel model(static_cast<uint32_t>(seed));
    Write(model);
    const std::vector<float> expected = ResultsOf(options_);
    options_.annotations = model.Annotations();
    Result<CompiledPlan> compiled = CompileToMemory(options_);
    while (!compiled.ok()) {
      ASSERT_TRUE(TakeOutNamed(compiled.status(), &options_.annotations))
          << "seed " << seed << ": " << compiled.status().message();
      compiled = CompileToMemory(options_);
    }
    std::map<std::string, std::string> regions;
    for (const NodeAnnotation& one : options_.annotations) {
      if (one.key == "region") {
        regions[one.node] = one.value;
        continue;
      }
      EXPECT_EQ(WhyItDoesNotHold(compiled->plan, one), "") << "seed " << seed << ", " << TextOf(one);
    }
    EXPECT_EQ(WhyRegionsDoNotHold(compiled->plan, regions), "") << "seed " << seed;
    in_regions += static_cast<int>(regions.size());
    held += static_cast<int>(options_.annotations.size());
    const std::vector<float> results = ResultsOf(options_);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i)
      ASSERT_NEAR(results[i], expected[i], 1e-4 * (1 + std::abs(expected[i]))) << "seed " << seed;
  }
  EXPECT_GT(held, Seeds());
  EXPECT_GT(in_regions, Seeds());
}

TEST_F(RandomAnnotations, HoldInStepsForGpus) {
  const Result<Targets> targets = ParseTargets("cuda:sm_90a");
  ASSERT_TRUE(targets.ok());
  for (const Precision precision : {Precision::kF32, Precision::kBF16}) {
    for (int seed = 0; seed < Seeds() / 2; ++seed) {
      RandomModel model(static_cast<uint32_t>(seed + 1000));
      Write(model);
      options_.targets = *targets;
      options_.precision = precision;
      options_.annotations = model.Annotations();
      LoweredProgram lowered;
      Status status = LowerForGpu(options_, &lowered);
      while (!status.ok()) {
        ASSERT_TRUE(TakeOutNamed(status, &options_.annotations))
            << "seed " << seed << ": " << status.message();
        status = LowerForGpu(options_, &lowered);
      }
      for (const NodeAnnotation& one : options_.annotations) {
        bool runs = one.key == "region";  // some nodes of a region may run nothing
        for (const LoweredOp& op : lowered.ops) {
          const auto is_of = [&](const std::string& s) { return s.ends_with(" \"" + one.node + "\""); };
          if (std::none_of(op.sources.begin(), op.sources.end(), is_of)) continue;
          runs = true;
          EXPECT_TRUE(one.key != "fuse" || op.sources.size() == 1) << seed << " " << TextOf(one);
          EXPECT_TRUE(one.key != "stream" || op.stream != 0) << seed << " " << TextOf(one);
        }
        EXPECT_TRUE(runs) << "seed " << seed << ", " << TextOf(one);
      }
    }
  }
}

}  // namespace
}  // namespace rondo
