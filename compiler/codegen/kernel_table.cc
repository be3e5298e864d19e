#include "compiler/codegen/kernel_table.h"

#include <cctype>

#include "core/plan.h"
#include "formats/machine_code/binary_digest.h"
#include "formats/plan/part_name.h"

namespace rondo {

uint32_t KernelTable::Add(const Kernel& kernel) {
  const auto [entry, added] =
      numbers_.try_emplace(KernelStructure(kernel), static_cast<uint32_t>(kernels_.size()));
  if (added) kernels_.push_back(kernel);
  return entry->second;
}

std::string KernelName(const Kernel& kernel, uint32_t number) {
  std::string name = "k";
  name += std::to_string(number);
  name += '_';
  if (kernel.label.empty()) return name + PartName(kernel.parts[0]);
  for (char c : kernel.label) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

}  // namespace rondo
