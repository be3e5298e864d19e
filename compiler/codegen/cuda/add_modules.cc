#include "compiler/codegen/cuda/add_modules.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/library_product.h"

namespace rondo {

namespace {

using cuda::ParamFacts;

// What every launch of each kernel has in common about the memory that its parameters are bound to.
std::vector<std::vector<ParamFacts>> FactsOf(const PlanData& plan) {
  constexpr uint64_t kMostAlignment = 256;
  std::vector<std::vector<ParamFacts>> facts(plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    facts[k].assign(plan.kernels[k].num_params, {kMostAlignment, true});
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kLaunch || step.kernel >= facts.size()) continue;
      for (size_t p = 0; p < step.bindings.size() && p < facts[step.kernel].size(); ++p) {
        const Binding& binding = step.bindings[p];
        const Buffer& buffer = plan.buffers[binding.buffer];
        ParamFacts& fact = facts[step.kernel][p];
        fact.constant = fact.constant && buffer.kind == BufferKind::kConstant;
        fact.alignment = std::min<uint64_t>(fact.alignment, buffer.alignment);
        const uint64_t places = binding.offset | static_cast<uint64_t>(binding.stride);
        while (fact.alignment > 1 && places % fact.alignment != 0) fact.alignment /= 2;
      }
    }
  }
  return facts;
}

// The algorithm of the library that computes the kernel; none if it is generated.
std::optional<uint32_t> LibraryOf(const EmittedPlan& emitted, size_t kernel) {
  return kernel < emitted.library.size() ? emitted.library[kernel] : std::nullopt;
}

ProductChoice LibraryChoice(uint32_t algorithm) {
  ProductChoice choice;
  choice.by = ProductTemplate::kLibrary;
  if (algorithm != kNone) choice.algorithm = algorithm + 1;
  return choice;
}

// The image of a kernel that a library computes.
Result<KernelImage> LibraryImage(const Kernel& kernel, uint32_t algorithm, Arena& arena) {
  std::optional<LibraryProduct> product = LibraryProductOf(kernel);
  if (!product) {
    return Status::Error(Code::kInternal, "kernel \"%.*s\" is no product that a library has",
                         static_cast<int>(kernel.name.size()), kernel.name.data());
  }
  product->workspace_bytes =
      kernel.workspace_bytes > kWorkspaceSlack ? kernel.workspace_bytes - kWorkspaceSlack : 0;
  product->algorithm = algorithm;
  KernelImage image;
  image.kind = ImageKind::kLibraryProduct;
  image.product = arena.Copy(std::vector<LibraryProduct>{*product}).data();
  return image;
}

// A kernel's text, and the texts of other ways to compute it.
struct KernelTexts {
  KernelText text;
  std::vector<KernelText> others;
};

// The offers that `text` does not take, best first.
std::vector<ProductOffer> OtherOffers(const KernelText& text) {
  std::vector<ProductOffer> others;
  for (const ProductOffer& offer : text.offers) {
    if (!(offer.choice == text.choice)) others.push_back(offer);
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const ProductOffer& a, const ProductOffer& b) { return a.cycles < b.cycles; });
  return others;
}

// Notes what became of the profile's choice for one kernel.
void Note(const Kernel& kernel, const ProductChoice& asked, const ProductChoice& got, ProfileUse* use) {
  if (asked == ProductChoice()) return;
  if (asked == got) {
    ++use->taken;
    return;
  }
  use->unknown.push_back("kernel " + std::string(kernel.name) + " cannot be computed by \"" + Text(asked) +
                         "\"" + (got == ProductChoice() ? "" : ": it is by \"" + Text(got) + "\""));
}

Result<std::vector<KernelTexts>> WriteKernels(const EmittedPlan& emitted, const ModuleOptions& options,
                                              ProfileUse* use) {
  const PlanData& plan = emitted.plan;
  CudaTarget target = TargetOf(options.units.architecture);
  const bool profiled = options.profile.architecture == options.units.architecture;
  std::vector<std::vector<ParamFacts>> facts = FactsOf(plan);
  std::vector<KernelTexts> kernels(plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const Kernel& kernel = plan.kernels[k];
    KernelTexts& texts = kernels[k];
    const std::optional<uint32_t> library = LibraryOf(emitted, k);
    const ProductChoice asked = profiled ? options.profile.Of(kernel) : ProductChoice();
    target.product = asked == ProductChoice() ? options.product : asked;
    if (library && options.alternatives == 0) {
      Note(kernel, asked, LibraryChoice(*library), use);
      continue;
    }
    RONDO_ASSIGN_OR_RETURN(texts.text, WriteKernelText(kernel, target, facts[k]));
    // What a library computes could be generated the best way, too.
    if (library && !texts.text.offers.empty()) texts.others.push_back(texts.text);
    const ProductChoice got = library ? LibraryChoice(*library) : texts.text.choice;
    Note(kernel, asked, got, use);
    for (const ProductOffer& offer : OtherOffers(texts.text)) {
      if (static_cast<int64_t>(texts.others.size()) >= options.alternatives) break;
      target.product = offer.choice;
      RONDO_ASSIGN_OR_RETURN(KernelText other, WriteKernelText(kernel, target, facts[k]));
      if (other.choice == offer.choice) texts.others.push_back(std::move(other));
    }
  }
  const size_t known = use->taken + use->unknown.size(), all = options.profile.choices.size();
  use->unused = static_cast<uint32_t>(all - std::min(all, known));
  return kernels;
}

// Algorithms of a library that could compute the kernel: its first, or, where a library does already, others.
std::vector<uint32_t> LibraryAlternatives(const EmittedPlan& emitted, size_t kernel) {
  if (!LibraryProductOf(emitted.plan.kernels[kernel])) return {};
  if (!LibraryOf(emitted, kernel)) return {kNone};
  return {1, 2, 3};
}

// The texts of all kernels that are generated, then those of the alternatives: the order in which ImageMaker
// takes what was compiled.
std::vector<std::string> TextsToCompile(const EmittedPlan& emitted, const std::vector<KernelTexts>& kernels) {
  const std::string preludes = CudaPreludes();
  const auto whole = [&](const KernelText& text) { return preludes + CudaHeaders(text.headers) + text.text; };
  std::vector<std::string> texts;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (!LibraryOf(emitted, k)) texts.push_back(whole(kernels[k].text));
  }
  for (const KernelTexts& kernel : kernels) {
    for (const KernelText& other : kernel.others) texts.push_back(whole(other));
  }
  return texts;
}

// Makes the images of a plan's kernels, and then of their alternatives. What they hold lies in the plan's
// arena.
class ImageMaker {
 public:
  ImageMaker(const EmittedPlan& emitted, const std::vector<KernelTexts>& kernels,
             const CompiledUnits& compiled)
      : emitted_(emitted), kernels_(kernels), compiled_(compiled), arena_(*emitted.arena) {}

  Result<std::vector<KernelImage>> Images() {
    std::vector<KernelImage> images;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      KernelImage image;
      if (const std::optional<uint32_t> library = LibraryOf(emitted_, k)) {
        RONDO_ASSIGN_OR_RETURN(image, LibraryImage(emitted_.plan.kernels[k], *library, arena_));
      } else {
        image = ImageOf(kernels_[k].text);
      }
      images.push_back(image);
    }
    return images;
  }

  // Of each kernel that has any: the way it is computed, the generated others, and those of a library.
  Result<std::vector<KernelAlternative>> Alternatives(const std::vector<KernelImage>& images,
                                                      bool of_libraries) {
    std::vector<KernelAlternative> alternatives;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const auto add = [&](const ProductChoice& choice, const KernelImage& image) {
        alternatives.push_back({static_cast<uint32_t>(k), arena_.CopyText(Text(choice)), image});
      };
      const std::optional<uint32_t> library = LibraryOf(emitted_, k);
      if (library || !kernels_[k].text.offers.empty())
        add(library ? LibraryChoice(*library) : kernels_[k].text.choice, images[k]);
      for (const KernelText& other : kernels_[k].others) add(other.choice, ImageOf(other));
      if (!of_libraries) continue;
      for (uint32_t algorithm : LibraryAlternatives(emitted_, k)) {
        RONDO_ASSIGN_OR_RETURN(const KernelImage image,
                               LibraryImage(emitted_.plan.kernels[k], algorithm, arena_));
        if (algorithm != library) add(LibraryChoice(algorithm), image);
      }
    }
    return alternatives;
  }

 private:
  KernelImage ImageOf(const KernelText& text) {
    KernelImage image = {arena_.CopyText(text.entry), text.grid, text.shared, text.waits};
    image.code = compiled_.code_of[next_++];
    image.block = text.block;
    image.tensor_maps = arena_.Copy(text.tensor_maps);
    return image;
  }

  const EmittedPlan& emitted_;
  const std::vector<KernelTexts>& kernels_;
  const CompiledUnits& compiled_;
  Arena& arena_;
  size_t next_ = 0;  // text
};

}  // namespace

Result<std::string> CudaText(const PlanData& plan, const std::string& architecture) {
  ModuleOptions options;
  options.units.architecture = architecture;
  EmittedPlan emitted;
  emitted.plan = plan;
  ProfileUse use;
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelTexts> kernels, WriteKernels(emitted, options, &use));
  std::set<std::string> headers;
  for (const KernelTexts& kernel : kernels)
    headers.insert(kernel.text.headers.begin(), kernel.text.headers.end());
  std::string text = CudaPreludes() + CudaHeaders(headers);
  for (const KernelTexts& kernel : kernels) text += kernel.text.text;
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
  ImageMaker maker(*emitted, kernels, compiled);
  RONDO_ASSIGN_OR_RETURN(const std::vector<KernelImage> images, maker.Images());
  std::vector<KernelAlternative> alternatives;
  if (options.alternatives > 0) {
    RONDO_ASSIGN_OR_RETURN(alternatives, maker.Alternatives(images, options.library_alternatives));
  }
  CodeModule module;
  module.architecture = arena->CopyText(options.units.architecture);
  module.block = kCudaBlock;
  module.codes = arena->Copy(codes);
  module.images = arena->Copy(images);
  module.alternatives = arena->Copy(alternatives);
  std::vector<CodeModule> modules = {module};
  plan.modules = arena->Copy(modules);
  const auto by_library = std::count_if(images.begin(), images.end(), [](const KernelImage& image) {
    return image.kind == ImageKind::kLibraryProduct;
  });
  *report = std::to_string(images.size()) + " kernels, " + std::to_string(by_library) +
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
