// Headers of device code: each compiles by itself, and a kernel is compiled again only if a header that it
// includes changes. These tests need libnvrtc (tools/setup installs it) and fail without it.
#include "compiler/codegen/cuda/device_headers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/codegen/cuda/compile_units.h"
#include "compiler/codegen/cuda/device/attention_fma_layout.h"
#include "compiler/codegen/cuda/device/attention_staged_layout.h"
#include "compiler/codegen/cuda/device/few_rows_layout.h"
#include "compiler/codegen/cuda/device/tma_layout.h"
#include "compiler/codegen/cuda/device/window_layout.h"
#include "compiler/codegen/cuda/kernel_binaries.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/codegen/cuda/text_writer.h"
#include "compiler/compile.h"
#include "tests/folders.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = "compiler/codegen/cuda/device/";

TEST(DeviceHeaders, EachCompilesByItself) {
  for (const DeviceHeader& header : DeviceHeaders()) {
    const std::string text = "#include \"" + std::string(header.name) + "\"\n";
    for (const char* architecture : {"sm_80", "sm_90a"}) {
      const Result<std::vector<uint8_t>> code = CompileCuda(text, architecture, "");
      ASSERT_TRUE(code.ok()) << header.name << ": " << code.status().message();
    }
  }
}

TEST(DeviceHeaders, EveryFileOfTheFolderIsEmbeddedAsItIs) {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(fs::path(SourceFolder()) / kFolder)) {
    if (entry.path().extension() != ".md") files.insert(kFolder + entry.path().filename().string());
  }
  files.insert("formats/machine_code/kernel_params.h");
  std::set<std::string> embedded;
  for (const DeviceHeader& header : DeviceHeaders()) {
    EXPECT_TRUE(embedded.emplace(header.name).second) << header.name;
    std::ostringstream text;
    text << std::ifstream(fs::path(SourceFolder()) / header.name).rdbuf();
    EXPECT_EQ(header.text, text.str()) << header.name;
  }
  EXPECT_EQ(embedded, files);
}

// The names that a list of parameters declares: the last word of each.
std::set<std::string> ParametersOf(const std::string& list) {
  static const std::regex kLast(R"((\w+)\s*(?:,|$))");
  std::set<std::string> names;
  for (std::sregex_iterator at(list.begin(), list.end(), kLast), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

// "function: name" for each parameter that a declaration in the function's body hides. NVRTC does not warn
// about these.
std::vector<std::string> HiddenParameters(const std::string& text) {
  static const std::regex kFunction(R"((?:DEV|MEMBER) [^;{}()]*?(\w+)\(([^{};]*)\)[^;{}()]*\{)");
  static const std::regex kDeclared(R"(\b(?:int|u32|i64|float|bool|auto|At) (\w+) = )");
  std::vector<std::string> hidden;
  for (std::sregex_iterator at(text.begin(), text.end(), kFunction), end; at != end; ++at) {
    const std::set<std::string> parameters = ParametersOf((*at)[2]);
    const size_t begin = static_cast<size_t>(at->position() + at->length());
    size_t last = begin;
    for (int depth = 1; depth > 0 && last < text.size(); ++last)
      depth += text[last] == '{' ? 1 : text[last] == '}' ? -1 : 0;
    const std::string body = text.substr(begin, last - begin);
    for (std::sregex_iterator d(body.begin(), body.end(), kDeclared); d != end; ++d) {
      if (parameters.count((*d)[1]) != 0) hidden.push_back((*at)[1].str() + ": " + (*d)[1].str());
    }
  }
  return hidden;
}

TEST(DeviceHeaders, NoParameterIsHidden) {
  EXPECT_EQ(HiddenParameters("DEV void f(int a, float* b) { for (int a = 0; a < 2; ++a) b[a] = 0; }"),
            std::vector<std::string>{"f: a"});
  size_t functions = 0;
  for (const DeviceHeader& header : DeviceHeaders()) {
    const std::string text(header.text);
    for (const std::string& one : HiddenParameters(text)) ADD_FAILURE() << header.name << ": " << one;
    for (size_t at = text.find("DEV "); at != std::string::npos; at = text.find("DEV ", at + 1)) ++functions;
  }
  EXPECT_GT(functions, 50u);
}

std::vector<std::string> Names(const std::vector<DeviceHeader>& headers) {
  std::vector<std::string> names;
  for (const DeviceHeader& header : headers) names.emplace_back(header.name);
  return names;
}

// Host and device agree about a structure: the text that the compiler writes has the object's fields, and
// computed values are the same on both sides.
TEST(DeviceHeaders, WhatTheCompilerWritesOfAStructureIsThatStructureInDeviceCode) {
  const cuda::TileMatmul tile = {128, 64, 32, 4, 2, 1, 5, 2, 8, 1, -8, 0, 4, 2, 1, 1, 0, 1};
  const cuda::TmaMatmul tma = {128, 192, 1, 2, 1, 1, 0, 4, 8, 1, 0, 12, 16, 1, 3, 1, 2};
  const cuda::FewRowsMatmul few_rows = {7, 2, 4, 9, 2, 1, 0, 1, 1, 8, 0, 0, 0, 1};
  const cuda::StagedAttention attention = {64, 128, 4, 128, 2, 1, 1, 8, 8, 4};
  const cuda::FmaAttention fma = {2, 39, 71, 2, 1, 1, 1};
  const cuda::Window window = {4, 8, 3, 7, 2, 1, 1};
  const auto same = [](const std::string& text, int value) {
    return "static_assert(" + text + " == " + std::to_string(value) + ", \"\");\n";
  };
  const std::string tile_text = cuda::Aggregate("TileMatmul", tile),
                    tma_text = cuda::Aggregate("TmaMatmul", tma),
                    rows_text = cuda::Aggregate("FewRowsMatmul", few_rows);
  std::string text;
  for (const char* header : {"tile_layout.h", "tma_layout.h", "few_rows_layout.h",
                             "attention_staged_layout.h", "attention_fma_layout.h", "window_layout.h"})
    text += "#include \"" + kFolder + header + "\"\n";
  text += same(tile_text + ".b_constant", 1) + same(tile_text + ".a_vector", -8) +
          same(tile_text + ".mma_layout().shared(5)", tile.mma_layout().shared(5)) +
          same(tile_text + ".float_layout().stage()", tile.float_layout().stage()) +
          same(tma_text + ".words", 12) + same(tma_text + ".shared()", tma.shared()) +
          same(tma_text + ".threads()", tma.threads()) + same(rows_text + ".b_constant", 1) +
          same(rows_text + ".streamed", 1) +
          same(rows_text + ".besides_stages(4096)", few_rows.besides_stages(4096)) +
          same(cuda::Aggregate("StagedAttention", attention) + ".shared()", attention.shared()) +
          same(cuda::Aggregate("FmaAttention", fma) + ".shared()", fma.shared()) +
          same(cuda::Aggregate("Window", window) + ".span()", window.span());
  const Result<std::vector<uint8_t>> code = CompileCuda(text, "sm_90a", "");
  ASSERT_TRUE(code.ok()) << code.status().message();
  EXPECT_FALSE(CompileCuda(text + same(tma_text + ".shared()", tma.shared() + 1), "sm_90a", "").ok());
}

TEST(DeviceHeaders, WhatATextReachesIsListedOnceAndAfterWhatItIncludes) {
  const DeviceHeader headers[] = {{"a", "#include \"b\"\n#include \"c\"\n"},
                                  {"b", "#include \"c\"\n"},
                                  {"c", "#include \"a\"\n"},
                                  {"d", ""}};
  const std::string text = "#include \"a\"\n// #include \"d\"\n#include \"unknown\"\n#include \"d";
  EXPECT_EQ(Names(ReachedHeaders(text, headers)), (std::vector<std::string>{"c", "b", "a"}));
  EXPECT_EQ(WholeText("#include \"d\"\nx", headers), "// d\n#include \"d\"\nx");
  EXPECT_TRUE(ReachedHeaders("", headers).empty());
}

// Kernels of a model with attention, matmuls, norms and maps.
class EditedHeaders : public ::testing::Test {
 protected:
  void SetUp() override {
    CompileOptions options;
    options.models = {{"main", SourceFolder() + "/tests/data/fixtures/bert_ts17/model.onnx"}};
    options.precision = Precision::kF16;
    const Result<CompiledPlan> compiled = CompileToMemory(options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const std::vector<std::vector<cuda::ParamFacts>> facts = FactsOf(compiled->plan);
    std::set<std::string> different;
    for (size_t k = 0; k < compiled->plan.kernels.size(); ++k) {
      const Result<KernelText> text =
          WriteKernelText(compiled->plan.kernels[k], TargetOf("sm_90a"), facts[k]);
      ASSERT_TRUE(text.ok()) << text.status().message();
      different.insert(text->text);
    }
    texts_.assign(different.begin(), different.end());
    units_.architecture = "sm_90a";
    units_.cache_folder = folder_.string();
  }

  // The number of kernels that are compiled again after the text of one header has changed.
  size_t CompiledAfterEditing(const std::string& file) {
    std::vector<DeviceHeader> headers(DeviceHeaders().begin(), DeviceHeaders().end());
    const auto edited = std::find_if(headers.begin(), headers.end(), [&](const DeviceHeader& header) {
      return header.name == kFolder + file;
    });
    EXPECT_NE(edited, headers.end()) << file;
    const std::string text = std::string(edited->text) + "// edited\n";
    edited->text = text;
    units_.headers = headers;
    const Result<CompiledUnits> compiled = CompileUnits(texts_, units_);
    units_.headers = DeviceHeaders();
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    return compiled.ok() ? compiled->codes.size() - compiled->cached : 0;
  }
  size_t With(const std::string& words) const {
    return static_cast<size_t>(std::count_if(texts_.begin(), texts_.end(), [&](const std::string& text) {
      return text.find(words) != std::string::npos;
    }));
  }

  std::vector<std::string> texts_;  // distinct texts
  TemporaryFolder folder_;
  UnitOptions units_;
};

TEST_F(EditedHeaders, OnlyKernelsThatIncludeThemAreCompiledAgain) {
  ASSERT_GE(texts_.size(), 4u);
  const Result<CompiledUnits> first = CompileUnits(texts_, units_);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->cached, 0u);
  const size_t attention = With("AttentionWarp<"), mma = With("matmul_mma<"), tma = With("matmul_tma<");
  EXPECT_GT(attention, 0u);
  EXPECT_GT(mma + tma, 0u);
  EXPECT_LT(attention + mma + tma, texts_.size());
  EXPECT_EQ(CompiledAfterEditing("attention_block.cuh"), attention);
  EXPECT_EQ(CompiledAfterEditing("matmul_mma.cuh"), mma);
  EXPECT_EQ(CompiledAfterEditing("tma.cuh"), tma);
  EXPECT_EQ(CompiledAfterEditing("windows.cuh"), 0u);
  EXPECT_EQ(CompiledAfterEditing("types.cuh"), texts_.size());
}

}  // namespace
}  // namespace rondo
