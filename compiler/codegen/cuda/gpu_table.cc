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
    switch (inst.op) {
      case TapeOp::kErf:
      case TapeOp::kTanh:
      case TapeOp::kExp:
      case TapeOp::kSigmoid: instructions += function; break;
      case TapeOp::kConst:
      case TapeOp::kCast: break;
      default: instructions += 1;
    }
  }
  return instructions;
}

}  // namespace rondo::cuda
