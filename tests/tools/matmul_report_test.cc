// The report of `rondo inspect` on matmuls that a library computes.
#include <gtest/gtest.h>

#include "tests/plan/matmul_plan.h"
#include "tools/rondo/plan_report.h"
#include "tools/rondo/plan_texts.h"

namespace rondo::tools {
namespace {

TEST(MatmulReport, NamesShapeTypeEndAndScratch) {
  Sample s = MakeProductSample();
  EXPECT_EQ(MatmulText(MatmulOf(s)),
            "cuBLASLt 4 x 16 x 8 f32 (tf32), bias, addend, ReLU, algorithm 3, workspace 4096 B");
  LibraryMatmul plain = MatmulOf(s);
  plain.lhs.dtype = DType::kBF16;
  plain.batches = 2;
  plain.tf32 = false;
  plain.bias = plain.addend = {};
  plain.epilogue = MatmulEpilogue::kGeluTanh;
  plain.algorithm = kNone;
  EXPECT_EQ(MatmulText(plain), "cuBLASLt 2 of 4 x 16 x 8 bf16 to f32, GELU by tanh, workspace 4096 B");
}

TEST(MatmulReport, StandsInTextAndJson) {
  Sample s = MakeProductSample();
  PlanFile file;
  file.data = s.data;
  bool found = false;
  for (const Section& section : MakePlanReport(file, "p", {}).sections) {
    if (section.title != "Matmuls by a library") continue;
    ASSERT_EQ(section.table.rows.size(), 1u);
    EXPECT_EQ(section.table.rows[0][0], "k0_matmul");
    EXPECT_EQ(section.table.rows[0][1], "sm_90a");
    found = true;
  }
  EXPECT_TRUE(found);
  const std::string json = PlanToJson(file, "p");
  for (const char* part : {"\"epilogue\": \"relu\"", "\"k\": 8", "\"algorithm\": 3",
                           "\"library\": \"cublasLt\"", "\"workspace_bytes\": 4096"})
    EXPECT_NE(json.find(part), json.npos) << part;
}

}  // namespace
}  // namespace rondo::tools
