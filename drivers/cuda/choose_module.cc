#include "drivers/cuda/choose_module.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "formats/machine_code/architecture.h"

namespace rondo::cuda {
namespace {

[[gnu::format(printf, 2, 3)]] void Append(ModuleChoice* choice, const char* format, ...) {
  const size_t used = std::strlen(choice->others);
  va_list args;
  va_start(args, format);
  std::vsnprintf(choice->others + used, sizeof(choice->others) - used, format, args);
  va_end(args);
}

}  // namespace

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
    const int length = static_cast<int>(module.architecture.size());
    const char* const name = module.architecture.data();
    if (choice.others[0] != 0) Append(&choice, "; ");
    if (!code || !RunsOn(*code, capability)) {
      char text[128];
      MadeForText(module.architecture, text, sizeof(text));
      Append(&choice, "%s", text);
    } else if (const uint32_t takes = MostShared(module); takes > shared) {
      Append(&choice, "%.*s has a kernel that takes %u bytes of shared memory a block, where %u can be had",
             length, name, takes, shared);
    } else {
      Append(&choice, "%.*s would run, but %.*s is made for more of this GPU", length, name,
             static_cast<int>(choice.module->architecture.size()), choice.module->architecture.data());
    }
  }
  return choice;
}

}  // namespace rondo::cuda
