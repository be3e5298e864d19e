// The fixtures in tests/data through the importer and the evaluator, and the results of damaging them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "compiler/import/import.h"
#include "tests/folders.h"
#include "tests/import/case_runner.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

fs::path Fixtures() { return fs::path(SourceFolder()) / "tests" / "data" / "fixtures"; }

TEST(Cases, FixturesEvaluateToTheirExpectedOutputs) {
  for (const auto& entry : fs::directory_iterator(Fixtures())) {
    Status status = RunCase(entry.path().string(), CaseOptions());
    EXPECT_TRUE(status.ok()) << entry.path() << ": " << status.message();
  }
}

// Flips, removes and repeats bytes. Every result is a graph or an error.
TEST(Cases, DamagedModelsNeverCrash) {
  std::ifstream file(Fixtures() / "llama_decode_op23" / "model.onnx", std::ios::binary);
  std::string whole{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(whole.empty());
  std::mt19937 random(1);
  int errors = 0;
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    // The structure is near the start of the file, and weights follow.
    size_t reach = round % 2 == 0 ? std::min<size_t>(bytes.size(), 20000) : bytes.size();
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips) {
      size_t at = random() % reach;
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] + 1); break;
        case 2: bytes.erase(at, 1 + random() % 8); break;
        default: bytes.insert(at, bytes.substr(at, random() % 16)); break;
      }
      reach = std::min(reach, bytes.size());
    }
    auto model = onnx::Model::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, ".");
    if (!model.ok()) {
      ++errors;
      continue;
    }
    auto graph = ImportModel(*model, ImportOptions(), nullptr);
    errors += graph.ok() ? 0 : 1;
    if (graph.ok()) {
      EXPECT_EQ(ir::Validate(*graph), "");
    }
  }
  EXPECT_GT(errors, 0);
}

}  // namespace
}  // namespace rondo
