// For every attribute that a handler reads, some case with known results sets a value other than the default.
//
// The cases are those of tests/data/attributes (tests/ort/attribute_cases.py writes them): models whose
// inputs have initializers, and whose initializers expect/NAME hold the expected outputs. The attributes that
// handlers read are recorded by OpContext while the cases are imported (ImportReport::attributes), and found
// in the handlers' sources.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/import/registry.h"
#include "compiler/ir/evaluate.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/reader.h"
#include "formats/tensor/tensor.h"
#include "formats/tensor/tensor_proto.h"
#include "tests/folders.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

constexpr char kExpect[] = "expect/";

// One case file: the model with the inputs and expected outputs split off.
struct AttributeCase {
  std::string name;
  onnx::ModelProto proto;
  std::map<std::string, Tensor> inputs, expected;
  double rtol = 1e-3, atol = 1e-5;
  std::string refused;  // for a case that must be refused, a part of the error

  std::shared_ptr<onnx::Model> Model() const {
    const std::string bytes = proto.SerializeAsString();
    auto model = onnx::Model::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, ".");
    return model.ok() ? model.Take() : nullptr;
  }
};

Result<AttributeCase> ReadCase(const fs::path& path) {
  AttributeCase out;
  out.name = path.stem().string();
  std::ifstream file(path, std::ios::binary);
  if (!out.proto.ParseFromIstream(&file)) return Status::Error(Code::kCorrupt, "no model");
  for (const auto& property : out.proto.metadata_props()) {
    if (property.key() == "rtol") out.rtol = std::stod(property.value());
    if (property.key() == "atol") out.atol = std::stod(property.value());
    if (property.key() == "refused") out.refused = property.value();
  }
  std::set<std::string> ports;
  for (const auto& port : out.proto.graph().input()) ports.insert(port.name());
  auto* initializers = out.proto.mutable_graph()->mutable_initializer();
  for (int i = initializers->size() - 1; i >= 0; --i) {
    const std::string name = initializers->Get(i).name();
    const bool expected = name.rfind(kExpect, 0) == 0;
    if (!expected && ports.count(name) == 0) continue;
    const std::string bytes = initializers->Get(i).SerializeAsString();
    RONDO_ASSIGN_OR_RETURN(Tensor tensor, ParseTensorProto({bytes.begin(), bytes.end()}));
    (expected ? out.expected[name.substr(sizeof(kExpect) - 1)] : out.inputs[name]) = std::move(tensor);
    initializers->DeleteSubrange(i, 1);
  }
  return out;
}

const std::vector<AttributeCase>& Cases() {
  static const std::vector<AttributeCase>* cases = [] {
    auto* read = new std::vector<AttributeCase>;
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(fs::path(SourceFolder()) / "tests/data/attributes"))
      if (entry.path().extension() == ".onnx") paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      Result<AttributeCase> one = ReadCase(path);
      if (one.ok()) {
        read->push_back(one.Take());
      } else {
        ADD_FAILURE() << path << ": " << one.status().message();
      }
    }
    return read;
  }();
  return *cases;
}

void ExpectValues(const AttributeCase& c, const ir::Graph& graph) {
  ir::Values inputs;
  for (const auto& input : graph.inputs) {
    const auto found = c.inputs.find(input.name);
    ASSERT_NE(found, c.inputs.end()) << input.name;
    inputs.push_back(ir::ConstantData::Own(found->second.dtype, found->second.shape, found->second.bytes));
  }
  const auto outputs = ir::EvaluateGraph(graph, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  for (size_t i = 0; i < outputs->size(); ++i) {
    const std::string& name = graph.outputs[i].name;
    const auto& made = (*outputs)[i];
    const auto expected = c.expected.find(name);
    ASSERT_NE(expected, c.expected.end()) << name;
    const Tensor got{name, made->dtype, made->shape, {made->bytes.begin(), made->bytes.end()}};
    const auto compared = Compare(got, expected->second, c.rtol, c.atol);
    ASSERT_TRUE(compared.ok()) << name << ": " << compared.status().message();
    EXPECT_EQ(compared->mismatches, 0)
        << name << ": element " << compared->at << " is " << compared->got << ", not " << compared->want;
  }
}

TEST(Attributes, CasesHaveTheValuesOfTheReference) {
  EXPECT_GT(Cases().size(), 100u);
  for (const AttributeCase& c : Cases()) {
    SCOPED_TRACE(c.name);
    const auto graph = ImportModel(c.Model(), {}, nullptr);
    if (!c.refused.empty()) {
      ASSERT_FALSE(graph.ok());
      EXPECT_NE(std::string(graph.status().message()).find(c.refused), std::string::npos)
          << graph.status().message();
      continue;
    }
    if (!graph.ok()) {
      ADD_FAILURE() << graph.status().message();
      continue;
    }
    ExpectValues(c, *graph);
  }
}

// The attributes that handlers read in all cases.
const std::vector<AttributeRead>& Reads() {
  static const std::vector<AttributeRead>* reads = [] {
    auto* all = new std::vector<AttributeRead>;
    ImportOptions options;
    options.list_attributes = true;
    for (const AttributeCase& c : Cases()) {
      ImportReport report;
      (void)ImportModel(c.Model(), options, &report);
      all->insert(all->end(), report.attributes.begin(), report.attributes.end());
    }
    return all;
  }();
  return *reads;
}

// An attribute that no case here sets or reads, with the test that does, or the reason why none can.
struct Elsewhere {
  const char* what;  // the operator, or the file of compiler/import that reads the attribute
  const char* attribute;
  const char* test = "";  // a file below tests/ that contains the attribute's name
  const char* reason =
      "";  // why the operator cannot have the attribute: its handler shares code with one that has it
};
constexpr char kOfFused[] = "that of FusedConv, read with the other numbers of an activation";
constexpr char kOfGrouped[] = "that of GroupQueryAttention, which SparseAttention becomes";
constexpr char kOfAttention[] = "that of Attention, with which it shares the projection";
constexpr Elsewhere kElsewhere[] = {
    {"ops_random.cc", "seed", "import/ports_test.cc"},
    {"ops_random.cc", "shape", "import/ports_test.cc"},
    {"ops_random.cc", "dtype", "import/ports_test.cc"},
    {"ops_random.cc", "low", "import/ports_test.cc"},
    {"ops_random.cc", "high", "import/ports_test.cc"},
    {"ops_random.cc", "mean", "import/ports_test.cc"},
    {"ops_random.cc", "scale", "import/ports_test.cc"},
    {"ops_random.cc", "sample_size", "import/ports_test.cc"},
    {"ops_sorting.cc", "sorted", "import/data_sizes_test.cc"},
    {"ops_sorting.cc", "axis", "import/data_sizes_test.cc"},
    {"ops_suppression.cc", "center_point_box", "import/data_sizes_test.cc"},
    {"ops_regions.cc", "pooled_shape", "import/operator_options_test.cc"},
    {"ops_regions.cc", "spatial_scale", "import/operator_options_test.cc"},
    {"ops_shape.cc", "sparse_value", "import/sparse_constants_test.cc"},
    {"MatMulNBits", "weight_prepacked", "import/mixed_gemm_order_test.cc"},
    {"MoE", "swiglu_limit_after_activation", "import/contrib_operators_test.cc"},
    {"QMoE", "swiglu_limit_after_activation", "import/contrib_operators_test.cc"},
    {"QMoE", "fc3_expert_weight_bits", "", "with fc1's and fc2's, by one line"},
    {"DeformConv", "auto_pad", "", "that of Conv, with which it shares the window"},
    {"MatMul", "transA", "", "that of Gemm, whose rule over rows whose number data decide it has"},
    {"Split", "num_outputs", "", "the number of outputs is its default, and any other contradicts it"},
    {"FusedGemm", "activation_params", "", kOfFused},
    {"FusedMatMul", "activation_params", "", kOfFused},
    {"QAttention", "do_rotary", "", kOfAttention},
    {"QAttention", "qkv_hidden_sizes", "", kOfAttention},
    {"QAttention", "scale", "", kOfAttention},
    {"QAttention", "mask_filter_value", "", kOfAttention},
    {"DynamicQuantizeLSTM", "layout", "", "that of LSTM, which it becomes"},
    {"DecoderMaskedSelfAttention", "do_rotary", "", kOfAttention},
    {"DecoderMaskedSelfAttention", "qkv_hidden_sizes", "", kOfAttention},
    {"DecoderMaskedSelfAttention", "unidirectional", "import/contrib_operators_test.cc"},
    {"MultiHeadAttention", "past_present_share_buffer", "import/masked_decoder_test.cc"},
    {"GroupQueryAttention", "sliding_window_cache", "import/grouped_attention_test.cc"},
    {"QLinearAveragePool", "dilations", "", "that of AveragePool, which it becomes"},
    {"SparseAttention", "causal", "", kOfGrouped},
    {"SparseAttention", "k_quant_type", "", kOfGrouped},
    {"SparseAttention", "v_quant_type", "", kOfGrouped},
    {"SparseAttention", "local_window_size", "import/recurrent_attention_test.cc"},
    {"SparseAttention", "qk_output", "", kOfGrouped},
    {"SparseAttention", "sliding_window_cache", "", kOfGrouped},
    {"SparseAttention", "smooth_softmax", "", kOfGrouped},
    {"SparseAttention", "softcap", "", kOfGrouped},
    {"ops_grouped_attention.cc", "local_window_size", "import/grouped_attention_test.cc"},
    {"ops_branches.cc", "num_branches", "import/branches_test.cc"},
    {"expert_weights.cc", "quant_type", "import/float_weights_test.cc"},
    {"expert_weights.cc", "weights_prepacked", "import/mixed_gemm_order_test.cc"},
    {"ops_collective.cc", "group_size", "e2e/collective_ops_test.cc"},
    {"ops_collective.cc", "axis", "e2e/collective_ops_test.cc"},
    {"ops_collective.cc", "nb_rank", "e2e/collective_ops_test.cc"},
    {"ops_collective.cc", "groups", "e2e/collective_ops_test.cc"},
    {"ops_collective.cc", "reduce_op", "e2e/collective_ops_test.cc"},
    {"ops_collective.cc", "root", "e2e/collective_ops_test.cc"},
    {"ops_collective.cc", "collective_operation", "e2e/collective_ops_test.cc"},
    {"ops_rotary.cc", "mrope_section", "import/operator_options_test.cc"},
    {"ops_rotary.cc", "mrope_layout", "import/operator_options_test.cc"},
    {"ops_gated_delta.cc", "update_rule", "import/recurrent_attention_test.cc"},
};

// The rows that were needed.
std::set<const Elsewhere*>& UsedElsewhere() {
  static auto* used = new std::set<const Elsewhere*>;
  return *used;
}

bool IsElsewhere(const std::string& what, const std::string& attribute) {
  for (const Elsewhere& row : kElsewhere) {
    if (what != row.what || attribute != row.attribute) continue;
    UsedElsewhere().insert(&row);
    return true;
  }
  return false;
}

// Operators with one handler count as one: a case of any of them may set the attribute.
TEST(Attributes, WhatHandlersReadIsSetToAnotherValueThanItsDefault) {
  std::map<std::pair<std::string, std::string>, importer::Handler> handlers;
  for (const importer::OpRow* row : importer::AllOps())
    handlers.insert({{row->domain, row->op}, row->handler});
  struct Seen {
    std::string op;
    bool has_value = false, value = false, presence = false;
  };
  std::map<std::pair<importer::Handler, std::string>, Seen> seen;
  for (const AttributeRead& read : Reads()) {
    Seen& s = seen[{handlers[{read.domain, read.op}], read.name}];
    s.op = read.op;
    const bool is_value = read.kind == AttributeRead::kValue;
    s.has_value |= is_value;
    (is_value ? s.value : s.presence) |= read.is_other;
  }
  for (const auto& [key, s] : seen) {
    const bool is_set = s.has_value ? s.value : s.presence;
    EXPECT_TRUE(is_set || IsElsewhere(s.op, key.second))
        << "no case in tests/data/attributes sets \"" << key.second << "\" of " << s.op
        << " to something else than its default";
  }
}

// This also finds handlers that no case reaches, or only in part.
TEST(Attributes, EveryReadOfTheSourcesHappensInACase) {
  std::set<std::pair<std::string, int>> reached;
  // A call within a macro of several lines counts as on its first.
  constexpr int kLongestStatement = 4;
  for (const AttributeRead& read : Reads()) {
    for (int line = read.line; line < read.line + kLongestStatement; ++line)
      reached.insert({read.name, line});
  }
  const std::regex kRead(
      R"re(\b(?:Int|Float|String|Ints|Floats|Strings|Attribute|HasAttribute|SpatialInts|IntsFrom)\((?:c, )?"(\w+)")re");
  int reads = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(SourceFolder()) / "compiler/import")) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream file(entry.path());
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      for (std::sregex_iterator at(line.begin(), line.end(), kRead), end; at != end; ++at, ++reads) {
        EXPECT_TRUE(IsElsewhere(entry.path().filename(), (*at)[1]) || reached.count({(*at)[1], number}))
            << entry.path().filename() << ":" << number << ": no case in tests/data/attributes reads \""
            << (*at)[1] << "\" here";
      }
    }
  }
  EXPECT_GT(reads, 250);
}

// Must run after the tests that use the rows (tests of a suite run in order).
TEST(Attributes, WhatIsTestedElsewhereIs) {
  for (const Elsewhere& row : kElsewhere) {
    SCOPED_TRACE(std::string(row.what) + " " + row.attribute);
    EXPECT_NE(*row.test != '\0', *row.reason != '\0');
    EXPECT_TRUE(testing::GTEST_FLAG(filter) != "*" || UsedElsewhere().count(&row))
        << "nothing reads it: the row may go";
    if (*row.test == '\0') continue;
    std::ifstream file(fs::path(SourceFolder()) / "tests" / row.test);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_NE(text.find(std::string("\"") + row.attribute + "\""), std::string::npos)
        << row.test << " does not set it";
  }
}

}  // namespace
}  // namespace rondo
