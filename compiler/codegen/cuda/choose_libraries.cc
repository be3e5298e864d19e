#include "compiler/codegen/cuda/choose_libraries.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/estimate_kernels.h"
#include "compiler/codegen/cuda/kernel_candidates.h"
#include "compiler/codegen/cuda/matmul/library_matmul.h"
#include "compiler/codegen/cuda/matmul/split_epilogue.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/memory/plan_memory.h"
#include "core/alignment.h"

namespace rondo {

namespace {

// What annotations say of an op's matmul.
std::optional<Matmuls> SaidOf(const LoweredOp& op) {
  if (op.annotations.count("deterministic") != 0) return Matmuls::kGenerated;
  const auto said = op.annotations.find("matmul");
  if (said == op.annotations.end()) return std::nullopt;
  return said->second == "library" ? Matmuls::kLibrary : Matmuls::kGenerated;
}

class Chooser {
 public:
  Chooser(LoweredProgram* program, const CudaTarget& target, const LibraryOptions& options)
      : program_(*program), target_(target), options_(options) {}

  Status Run(std::string* text) {
    std::vector<LoweredOp> ops = std::move(program_.ops);
    program_.ops.clear();
    for (LoweredOp& op : ops) {
      for (int& d : op.deps) d = last_of_[static_cast<size_t>(d)];
      RONDO_RETURN_IF_ERROR(Choose(&op));
      program_.ops.push_back(std::move(op));
      last_of_.push_back(static_cast<int>(program_.ops.size()) - 1);
    }
    *text = std::to_string(matmuls_) + " matmuls by cuBLASLt, " + std::to_string(split_) +
            " of them with what follows as a map";
    return Status::Ok();
  }

 private:
  // Leaves the last op in `op`: the op itself, or the map after its matmul.
  Status Choose(LoweredOp* op) {
    // No library call checks a condition.
    if (op->kind != LoweredKind::kKernel || !op->kernel.parts[0].when.empty()) return Status::Ok();
    const std::optional<Matmuls> said = SaidOf(*op);
    KernelConfiguration asked;
    if (!said && options_.configuration) asked = options_.configuration(op->kernel);
    const Matmuls wanted = said.value_or(options_.matmuls);
    const bool by_name = asked.variant == VariantId::kLibrary;
    if (!by_name && (asked.variant != VariantId::kAny || wanted == Matmuls::kGenerated)) return Status::Ok();
    const auto whole = LibraryMatmulOf(op->kernel);
    const bool one = op->annotations.count(kOwnerKey) != 0;  // kernel for one operator
    auto split =
        whole || one ? std::nullopt : SplitEpilogue(program_, *op, static_cast<int>(program_.values.size()));
    const auto matmul = split ? LibraryMatmulOf(split->matmul.kernel) : whole;
    if (!matmul) return Status::Ok();
    if (!by_name && wanted == Matmuls::kAuto && !IsBest(*op, split ? &*split : nullptr)) return Status::Ok();
    const uint32_t algorithm =
        asked.algorithm > 0 ? static_cast<uint32_t>(asked.algorithm - 1) : LibraryMatmul().algorithm;
    if (!split) {
      Take(op, *matmul, algorithm);
      return Status::Ok();
    }
    program_.values.push_back(std::move(split->sums));
    Take(&split->matmul, *matmul, algorithm);
    split->map.deps.push_back(static_cast<int>(program_.ops.size()));
    program_.ops.push_back(std::move(split->matmul));
    *op = std::move(split->map);
    ++split_;
    return Status::Ok();
  }

  // Whether a library candidate has the best estimate.
  bool IsBest(const LoweredOp& op, const SplitOp* split) const {
    const std::vector<KernelCandidate> candidates =
        KernelCandidates(op.kernel, target_, FactsOf(program_, op), split);
    const KernelCandidate& best = candidates[BestCandidate(candidates, KernelConfiguration())];
    return best.configuration.variant == VariantId::kLibrary && best.microseconds < kNotEstimated;
  }

  void Take(LoweredOp* op, const LibraryMatmul& matmul, uint32_t algorithm) {
    LoweredValue scratch;
    scratch.name = op->sources.empty() ? "workspace" : "workspace of " + op->sources[0];
    scratch.kind = BufferKind::kWorkspace;
    scratch.dtype = DType::kU8;
    scratch.bytes = static_cast<int64_t>(MostWorkspace(matmul, target_.architecture) + kWorkspaceSlack);
    scratch.shape = Shape({scratch.bytes});
    scratch.sources = op->sources;
    op->kernel.workspace_param = op->kernel.num_params++;
    op->kernel.workspace_bytes = static_cast<uint64_t>(scratch.bytes);
    op->params.push_back({static_cast<int>(program_.values.size()), 0, Mode::kWrite});
    op->library = algorithm;
    // A bias is read while the result is written, so that the two cannot share memory.
    std::erase_if(op->in_place, [&](const InPlacePair& pair) { return pair.read == matmul.bias.param; });
    program_.values.push_back(std::move(scratch));
    ++matmuls_;
  }

  LoweredProgram& program_;
  const CudaTarget& target_;
  const LibraryOptions& options_;
  std::vector<int> last_of_;  // for each old op, the number of the new op
  int matmuls_ = 0, split_ = 0;
};

}  // namespace

Status ChooseLibraries(LoweredProgram* program, const CudaTarget& target, const LibraryOptions& options,
                       std::string* text) {
  return Chooser(program, target, options).Run(text);
}

}  // namespace rondo
