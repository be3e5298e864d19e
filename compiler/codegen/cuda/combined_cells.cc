#include "compiler/codegen/cuda/combined_cells.h"

#include <algorithm>

#include "compiler/codegen/cuda/text_writer.h"

namespace rondo::cuda {

namespace {

std::string Joined(const std::vector<TapeInst>& cells, const std::string& before) {
  std::string text;
  for (const TapeInst& inst : cells) text += (text.empty() ? "" : ", ") + before + CombinedShare(inst);
  return text;
}

std::string Greatest(const TapeInst& inst) { return Truth(inst.op == TapeOp::kCombineMax); }

}  // namespace

std::vector<TapeInst> CombinedCells(const Part& part) {
  std::vector<TapeInst> cells;
  ForEachTape(part, [&](Tape tape) {
    for (const TapeInst& inst : tape) {
      const auto same = [&](const TapeInst& other) { return other.arg == inst.arg; };
      if (Combines(inst.op) && std::none_of(cells.begin(), cells.end(), same)) cells.push_back(inst);
    }
  });
  return cells;
}

std::string CombinedShare(const TapeInst& inst) { return "share" + Text(inst.arg); }

std::string CombinedText(const TapeInst& inst, const std::string& value) {
  return "combined<" + Greatest(inst) + ">(" + CombinedShare(inst) + ", " + value + ")";
}

std::string DeclaredShares(const std::vector<TapeInst>& cells) { return Joined(cells, "float& "); }
std::string PassedShares(const std::vector<TapeInst>& cells) { return Joined(cells, ""); }

std::string StartText(const std::vector<TapeInst>& cells) {
  std::string text;
  for (const TapeInst& inst : cells)
    text += "float " + CombinedShare(inst) + " = combined_start<" + Greatest(inst) + ">();\n";
  return text;
}

std::string EndText(const Part& part, const std::vector<TapeInst>& cells, uint32_t threads) {
  const uint32_t warps = threads / 32;
  std::string text = "__shared__ u32 shares[" + Text(cells.size()) + "][" + Text(warps) + "];\n";
  // The lanes of a warp whose rows have ended wait for those that still exchange theirs.
  if (part.skeleton == Skeleton::kReduction) text += "__syncthreads();\n";
  for (size_t k = 0; k < cells.size(); ++k)
    text += "combine_warp<" + Greatest(cells[k]) + ">(" + CombinedShare(cells[k]) + ", shares[" + Text(k) +
            "]);\n";
  text += "__syncthreads();\n";
  for (size_t k = 0; k < cells.size(); ++k) {
    const Operand& cell = part.operands[cells[k].arg];
    text += "if (threadIdx.x / 32 == " + Text(k % warps) + "u) combine_block<" + Greatest(cells[k]) + ", " +
            Text(warps) + ">(shares[" + Text(k) + "], p" + Text(cell.param) + " + " + Text(cell.offset * 4) +
            ");\n";
  }
  return text;
}

}  // namespace rondo::cuda
