// A kernel that gpu_table times: a matmul or a map over its own memory, as a plan of one step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/emitted_plan.h"
#include "core/kernel.h"

namespace rondo::bench {

// C[m, n] = sum over k of A[m, k] B[n, k], all of one type.
struct MatmulSize {
  int64_t m = 1, n = 1, k = 1;
  DType type = DType::kBF16;
  bool tf32 = false;
};

// A kernel and the plan data that it points to, which lives as long as this object.
class BenchKernel {
 public:
  // A matmul. `configuration`: a text that kernel_configuration.h parses; "": none yet.
  BenchKernel(const MatmulSize& size, std::string configuration);
  // A map that copies `elements` f16 elements.
  explicit BenchKernel(int64_t elements);
  BenchKernel(const BenchKernel&) = delete;

  EmittedPlan& emitted() { return emitted_; }
  const Kernel& kernel() const { return kernel_; }
  const std::string& configuration() const { return configuration_; }

 private:
  uint16_t AddOperand(DType type, Mode mode, const std::vector<int64_t>& strides, int64_t elements);
  void AddBuffer(BufferKind kind, DType type, uint64_t bytes);
  void Contain(Part part);
  void LeaveToLibrary();
  void Finish();

  EmittedPlan emitted_;
  Kernel kernel_;
  std::string configuration_;
  std::vector<Operand> operands_;
  std::vector<Buffer> buffers_;
  DeviceBytes bytes_;
  Step step_;
  Program program_;
};

}  // namespace rondo::bench
