#include "drivers/cuda/choose_module.h"

#include "formats/machine_code/architecture.h"

namespace rondo::cuda {

ModuleChoice ChooseModule(const PlanData& plan, int capability, uint32_t shared) {
  ModuleChoice choice;
  CodeArchitecture best;
  for (const CodeModule& module : plan.modules) {
    const std::optional<CodeArchitecture> code = ParseArchitecture(module.architecture);
    if (!code || !RunsOn(*code, capability) || MostShared(module) > shared) continue;
    if (choice.module != nullptr && !IsBetter(*code, best)) continue;
    choice.module = &module;
    best = *code;
  }
  for (const CodeModule& module : plan.modules) {
    if (&module == choice.module) continue;
    const std::optional<CodeArchitecture> code = ParseArchitecture(module.architecture);
    choice.others += choice.others.empty() ? "" : "; ";
    if (!code || !RunsOn(*code, capability)) {
      choice.others += MadeForText(module.architecture);
    } else if (const uint32_t takes = MostShared(module); takes > shared) {
      choice.others += std::string(module.architecture) + " has a kernel that takes " +
                       std::to_string(takes) + " bytes of shared memory a block, where " +
                       std::to_string(shared) + " can be had";
    } else {
      choice.others += std::string(module.architecture) + " would run, but " +
                       std::string(choice.module->architecture) + " is made for more of this GPU";
    }
  }
  return choice;
}

}  // namespace rondo::cuda
