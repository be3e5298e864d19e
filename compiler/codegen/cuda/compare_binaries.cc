#include "compiler/codegen/cuda/compare_binaries.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "compiler/codegen/cuda/compile_units.h"
#include "compiler/codegen/cuda/device_headers.h"
#include "compiler/codegen/cuda/kernel_binaries.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "formats/machine_code/binary_digest.h"

namespace rondo {
namespace {

constexpr uint32_t kNoText = kNone;

// A binary of the module, its expected value, and the text that it is compiled from.
struct Pair {
  const KernelBinary* binary = nullptr;
  uint32_t kernel = 0;
  std::string name;
  KernelBinary expected;
  uint32_t text = kNoText;
};

bool SameMaps(Span<const TensorMap> a, Span<const TensorMap> b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const TensorMap& x, const TensorMap& y) {
           return x.param == y.param && x.offset == y.offset && x.dtype == y.dtype && x.rank == y.rank &&
                  x.swizzle == y.swizzle && std::equal(x.extents, x.extents + kMaxTensorMapRank, y.extents) &&
                  std::equal(x.strides, x.strides + kMaxTensorMapRank - 1, y.strides) &&
                  std::equal(x.box, x.box + kMaxTensorMapRank, y.box);
         });
}

// The fields of the binary that differ from the expected ones, code excepted; "" if none do.
std::string Different(const KernelBinary& is, const KernelBinary& expected, uint32_t block) {
  std::string what;
  const auto compare = [&](const char* name, uint64_t a, uint64_t b) {
    if (a != b)
      what += (what.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(a) + " and not " +
              std::to_string(b);
  };
  if (is.entry != expected.entry)
    what = "function " + std::string(is.entry) + " and not " + std::string(expected.entry);
  compare("blocks", is.grid, expected.grid);
  compare("threads", is.block == 0 ? block : is.block, expected.block == 0 ? block : expected.block);
  compare("bytes of shared memory", is.shared, expected.shared);
  compare("waits", is.waits, expected.waits);
  if (!SameMaps(is.tensor_maps, expected.tensor_maps))
    what += (what.empty() ? "" : ", ") + std::string("other tensor maps");
  if (is.text_digest != expected.text_digest)
    what += (what.empty() ? "" : ", ") + std::string("compiled from another text");
  return what;
}

class Comparer {
 public:
  Comparer(const PlanData& plan, const CodeModule& module) : plan_(plan), module_(module) {}

  Result<BinaryComparison> Compare(const std::string& library_path) {
    RONDO_RETURN_IF_ERROR(Write());
    UnitOptions units;
    units.architecture = std::string(module_.architecture);
    units.library_path = library_path;
    if (!texts_.empty()) RONDO_RETURN_IF_ERROR(CheckCompiler(units));
    RONDO_ASSIGN_OR_RETURN(const CompiledUnits compiled, CompileUnits(texts_, units));
    out_.codes = static_cast<uint32_t>(compiled.codes.size());
    for (const Pair& pair : pairs_) Judge(pair, compiled);
    return std::move(out_);
  }

 private:
  // Writes the expected binaries and the texts to compile.
  Status Write() {
    facts_ = FactsOf(plan_);
    for (uint32_t k = 0; k < module_.binaries.size(); ++k)
      RONDO_RETURN_IF_ERROR(Add(k, module_.binaries[k], ""));
    for (const KernelAlternative& other : module_.alternatives)
      RONDO_RETURN_IF_ERROR(
          Add(other.kernel, other.binary, ", alternative \"" + std::string(other.choice) + "\""));
    return Status::Ok();
  }

  Status Add(uint32_t kernel, const KernelBinary& binary, const std::string& what) {
    Pair pair;
    pair.binary = &binary;
    pair.kernel = kernel;
    pair.name = "module " + std::string(module_.architecture) + ", kernel " + std::to_string(kernel) + " \"" +
                std::string(plan_.kernels[kernel].name) + "\"" + what;
    ++out_.binaries;
    if (binary.kind == BinaryKind::kLibraryMatmul) {
      RONDO_ASSIGN_OR_RETURN(pair.expected,
                             LibraryBinary(plan_.kernels[kernel], binary.matmul->algorithm, arena_));
    } else {
      const std::optional<KernelConfiguration> choice = ParseKernelConfiguration(binary.choice);
      if (!choice && !binary.choice.empty()) {
        out_.failures.push_back(pair.name + ": its choice \"" + std::string(binary.choice) + "\" is unknown");
        return Status::Ok();
      }
      CudaTarget target = TargetOf(std::string(module_.architecture), plan_.kernels);
      if (choice) target.configuration = *choice;
      RONDO_ASSIGN_OR_RETURN(const KernelText text,
                             WriteKernelText(plan_.kernels[kernel], target, facts_[kernel]));
      pair.text = static_cast<uint32_t>(texts_.size());
      texts_.push_back(text.text);
      pair.expected = LaunchOf(text, target.configuration, WholeText(text.text, DeviceHeaders()), arena_);
    }
    pairs_.push_back(pair);
    return Status::Ok();
  }

  Status CheckCompiler(const UnitOptions& units) const {
    RONDO_ASSIGN_OR_RETURN(const Nvrtc nvrtc, Nvrtc::Open(units.library_path));
    const std::string here = nvrtc.Signature(units.architecture);
    if (here == module_.compiler) return Status::Ok();
    return Status::Error(Code::kUnsupported,
                         "module %s was compiled by \"%.*s\", which cannot be compared with \"%s\"",
                         units.architecture.c_str(), static_cast<int>(module_.compiler.size()),
                         module_.compiler.data(), here.c_str());
  }

  void Judge(const Pair& pair, const CompiledUnits& compiled) {
    std::string what;
    if (pair.text == kNoText) {
      KernelBinary expected = pair.expected;
      expected.choice = pair.binary->choice;
      const std::vector<uint64_t> none;
      if (BinaryDigest(plan_.kernels[pair.kernel], module_, expected, none) !=
          BinaryDigest(plan_.kernels[pair.kernel], module_, *pair.binary, none)) {
        what = "another matmul than its contract says";
      }
    } else {
      what = Different(*pair.binary, pair.expected, module_.block);
      const std::vector<uint8_t>& code = compiled.codes[compiled.code_of[pair.text]];
      const Span<const uint8_t> is = module_.codes[pair.binary->code];
      if (is.size() != code.size() || std::memcmp(is.data(), code.data(), code.size()) != 0) {
        what += (what.empty() ? "" : ", ") + std::string("code of ") + std::to_string(is.size()) +
                " bytes that is not the " + std::to_string(code.size()) + " its contract compiles to";
      }
    }
    if (!what.empty()) out_.failures.push_back(pair.name + ": " + what);
  }

  const PlanData& plan_;
  const CodeModule& module_;
  Arena arena_;
  std::vector<std::vector<cuda::ParamFacts>> facts_;
  std::vector<Pair> pairs_;
  std::vector<std::string> texts_;
  BinaryComparison out_;
};

}  // namespace

Result<BinaryComparison> CompareBinaries(const PlanData& plan, const CodeModule& module,
                                         const std::string& library_path) {
  return Comparer(plan, module).Compare(library_path);
}

}  // namespace rondo
