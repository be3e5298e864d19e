// Checks every #include of the tree against the table of layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/folders.h"
#include "tests/layering/source_files.h"

namespace {

namespace fs = std::filesystem;

// Files below `folder` may include files below `may`, and no library named in `not_libraries`. The first row
// that matches a file decides.
struct Row {
  std::string folder;
  std::vector<std::string> may;
  std::vector<std::string> not_libraries;
};

const std::vector<std::string> kHeavy = {"google/", "CLI/", "nlohmann/", "gtest/", "benchmark/"};
const std::vector<std::string> kAnyLibrary = {"google/", "CLI/",         "nlohmann/", "gtest/", "benchmark/",
                                              "xxhash",  "flatbuffers/", "mimalloc",  "dnnl",   "oneapi/",
                                              "cuda",    "nccl",         "cublas",    "cudnn",  "nvrtc"};

const std::vector<Row> kTable = {
    {"core/", {"core/"}, kAnyLibrary},
    {"formats/machine_code/", {"core/", "formats/machine_code/"}, kHeavy},
    {"formats/plan/measured_times.cc", {"core/", "formats/plan/", "formats/machine_code/"}, kHeavy},
    {"formats/plan/", {"core/", "formats/plan/"}, kHeavy},
    {"formats/onnx/", {"core/", "formats/"}, {"CLI/", "gtest/", "benchmark/"}},
    {"formats/tensor/", {"core/", "formats/"}, {"CLI/", "gtest/", "benchmark/"}},
    {"compiler/codegen/cuda/device/",
     {"compiler/codegen/cuda/device/", "formats/machine_code/kernel_params.h"},
     {""}},  // may include no library
    {"compiler/", {"core/", "formats/", "compiler/"}, {"CLI/", "gtest/", "benchmark/"}},
    {"runtime/testing/", {"runtime/"}, {"google/", "CLI/", "nlohmann/", "benchmark/"}},
    {"runtime/", {"core/", "formats/plan/", "runtime/"}, kHeavy},
    {"drivers/cuda/", {"core/", "drivers/", "formats/machine_code/"}, kHeavy},
    {"drivers/", {"core/", "drivers/"}, kHeavy},
    {"tests/", {""}, {}},
    {"tools/", {""}, {}},
};

struct Include {
  std::string target;
  bool quoted = false;
};

// The includes of one file's text. An #include at the start of a line in a comment counts too.
std::vector<Include> IncludesOf(std::istream& text) {
  static const std::regex kPattern(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  std::vector<Include> found;
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    if (std::regex_search(line, match, kPattern)) found.push_back({match[2], match[1] == "\""});
  }
  return found;
}

bool StartsWithOneOf(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return text.rfind(prefix, 0) == 0; });
}

// The reason why `file` (relative to the root) may not include `include`; empty if it may.
std::string Refusal(const std::string& file, const Include& include) {
  for (const Row& row : kTable) {
    if (file.rfind(row.folder, 0) != 0) continue;
    if (!include.quoted) {
      if (!StartsWithOneOf(include.target, row.not_libraries)) return "";
      return file + ": <" + include.target + "> is a library that " + row.folder + " does without";
    }
    if (include.target.find("..") != std::string::npos) {
      return file + ": \"" + include.target + "\" is not named from the root";
    }
    if (StartsWithOneOf(include.target, row.may)) return "";
    std::string allowed;
    for (const std::string& folder : row.may) allowed += (allowed.empty() ? "" : ", ") + folder;
    return file + ": \"" + include.target + "\" is outside of what " + row.folder +
           " may include: " + allowed;
  }
  return file + ": no row of the table covers this file";
}

TEST(Layering, EveryIncludeStaysInItsLayer) {
  const fs::path root = rondo::SourceFolder();
  const std::vector<std::string> files = rondo::SourceFiles({".h", ".hpp", ".cc", ".c", ".cuh"});
  ASSERT_GT(files.size(), 10u);
  for (const std::string& file : files) {
    std::ifstream text(root / file);
    ASSERT_TRUE(text) << file;
    for (const Include& include : IncludesOf(text)) {
      const std::string refusal = Refusal(file, include);
      EXPECT_TRUE(refusal.empty()) << refusal;
    }
  }
}

TEST(Layering, TheTableRefusesWhatTheDesignForbids) {
  EXPECT_NE(Refusal("core/status.h", {"formats/plan/plan.h", true}), "");
  EXPECT_NE(Refusal("core/status.h", {"xxhash.h", false}), "");
  EXPECT_NE(Refusal("formats/plan/reader.cc", {"compiler/ir/graph.h", true}), "");
  EXPECT_NE(Refusal("formats/plan/reader.cc", {"formats/onnx/import.h", true}), "");
  EXPECT_NE(Refusal("runtime/session.cc", {"drivers/host/host_driver.h", true}), "");
  EXPECT_NE(Refusal("runtime/session.cc", {"formats/tensor/tensor.h", true}), "");
  EXPECT_NE(Refusal("runtime/session.cc", {"google/protobuf/message.h", false}), "");
  EXPECT_NE(Refusal("drivers/host/host_driver.cc", {"runtime/session.h", true}), "");
  EXPECT_NE(Refusal("compiler/memory/plan_memory.cc", {"runtime/session.h", true}), "");
  EXPECT_NE(Refusal("compiler/memory/plan_memory.cc", {"../core/plan.h", true}), "");
  EXPECT_NE(Refusal("compiler/codegen/cuda/device/mma.cuh", {"cstdint", false}), "");
  EXPECT_NE(Refusal("compiler/codegen/cuda/device/mma.cuh", {"core/plan.h", true}), "");
}

TEST(Layering, TheTableAllowsWhatTheDesignAllows) {
  EXPECT_EQ(Refusal("core/status.cc", {"core/status.h", true}), "");
  EXPECT_EQ(Refusal("core/status.cc", {"cstdio", false}), "");
  EXPECT_EQ(Refusal("compiler/pipeline.cc", {"formats/onnx/import.h", true}), "");
  EXPECT_EQ(Refusal("runtime/session.cc", {"formats/plan/reader.h", true}), "");
  EXPECT_EQ(Refusal("tools/rondo/run.cc", {"runtime/session.h", true}), "");
}

// A file outside of these folders would not be checked.
TEST(Layering, NothingElseLiesAtTheTop) {
  for (const auto& entry : fs::directory_iterator(fs::path(rondo::SourceFolder()))) {
    const std::string name = entry.path().filename();
    if (name[0] == '.' || name == "build") continue;
    const std::vector<std::string> known = {"CMakeLists.txt", "CMakePresets.json", "CHANGELOG.md", "LICENSE",
                                            "README.md",      "pyproject.toml",    "core",         "compiler",
                                            "runtime",        "formats",           "drivers",      "tests",
                                            "tools"};
    EXPECT_NE(std::find(known.begin(), known.end(), name), known.end()) << name;
  }
}

}  // namespace
