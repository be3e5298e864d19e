// Compares every operation in every type over edge values on a GPU with the definition in core/scalar.h.
#include "tests/cuda/gpu_suite.h"
#include "tests/scalar/op_sheets.h"

namespace rondo::test {
namespace {

TEST(GpuOps, EveryOpIsComputedAsDefined) {
  Suite suite;
  static const std::vector<OpSheet> sheets = EveryOpSheet();
  for (const OpSheet& sheet : sheets) {
    Case& c = suite.Add(sheet.name);
    sheet.Make(&c.maker);
    c.memory = sheet.Fill(c.maker);
    c.canaries = false;  // tangents and powers of large numbers differ
    c.difference = [&sheet](const Memory& got) {
      std::string text;
      for (size_t i = 0; i < sheet.columns.size(); ++i)
        text += sheet.Difference(sheet.columns[i], got.params[sheet.inputs.size() + i].data());
      return text;
    };
  }
  suite.Run();
}

}  // namespace
}  // namespace rondo::test
