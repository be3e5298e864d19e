// The table of one instruction set's functions.
#include "drivers/host/exec/engine.h"

#include "drivers/host/exec/exec.h"

namespace rondo::host {

#define RONDO_STRING_INNER(x) #x
#define RONDO_STRING(x) RONDO_STRING_INNER(x)

namespace RONDO_ISA {

void FillEngine(Engine* engine) {
  *engine = Engine();
  engine->name = RONDO_STRING(RONDO_ISA);
  engine->rows = kBlockRows;
  engine->columns = kBlockColumns;
  engine->vectors = kBlockVectors;
  engine->find_op = FindOp;
  engine->add_clamp = AddClamp();
  engine->clamp = Clamp();
  FillQuantisers(engine);
  FillLoads(engine);
  engine->requantise = RowsRequantiser();
  engine->look_up = ByteLookUp();
  FillBytes(engine);
  engine->run[static_cast<int>(Variant::kMap)] = RunMap;
  engine->run[static_cast<int>(Variant::kRows)] = RunRowReduction;
  engine->run[static_cast<int>(Variant::kColumns)] = RunColumnReduction;
  engine->run[static_cast<int>(Variant::kOneRow)] = RunOneRow;
  engine->end_one_row = EndOneRow;
  engine->take_range = TakeRangeOf;
  engine->run[static_cast<int>(Variant::kAccumulate)] = RunAccumulate;
  engine->run[static_cast<int>(Variant::kFewRows)] = RunFewRows;
  engine->run[static_cast<int>(Variant::kPacked)] = RunPacked;
  engine->run[static_cast<int>(Variant::kGemm)] = RunGemm;
  engine->run[static_cast<int>(Variant::kAttention)] = RunAttention;
  engine->run[static_cast<int>(Variant::kTopK)] = RunTopK;
  engine->run[static_cast<int>(Variant::kChannels)] = RunChannels;
  engine->run[static_cast<int>(Variant::kPlanes)] = RunPlanes;
  engine->run[static_cast<int>(Variant::kDirect)] = RunDirect;
  engine->run[static_cast<int>(Variant::kBytes)] = RunBytes;
  engine->run[static_cast<int>(Variant::kChannelBytes)] = RunChannelBytes;
  engine->run[static_cast<int>(Variant::kBytePool)] = RunBytePool;
}

}  // namespace RONDO_ISA
}  // namespace rondo::host
