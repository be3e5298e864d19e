// Epilogues as a library has them. Internal to compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_MATMUL_LIBRARY_EPILOGUE_H_
#define RONDO_COMPILER_CODEGEN_CUDA_MATMUL_LIBRARY_EPILOGUE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernel.h"
#include "core/plan.h"

namespace rondo::cuda {

// store to `out` of activation(sum + the values of `added`).
struct LibraryEpilogue {
  std::vector<uint16_t> added;  // operands, each loaded as it is
  uint16_t out = 0;             // operand
  MatmulEpilogue activation = MatmulEpilogue::kNone;
};

// None for tapes of any other form.
std::optional<LibraryEpilogue> ReadLibraryEpilogue(const Part& part);

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_MATMUL_LIBRARY_EPILOGUE_H_
