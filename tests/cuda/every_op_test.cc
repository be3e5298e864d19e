// Generated code has a function for every operation and type of core/tape_ops.h. Needs libnvrtc (tools/setup
// installs it), no GPU, and fails without it.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "tests/scalar/op_sheets.h"

namespace rondo::test {
namespace {

TEST(EveryOp, HasAFunctionOnAGpu) {
  for (const OpSheet& sheet : EveryOpSheet()) {
    Arena arena;
    PartMaker maker(&arena);
    sheet.Make(&maker);
    const Kernel kernel = maker.Make();
    const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
    const Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_80"), facts);
    ASSERT_TRUE(text.ok()) << sheet.name << ": " << text.status().message();
    const Result<std::vector<uint8_t>> code = CompileCuda(text->text, "sm_80", "");
    ASSERT_TRUE(code.ok()) << sheet.name << ": " << code.status().message();
  }
}

}  // namespace
}  // namespace rondo::test
