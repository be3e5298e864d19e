// MachineCode: what makes a plan made by hand one for GPUs. Two of them: NVRTC's code for real GPUs
// (machine_code_gpu.cc), and functions of fake_cuda (machine_code_fake.cc).
#pragma once

#include <memory>

#include "core/plan.h"

namespace rondo {

class MachineCode {
 public:
  // Gives `plan`, which must outlive it, a module. Fails the test that makes it if there is none to be had.
  explicit MachineCode(PlanData* plan);
  ~MachineCode();
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Lets CUDA begin again for this process, as far as it has ended. False where only a new process can.
bool BeginCudaAgain();

}  // namespace rondo
