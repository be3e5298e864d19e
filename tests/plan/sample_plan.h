// A small plan made by hand that uses every feature of plans, for tests that break it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/plan.h"
#include "formats/plan/writer.h"

namespace rondo {

// Owns what `data` points to. The spans of a Sample may be written through Edit.
struct Sample {
  Arena arena;
  PlanData data;
};

// Program "main" on device 0, two streams (buffers in capitals):
//   0 matmul  H = relu((2 * X) W)        4 softmax's P -> row block 1 of the state CACHE
//   1 gather       G = TABLE[IDS] (stream 1)  5 copy      CAT -> Y, after 4
//   2 softmax      P = softmax(H) in place    6 pad       Z = X with a row of -1 above and below
//   3 concat       CAT = [P | G], two parts   7 attention A over CACHE, in the memory of G
//                                             8 max pool  POOL over X
// Program "pair": an all-reduce between devices 0 and 1, copied to the outputs.
enum SampleBuffer : uint32_t {
  kX,
  kIds,
  kW,
  kTable,
  kCache,
  kH,
  kP,
  kG,
  kCat,
  kY,
  kZ,
  kA,
  kPool,
  kIn0,
  kSum0,
  kOut0,
  kIn1,
  kSum1,
  kOut1,
  kNumSampleBuffers
};
Sample MakeSample();

// The bytes of constants: byte i of the weights is 7 * i + 1.
Status FillSample(const PlanData& plan, uint32_t buffer, uint64_t first, uint64_t bytes, uint8_t* out);

// Write access to a sample's spans.
template <typename T>
T& Edit(Span<const T> span, size_t i) {
  return const_cast<T&>(span[i]);
}
inline Buffer& BufferOf(Sample& s, uint32_t i) { return Edit(s.data.buffers, i); }
inline Step& StepOf(Sample& s, uint32_t i, uint32_t program = 0) {
  return Edit(s.data.programs[program].steps, i);
}
inline Part& PartOf(Sample& s, uint32_t kernel, uint32_t part = 0) {
  return Edit(s.data.kernels[kernel].parts, part);
}
inline Operand& OperandOf(Sample& s, uint32_t kernel, uint32_t operand, uint32_t part = 0) {
  return Edit(s.data.kernels[kernel].parts[part].operands, operand);
}
inline Program& ProgramOf(Sample& s, uint32_t i) { return Edit(s.data.programs, i); }

// For building parts.
template <typename T>
Span<const T> List(Arena& arena, std::initializer_list<T> values) {
  return arena.Copy(std::vector<T>(values));
}
template <typename T>
Span<const T> ListOf(Arena& arena, const std::vector<T>& values) {
  return arena.Copy(values);
}
TapeInst Load(uint16_t operand, TapeType type = TapeType::kF32);
TapeInst Store(uint16_t a, uint16_t operand, TapeType type = TapeType::kF32);
TapeInst Apply(TapeOp op, uint16_t a, uint16_t b = 0, uint16_t c = 0, TapeType type = TapeType::kF32);
TapeInst Number(double value);
TapeInst Slot(TapeOp op, uint16_t arg, uint16_t a = 0);
Operand Access(Arena& arena, uint16_t param, Mode mode, std::initializer_list<int64_t> strides,
               int64_t offset = 0, DType dtype = DType::kF32);
// One part that copies `count` elements of parameter 0, from element `from`, to parameter 1, from element
// `to`.
Kernel CopyKernel(Arena& arena, const char* name, int64_t count, int64_t from, int64_t to);

}  // namespace rondo
