#include "compiler/codegen/cuda/choose_libraries.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/codegen/cuda/library_product.h"
#include "compiler/codegen/cuda/split_product.h"
#include "compiler/memory/plan_memory.h"

namespace rondo {

namespace {

// Cycles of a product by cuBLASLt, as measured on an H200
// (tools/bench/results/2026-11-21-library-products.md): what a block takes for 64 of the depth, for the sizes
// of blocks that the library has; and its start and end, over which no other kernel runs.
double LibraryCycles(const LibraryProduct& p, const CudaTarget& target) {
  struct Block {
    double rows, columns, step;
  };
  constexpr Block kBlocks[] = {
      {128, 256, 1180}, {128, 192, 890}, {128, 128, 620}, {128, 64, 330}, {64, 64, 260}};
  const double steps = std::ceil(static_cast<double>(p.depth) / 64);
  double best = 0;
  for (const Block& block : kBlocks) {
    const double blocks = static_cast<double>(p.batches) *
                          std::ceil(static_cast<double>(p.rows) / block.rows) *
                          std::ceil(static_cast<double>(p.columns) / block.columns);
    const double rounds = std::ceil(blocks / static_cast<double>(target.processors));
    const double cycles = 6800 + rounds * (steps * block.step + block.rows * block.columns / 40);
    if (best == 0 || cycles < best) best = cycles;
  }
  return best;
}

// Cycles of the map that a split adds, measured alike: its start and end, and 1250 bytes a cycle.
double MapCycles(const Kernel& map) {
  double bytes = 0;
  for (const Part& part : map.parts) {
    for (const Operand& operand : part.operands) {
      double touched = static_cast<double>(ByteSize(operand.dtype));
      for (size_t l = 0; l < part.loops.size(); ++l) {
        const bool moves = operand.strides[l] != 0 || !operand.indirects.empty();
        if (moves) touched *= static_cast<double>(part.loops[l]);
      }
      bytes += touched;
    }
  }
  return 1600 + bytes / 1250;
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
      if (options_.products != Products::kGenerated || options_.choice) {
        RONDO_RETURN_IF_ERROR(Choose(&op));
      }
      program_.ops.push_back(std::move(op));
      last_of_.push_back(static_cast<int>(program_.ops.size()) - 1);
    }
    *text = std::to_string(products_) + " products by cuBLASLt, " + std::to_string(split_) +
            " of them with what follows as a map";
    return Status::Ok();
  }

 private:
  // Leaves in `op` what stands last: the op itself, or the map after its product.
  Status Choose(LoweredOp* op) {
    if (op->kind != LoweredKind::kKernel) return Status::Ok();
    ProductChoice choice;
    if (options_.choice) choice = options_.choice(op->kernel);
    const bool asked = choice.by == ProductTemplate::kLibrary;
    if (!asked && (choice.by != ProductTemplate::kAny || options_.products == Products::kGenerated))
      return Status::Ok();
    const bool always = asked || options_.products == Products::kLibrary;
    const uint32_t algorithm =
        choice.algorithm > 0 ? static_cast<uint32_t>(choice.algorithm - 1) : LibraryProduct().algorithm;
    if (const auto product = LibraryProductOf(op->kernel)) {
      RONDO_ASSIGN_OR_RETURN(const bool best, always ? true : Pays(*op, *product, 0));
      if (best) Take(op, *product, algorithm);
      return Status::Ok();
    }
    auto split = SplitProduct(program_, *op, static_cast<int>(program_.values.size()));
    if (!split) return Status::Ok();
    const auto product = LibraryProductOf(split->product.kernel);
    if (!product) return Status::Ok();
    RONDO_ASSIGN_OR_RETURN(const bool best,
                           always ? true : Pays(*op, *product, MapCycles(split->map.kernel)));
    if (!best) return Status::Ok();
    program_.values.push_back(std::move(split->sums));
    Take(&split->product, *product, algorithm);
    split->map.deps.push_back(static_cast<int>(program_.ops.size()));
    program_.ops.push_back(std::move(split->product));
    *op = std::move(split->map);
    ++split_;
    return Status::Ok();
  }

  // Against the best that is generated; the estimates are for sm_90. Few rows are bound by memory, which no
  // library reads faster, and generated kernels overlap with those around them.
  Result<bool> Pays(const LoweredOp& op, const LibraryProduct& product, double more) const {
    constexpr int64_t kFewRows = 32;
    if (product.rows <= kFewRows || target_.architecture < 90) return false;
    RONDO_ASSIGN_OR_RETURN(const KernelText text, WriteKernelText(op.kernel, target_, FactsOf(op)));
    if (text.offers.empty()) return true;  // only the plain template
    double generated = text.offers[0].cycles;
    for (const ProductOffer& offer : text.offers) generated = std::min(generated, offer.cycles);
    // Estimates are those of kernels alone. Among others, as measured in whole models, long generated ones
    // take a fifth more, which a library's do not; short ones gain from overlapping with those around them.
    constexpr double kLong = 40000, kLongAmongOthers = 1.2, kShortAmongOthers = 0.85;
    generated *= generated > kLong ? kLongAmongOthers : kShortAmongOthers;
    return LibraryCycles(product, target_) + more < generated;
  }

  std::vector<cuda::ParamFacts> FactsOf(const LoweredOp& op) const {
    std::vector<cuda::ParamFacts> facts;
    for (const LoweredBinding& param : op.params) {
      const bool constant = program_.values[static_cast<size_t>(param.value)].kind == BufferKind::kConstant;
      uint64_t alignment = kArenaAlignment;
      while (param.byte_offset % alignment != 0) alignment /= 2;
      facts.push_back({alignment, constant});
    }
    return facts;
  }

  void Take(LoweredOp* op, const LibraryProduct& product, uint32_t algorithm) {
    LoweredValue scratch;
    scratch.name = op->sources.empty() ? "workspace" : "workspace of " + op->sources[0];
    scratch.kind = BufferKind::kWorkspace;
    scratch.dtype = DType::kU8;
    scratch.bytes = static_cast<int64_t>(MostWorkspace(product, target_.architecture) + kWorkspaceSlack);
    scratch.shape = Shape({scratch.bytes});
    scratch.sources = op->sources;
    op->kernel.workspace_param = op->kernel.num_params++;
    op->kernel.workspace_bytes = static_cast<uint64_t>(scratch.bytes);
    op->params.push_back({static_cast<int>(program_.values.size()), 0, Mode::kWrite});
    op->library = algorithm;
    // A bias is read while the result is written.
    std::erase_if(op->in_place, [&](const InPlacePair& pair) { return pair.read == product.bias.param; });
    program_.values.push_back(std::move(scratch));
    ++products_;
  }

  LoweredProgram& program_;
  const CudaTarget& target_;
  const LibraryOptions& options_;
  std::vector<int> last_of_;  // of each old op: the number of what it has become
  int products_ = 0, split_ = 0;
};

}  // namespace

Status ChooseLibraries(LoweredProgram* program, const CudaTarget& target, const LibraryOptions& options,
                       std::string* text) {
  return Chooser(program, target, options).Run(text);
}

}  // namespace rondo
