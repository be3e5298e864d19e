#include "compiler/codegen/cuda/gpu_table.h"

#include "compiler/codegen/cuda/tape_facts.h"

namespace rondo::cuda {

const GpuTable& GpuTableOf(const CudaTarget& target) {
  static constexpr GpuTable kH200;
  return target.table != nullptr ? *target.table : kH200;
}

double EpilogueInstructions(const GpuTable& gpu, const Part& part) {
  const double function = NeedsFewBits(part) ? gpu.quick_function : gpu.epilogue_function;
  double instructions = gpu.epilogue_place;
  for (const TapeInst& inst : part.epilogue) {
    if (HasQuickFunction(inst.op)) {
      instructions += function;
    } else if (inst.op != TapeOp::kConst && inst.op != TapeOp::kCast) {
      instructions += 1;
    }
  }
  return instructions;
}

}  // namespace rondo::cuda
