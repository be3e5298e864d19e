// KernelTable: numbers the distinct kernels of a plan.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/kernel.h"

namespace rondo {

// Numbers kernels in the order in which they first come.
class KernelTable {
 public:
  // The number of the kernel with this structure. Borrows what the kernel points to.
  uint32_t Add(const Kernel& kernel);
  const std::vector<Kernel>& kernels() const { return kernels_; }  // with the names they were added with

 private:
  std::map<std::string, uint32_t> numbers_;
  std::vector<Kernel> kernels_;
};

// "k12_matmul", or by its label where it has one: "k12_rms_norm". Letters, digits and _ only.
std::string KernelName(const Kernel& kernel, uint32_t number);

}  // namespace rondo
