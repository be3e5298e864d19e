// The pieces of VerifyPlan; not for use outside this folder.
#pragma once

#include <string_view>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/access.h"
#include "formats/plan/need.h"
#include "formats/plan/work.h"

namespace rondo::plan {

#define RONDO_BROKEN(...) ::rondo::Status::Error(::rondo::Code::kCorrupt, __VA_ARGS__)

// Parts, operands and tapes of one kernel.
Status VerifyKernel(const Kernel& kernel, Work& work);

// What a tape may do in its place.
enum TapeUse : uint32_t {
  kMayStore = 1,
  kMayYield = 2,
  kMayReadAcc = 4,
  kMayUseScalars = 8,
  kMaySetScalars = 16,
  kMayReduce = 32,  // also allows kept rows
  kMayCombine = 64,
};

// Row scalars and kept rows that earlier tapes of a row have set, and their types.
struct RowState {
  static constexpr int8_t kUnset = -1;
  int8_t scalars[kMaxSlots];
  int8_t kept[kMaxSlots];
  RowState() {
    for (int i = 0; i < kMaxSlots; ++i) scalars[i] = kept[i] = kUnset;
  }
};

// Loops that an operand's address depends on: directly, and through the operands of its indirects.
struct OperandLoops {
  LoopMask affine, indexed;
};

struct TapePlace {
  LoopMask loops = 0;  // that the tape runs over
  uint32_t uses = 0;   // TapeUse bits
  uint32_t accumulators = 0;
  const OperandLoops* operands = nullptr;  // one an operand of the part
};

// Verifies one tape, and updates `row` with what it sets.
Status VerifyTape(const Part& part, Tape tape, const TapePlace& place, RowState* row);

// Checks that the address of operand `index` depends on no loop outside `loops`.
Status VerifyLoopsOf(const OperandLoops* operands, size_t index, LoopMask loops);

// The binaries of a module, then those of its alternatives, under one count.
inline size_t NumBinaries(const CodeModule& module) {
  return module.binaries.size() + module.alternatives.size();
}
inline const KernelBinary& BinaryAt(const CodeModule& module, size_t i) {
  return i < module.binaries.size() ? module.binaries[i]
                                    : module.alternatives[i - module.binaries.size()].binary;
}
inline size_t KernelOfBinary(const CodeModule& module, size_t i) {
  return i < module.binaries.size() ? i : module.alternatives[i - module.binaries.size()].kernel;
}

// Library matmuls: each touches exactly what its kernel's contract says. Kernels have been verified.
struct KernelRanges;
Status VerifyMatmuls(const PlanData& plan, const KernelRanges& ranges, Work& work);

// The table of custom ops.
Status VerifyCustomOps(const PlanData& plan);
// Checks that the step, whose bindings are in bounds, binds each aliased output of `op` to its input's
// memory.
Status VerifyAliasedBindings(const PlanData& plan, const CustomOp& op, const Step& step);

// Steps, partitions, ports and sync points of program `index`. Buffers and kernels have been verified;
// `ranges` has the bytes that each parameter of kernel k may touch, from first_range[k] on.
struct ByteRange {
  int64_t first = 0, end = 0;  // first == end: nothing
  uint32_t element = 0;        // bytes of the largest single access; 0: no operand uses the parameter
  bool constant = false;       // code assumes that it is a constant
};
struct KernelRanges {
  Span<const uint32_t> first_range;
  Span<ByteRange> ranges;
  Span<const Need> needs;  // one a kernel
  // For each kernel: two parameters that may not share memory, though the contract allows it. Both 0: none.
  struct Apart {
    uint16_t a = 0, b = 0;
  };
  Span<Apart> apart;
};
// Blocks, assumptions and tensor maps of the kernels' binaries; boxes must be valid for TMA, within memory
// that the kernel may touch. Adds the binaries' assumptions to `ranges`.
Status VerifyBinaries(const PlanData& plan, const KernelRanges& ranges);

// `named` has one flag for each buffer, set for those that a port names.
Status VerifyProgram(const PlanData& plan, uint32_t index, const KernelRanges& ranges, Span<bool> named,
                     Arena& scratch);

// Collectives of a program whose steps and partitions have been verified: participants, order and
// certificates. Also checks that no device waits for ever, for a collective or for another device's step.
Status VerifyCollectives(const PlanData& plan, const Program& program, Arena& scratch);

// Checks that no name is empty and no two are equal.
Status VerifyNames(Span<std::string_view> names, const char* what, Arena& scratch);

// `status` with "step N (SOURCE)" in front and the source recorded, where known.
Status AtStep(const Status& status, const PlanData& plan, const Program& program, uint32_t step);

inline Status OutOfMemory(const char* what) {
  return Status::Error(Code::kOutOfMemory, "no host memory to verify %s of the plan", what);
}

inline Status TooMuchWork() {
  return Status::Error(Code::kUnsupported, "the plan takes more work to verify than its size explains");
}

}  // namespace rondo::plan
