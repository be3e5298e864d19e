// Machine code: ELF images and PTX, read as before they are loaded. The values read for a function must be
// possible.
#include "formats/machine_code/binary_check.h"
#include "formats/machine_code/cubin.h"
#include "formats/machine_code/ptx.h"
#include "tests/cuda/make_cubin.h"
#include "tests/fuzz/target.h"

namespace rondo::fuzz {
namespace {

constexpr const char* kStages[] = {"refused", "without functions that can be", "with functions"};

template <typename T>
size_t RunAs(const Result<T>& read, Span<const uint8_t> input) {
  if (!read.ok()) return 0;
  const T& code = *read;
  size_t good = 0;
  for (std::string_view entry : code.Entries()) {
    const char* const first = reinterpret_cast<const char*>(input.data());
    if (entry.data() < first || entry.data() + entry.size() > first + input.size())
      Broken("a function's name lies outside of its code");
    const Result<FunctionNeeds> needs = code.Function(entry);
    if (!needs.ok()) continue;
    if ((*needs).params.size() > kMostFunctionParams) Broken("%zu parameters", (*needs).params.size());
    (void)FitsBlock(*needs, 256, 1024, 227 << 10);
    ++good;
  }
  return good > 0 ? 2 : 1;
}

class MachineCodes final : public Target {
 public:
  const char* name() const override { return "machine_code"; }
  Span<const char* const> stages() const override { return kStages; }
  Bytes Mutate(Span<const uint8_t> input, Random& random) override { return MutateBytes(input, random); }
  size_t Run(Span<const uint8_t> input) override {
    return Ptx::Is(input) ? RunAs(Ptx::Read(input), input) : RunAs(Cubin::Read(input), input);
  }
  std::vector<Seed> MakeSeeds() override {
    FunctionNeeds few, many;
    few.params = PassedParams(2, 1);
    few.registers = 32;
    few.most_threads = 256;
    many.params = PassedParams(40);
    many.shared = 4096;
    many.cluster = 2;
    many.exact_threads = 128;
    const std::string ptx =
        ".version 9.0\n.target sm_80\n.address_size 64\n// f\n.visible .entry f(\n\t.param .u64 f_param_0,\n"
        "\t.param .align 64 .b8 f_param_1[128],\n\t.param .u32 f_param_2\n)\n.maxntid 288, 1, 1\n"
        ".reqnctapercluster 2, 1, 1\n{\n\tret;\n}\n";
    return {{"one.cubin", MakeCubin(90, {{"f", few}})},
            {"two.cubin", MakeCubin(80, {{"f", few}, {"rondo_map", many}})},
            {"cuda12.cubin", MakeCubin(89, {{"f", many}}, true)},
            {"one.ptx", Bytes(ptx.c_str(), ptx.c_str() + ptx.size() + 1)}};
  }
};

}  // namespace

std::unique_ptr<Target> MachineCodeTarget() { return std::make_unique<MachineCodes>(); }

}  // namespace rondo::fuzz
