// Shared by tests of sums of 8-bit integers: parts, their numbers, and pieces of tapes.
#pragma once

#include <vector>

#include "drivers/host/exec/engine.h"
#include "drivers/host/program.h"
#include "tests/host/kernel_maker.h"

namespace rondo::test {

constexpr DType kBytes[] = {DType::kU8, DType::kI8};

inline DType RandomByte(Random& random) { return kBytes[Between(random, 0, 1)]; }

// Begins a matmul with loops m, n, k.
inline void BeginProduct(Part& part) {
  part.skeleton = Skeleton::kMatMul;
  part.acc_type = TapeType::kI64;
  part.m = part.n = part.reduced = 1;
}

// Sets loops b, groups, channels, rows, columns, then the summed ones: channels, rows and columns of a
// window.
inline void BeginConvolution(Part& part) {
  part.skeleton = Skeleton::kConvolution;
  part.acc_type = TapeType::kI64;
  part.outer = 1;
  part.m = part.n = 2;
  part.reduced = 3;
}

// The windows along one dim of an image.
struct Windows {
  int64_t extent, pad, step, dilation;  // of the image, before it, between windows, within a window

  int64_t Count(int64_t taps) const { return (extent + 2 * pad - (taps - 1) * dilation - 1) / step + 1; }
};

// The input of a convolution whose loops are set: images with the given strides for group, channel and
// column, padded with 131 or -77.
inline uint16_t Pictures(PartMaker& maker, DType type, int64_t group, int64_t channel, int64_t column,
                         const Windows& down, const Windows& across) {
  const uint16_t index = maker.Operand(type, Mode::kRead, {});
  const int64_t picture = maker.loops[1] * maker.loops[5] * down.extent * across.extent;
  const auto along = [&](const Windows& w, int64_t step, bool columns) {
    std::vector<int64_t> strides(8, 0);
    strides[3 + columns] = w.step;
    strides[6 + columns] = w.dilation;
    return Guard{step, -w.pad, w.extent, maker.arena->Copy(strides)};
  };
  rondo::Operand& operand = maker.operands[index];
  operand.strides = maker.arena->Copy(std::vector<int64_t>{picture, group, 0, 0, 0, channel, 0, 0});
  operand.guards = maker.arena->Copy(
      std::vector<Guard>{along(down, column * across.extent, false), along(across, column, true)});
  operand.absent = type == DType::kU8 ? 131 : -77;
  maker.sizes[operand.param] = picture * maker.loops[0];
  return index;
}

// Fills 8-bit parameters with bytes of any bits, and others as Randomise does.
inline void FillBytes(const PartMaker& maker, Random& random, Memory* memory) {
  memory->Randomise(maker, random);
  for (size_t p = 0; p < memory->params.size(); ++p) {
    if (ByteSize(maker.dtypes[p]) != 1) continue;
    for (char& byte : memory->params[p]) byte = static_cast<char>(Between(random, 0, 255));
  }
}

// Narrows an integer x to `type`, keeping its low bits.
inline uint16_t Narrowed(TapeMaker& tape, uint16_t x, DType type) {
  const uint16_t narrow = tape.Add(TapeOp::kCast, TapeType::kI64, 0, x);
  tape.list[narrow].imm.i = static_cast<int64_t>(type);
  return narrow;
}

inline float LeastOf(DType byte) { return byte == DType::kU8 ? 0 : -128; }

// Clamps a number x to the range of `byte`; the result keeps x's type.
inline uint16_t Clamped(TapeMaker& tape, uint16_t x, DType byte) {
  x = tape.Binary(TapeOp::kMax, x, tape.Const(LeastOf(byte)));
  return tape.Binary(TapeOp::kMin, x, tape.Const(LeastOf(byte) + 255));
}

// The engines that this machine can run.
inline std::vector<host::Engine> Engines() {
  std::vector<host::Engine> engines(1);
  host::baseline::FillEngine(&engines[0]);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) host::avx2::FillEngine(&engines.emplace_back());
  if (__builtin_cpu_supports("avx512bw")) host::avx512::FillEngine(&engines.emplace_back());
#endif
  return engines;
}

}  // namespace rondo::test
