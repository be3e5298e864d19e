#include "tests/defects/defect_kinds.h"

#include <vector>

namespace rondo::defects {

Span<const DefectKind> DefectKinds() {
  static const std::vector<DefectKind> kinds = [] {
    std::vector<DefectKind> all;
    for (const Span<const DefectKind> some :
         {MemoryDefects(), StepDefects(), ContractDefects(), CollectiveDefects()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return kinds;
}

}  // namespace rondo::defects
