#include "compiler/codegen/cuda/add_modules.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/device_headers.h"
#include "compiler/codegen/cuda/kernel_binaries.h"
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "formats/machine_code/binary_digest.h"

namespace rondo {

namespace {

using cuda::ParamFacts;

// The library algorithm that computes the kernel; none if the kernel is generated.
std::optional<uint32_t> LibraryOf(const EmittedPlan& emitted, size_t kernel) {
  return kernel < emitted.library.size() ? emitted.library[kernel] : std::nullopt;
}

KernelConfiguration LibraryConfiguration(uint32_t algorithm) {
  KernelConfiguration configuration;
  configuration.variant = VariantId::kLibrary;
  if (algorithm != kNone) configuration.algorithm = algorithm + 1;
  return configuration;
}

// A kernel text, and the accuracy that its matmuls were asked for.
struct AskedText {
  KernelText text;
  KernelConfiguration asked;
};

// A kernel's text, the texts of its other candidates, and the library algorithms to try too.
struct KernelTexts {
  AskedText own;
  std::vector<AskedText> others;
  std::vector<KernelConfiguration> of_library;
};

// The generated candidates other than `chosen`, best first.
std::vector<KernelCandidate> OthersGenerated(std::vector<KernelCandidate> candidates,
                                             const KernelConfiguration& chosen) {
  std::erase_if(candidates, [&](const KernelCandidate& candidate) {
    return candidate.configuration.variant == VariantId::kLibrary || candidate.configuration == chosen;
  });
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const KernelCandidate& a, const KernelCandidate& b) { return a.microseconds < b.microseconds; });
  return candidates;
}

// The library algorithms that could compute the kernel: the first one, or all others if a library already
// computes it.
std::vector<KernelConfiguration> OthersOfLibrary(const std::vector<KernelCandidate>& candidates,
                                                 std::optional<uint32_t> library) {
  std::vector<KernelConfiguration> others;
  for (const KernelCandidate& candidate : candidates) {
    const KernelConfiguration& configuration = candidate.configuration;
    if (configuration.variant != VariantId::kLibrary) continue;
    if ((configuration.algorithm != 0) == library.has_value() &&
        !(library && configuration == LibraryConfiguration(*library)))
      others.push_back(configuration);
  }
  return others;
}

// Records the result of the profile's choice for one kernel.
void Note(const Kernel& kernel, const KernelConfiguration& asked, const KernelConfiguration& got,
          ProfileUse* use) {
  if (asked == KernelConfiguration()) return;
  if (asked == got) {
    ++use->taken;
    return;
  }
  use->unknown.push_back("kernel " + std::string(kernel.name) + " cannot be computed by \"" + Text(asked) +
                         "\"" + (got == KernelConfiguration() ? "" : ": it is by \"" + Text(got) + "\""));
}

// Writes the best other candidates, up to `most` texts, and records those of a library.
Status WriteOthers(const Kernel& kernel, CudaTarget target, Span<const ParamFacts> facts,
                   std::optional<uint32_t> library, int64_t most, KernelTexts* texts) {
  const std::vector<KernelCandidate> candidates = KernelCandidates(kernel, target, facts);
  texts->of_library = OthersOfLibrary(candidates, library);
  // A kernel that a library computes also has its best generated text as an alternative.
  if (library && texts->own.text.configuration != KernelConfiguration()) texts->others.push_back(texts->own);
  for (const KernelCandidate& other : OthersGenerated(candidates, texts->own.text.configuration)) {
    if (static_cast<int64_t>(texts->others.size()) >= most) break;
    target.configuration = other.configuration;
    RONDO_ASSIGN_OR_RETURN(KernelText text, WriteKernelText(kernel, target, facts));
    if (text.configuration == other.configuration)
      texts->others.push_back({std::move(text), other.configuration});
  }
  return Status::Ok();
}

Result<std::vector<KernelTexts>> WriteKernels(const EmittedPlan& emitted, const ModuleOptions& options,
                                              ProfileUse* use) {
  const PlanData& plan = emitted.plan;
  CudaTarget target = TargetOf(options.units.architecture, plan.kernels);
  if (options.processors != 0) target.processors = options.processors;
  const bool profiled = options.profile.architecture == options.units.architecture;
  std::vector<std::vector<ParamFacts>> facts = FactsOf(plan);
  std::vector<KernelTexts> kernels(plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    KernelTexts& texts = kernels[k];
    const std::optional<uint32_t> library = LibraryOf(emitted, k);
    const KernelConfiguration asked = profiled ? options.profile.Of(kernel) : KernelConfiguration();
    target.configuration = asked == KernelConfiguration() ? options.configuration : asked;
    if (library && options.alternatives == 0) {
      Note(kernel, asked, LibraryConfiguration(*library), use);
      continue;
    }
    texts.own.asked = target.configuration;
    RONDO_ASSIGN_OR_RETURN(texts.own.text, WriteKernelText(kernel, target, facts[k]));
    Note(kernel, asked, library ? LibraryConfiguration(*library) : texts.own.text.configuration, use);
    if (options.alternatives > 0)
      RONDO_RETURN_IF_ERROR(WriteOthers(kernel, target, facts[k], library, options.alternatives, &texts));
  }
  const size_t known = use->taken + use->unknown.size(), all = options.profile.choices.size();
  use->unused = static_cast<uint32_t>(all - std::min(all, known));
  return kernels;
}

// The texts of all generated kernels, then those of the alternatives. BinaryMaker takes the compiled codes in
// this order.
std::vector<std::string> TextsToCompile(const EmittedPlan& emitted, const std::vector<KernelTexts>& kernels) {
  std::vector<std::string> texts;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (!LibraryOf(emitted, k)) texts.push_back(kernels[k].own.text.text);
  }
  for (const KernelTexts& kernel : kernels) {
    for (const AskedText& other : kernel.others) texts.push_back(other.text.text);
  }
  return texts;
}

// Makes the binaries of a plan's kernels, then those of their alternatives. Their data lies in the plan's
// arena.
class BinaryMaker {
 public:
  BinaryMaker(const EmittedPlan& emitted, const std::vector<KernelTexts>& kernels,
              Span<const DeviceHeader> headers, const CompiledUnits& compiled)
      : emitted_(emitted),
        kernels_(kernels),
        headers_(headers),
        compiled_(compiled),
        arena_(*emitted.arena),
        facts_(FactsOf(emitted.plan)) {}

  Result<std::vector<KernelBinary>> Binaries() {
    std::vector<KernelBinary> binaries;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      KernelBinary binary;
      if (const std::optional<uint32_t> library = LibraryOf(emitted_, k)) {
        RONDO_ASSIGN_OR_RETURN(binary, LibraryBinary(emitted_.plan.kernels[k], *library, arena_));
      } else {
        binary = BinaryOf(kernels_[k].own, k);
      }
      binaries.push_back(binary);
    }
    return binaries;
  }

  // For each kernel with alternatives: the current choice, the generated others, and the library's.
  Result<std::vector<KernelAlternative>> Alternatives(const std::vector<KernelBinary>& binaries,
                                                      bool of_libraries) {
    std::vector<KernelAlternative> alternatives;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const auto add = [&](const KernelConfiguration& configuration, const KernelBinary& binary) {
        alternatives.push_back({static_cast<uint32_t>(k), arena_.CopyText(Text(configuration)), binary});
      };
      const std::optional<uint32_t> library = LibraryOf(emitted_, k);
      const KernelConfiguration& own = kernels_[k].own.text.configuration;
      if (library || own != KernelConfiguration())
        add(library ? LibraryConfiguration(*library) : own, binaries[k]);
      for (const AskedText& other : kernels_[k].others) add(other.text.configuration, BinaryOf(other, k));
      if (!of_libraries) continue;
      for (const KernelConfiguration& other : kernels_[k].of_library) {
        const uint32_t algorithm = other.algorithm > 0 ? static_cast<uint32_t>(other.algorithm - 1) : kNone;
        RONDO_ASSIGN_OR_RETURN(const KernelBinary binary,
                               LibraryBinary(emitted_.plan.kernels[k], algorithm, arena_));
        add(other, binary);
      }
    }
    return alternatives;
  }

 private:
  KernelBinary BinaryOf(const AskedText& of, size_t kernel) {
    KernelBinary binary = LaunchOf(of.text, of.asked, WholeText(of.text.text, headers_), arena_);
    binary.code = compiled_.code_of[next_++];
    std::vector<uint32_t> assumes;
    for (const ParamFacts& fact : facts_[kernel])
      assumes.push_back(static_cast<uint32_t>(fact.alignment) | (fact.constant ? kAssumesConstant : 0));
    binary.assumes = arena_.Copy(assumes);
    return binary;
  }

  const EmittedPlan& emitted_;
  const std::vector<KernelTexts>& kernels_;
  const Span<const DeviceHeader> headers_;
  const CompiledUnits& compiled_;
  Arena& arena_;
  const std::vector<std::vector<ParamFacts>> facts_;  // what the texts rely on
  size_t next_ = 0;                                   // of TextsToCompile
};

// Gives every binary its digest.
void Seal(const PlanData& plan, const CodeModule& module, std::vector<KernelBinary>* binaries,
          std::vector<KernelAlternative>* alternatives) {
  const std::vector<uint64_t> codes = CodeDigests(module);
  for (size_t k = 0; k < binaries->size(); ++k)
    (*binaries)[k].digest = BinaryDigest(plan.kernels[k], module, (*binaries)[k], codes);
  for (KernelAlternative& other : *alternatives)
    other.binary.digest = BinaryDigest(plan.kernels[other.kernel], module, other.binary, codes);
}

}  // namespace

Result<std::string> CudaText(const PlanData& plan, const std::string& architecture) {
  ModuleOptions options;
  options.units.architecture = architecture;
  EmittedPlan emitted;
  emitted.plan = plan;
  ProfileUse use;
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelTexts> kernels, WriteKernels(emitted, options, &use));
  std::string text;
  for (const KernelTexts& kernel : kernels) text += kernel.own.text.text;
  return text;
}

Status AddCudaModules(EmittedPlan* emitted, const ModuleOptions& options, std::string* report,
                      ProfileUse* use) {
  PlanData& plan = emitted->plan;
  Arena* arena = emitted->arena.get();
  ProfileUse unseen;
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelTexts> kernels,
                         WriteKernels(*emitted, options, use != nullptr ? use : &unseen));
  const std::vector<std::string> texts = TextsToCompile(*emitted, kernels);
  RONDO_ASSIGN_OR_RETURN(CompiledUnits compiled, CompileUnits(texts, options.units));
  std::vector<Span<const uint8_t>> codes;
  size_t bytes = 0;
  for (const std::vector<uint8_t>& code : compiled.codes) {
    codes.push_back(arena->Copy(code));
    bytes += code.size();
  }
  BinaryMaker maker(*emitted, kernels, options.units.headers, compiled);
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelBinary> binaries, maker.Binaries());
  std::vector<KernelAlternative> alternatives;
  if (options.alternatives > 0) {
    RONDO_ASSIGN_OR_RETURN(alternatives, maker.Alternatives(binaries, options.library_alternatives));
  }
  CodeModule module;
  module.architecture = arena->CopyText(options.units.architecture);
  module.block = kCudaBlock;
  module.codes = arena->Copy(codes);
  module.compiler = arena->CopyText(compiled.compiler);
  Seal(plan, module, &binaries, &alternatives);
  module.binaries = arena->Copy(binaries);
  module.alternatives = arena->Copy(alternatives);
  std::vector<CodeModule> modules(plan.modules.begin(), plan.modules.end());
  modules.push_back(module);
  plan.modules = arena->Copy(modules);
  const auto by_library = std::count_if(binaries.begin(), binaries.end(), [](const KernelBinary& binary) {
    return binary.kind == BinaryKind::kLibraryMatmul;
  });
  *report = std::to_string(binaries.size()) + " kernels, " + std::to_string(by_library) +
            " of them by cuBLASLt, " + std::to_string(bytes) + " bytes of machine code for " +
            options.units.architecture;
  if (!alternatives.empty()) *report += ", " + std::to_string(alternatives.size()) + " alternatives";
  if (compiled.cached > 0) {
    *report += "; " + std::to_string(compiled.cached) + " of " + std::to_string(compiled.codes.size()) +
               " codes were in the cache";
  }
  return Status::Ok();
}

}  // namespace rondo
