#include "compiler/codegen/cuda/gpu_table.h"

namespace rondo::cuda {

const GpuTable& GpuTableOf(const CudaTarget& target) {
  static constexpr GpuTable kH200;
  return target.table != nullptr ? *target.table : kH200;
}

double EpilogueInstructions(const GpuTable& gpu, Tape epilogue) {
  double instructions = gpu.epilogue_place;
  for (const TapeInst& inst : epilogue) {
    switch (inst.op) {
      case TapeOp::kErf:
      case TapeOp::kTanh:
      case TapeOp::kExp:
      case TapeOp::kSigmoid: instructions += gpu.epilogue_function; break;
      case TapeOp::kConst:
      case TapeOp::kCast: break;
      default: instructions += 1;
    }
  }
  return instructions;
}

}  // namespace rondo::cuda
