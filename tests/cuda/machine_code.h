// MachineCode: gives a hand-made plan code for GPUs. There are two: NVRTC's code for real GPUs
// (machine_code_gpu.cc), and functions of fake_cuda (machine_code_fake.cc).
#pragma once

#include <memory>

#include "core/plan.h"

namespace rondo {

class MachineCode {
 public:
  // Gives `plan`, which must outlive it, a module. Fails the calling test if it cannot make one.
  explicit MachineCode(PlanData* plan);
  ~MachineCode();
  MachineCode(const MachineCode&) = delete;
  MachineCode& operator=(const MachineCode&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Lets CUDA start again in this process after an error ended it. False if only a new process can.
bool BeginCudaAgain();

}  // namespace rondo
