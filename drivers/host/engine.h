// The functions of one instruction set, for builders and launches.
#pragma once

#include "drivers/host/matmul/byte_instructions.h"
#include "drivers/host/program.h"

namespace rondo::host {

// Quantises to floats, where NaN stays NaN, or to stored bytes, where NaN becomes 0.
struct Quantisers {
  OpFn to_floats = nullptr, to_u8 = nullptr, to_i8 = nullptr;
};

// The engine of one instruction set.
struct Engine {
  const char* name = "";
  int rows = 0;  // rows and columns of a register block of the packed matmul
  int columns = 0;
  int vectors = 0;  // vectors in its columns
  OpFn (*find_op)(TapeOp op, TapeType result, TapeType operand) = nullptr;
  OpFn add_clamp = nullptr;    // f32: a + b, clamped to the range; NaN stays NaN
  OpFn clamp = nullptr;        // f32: a, clamped to the range; NaN stays NaN
  OpFn table = nullptr;        // f32: looks up the byte a, an integer, in the table; NaN looks up 0
  Quantisers quantise;         // f32: a / scale, rounded half to even, + zero, clamped to the range
  Quantisers quantise_scaled;  // the same; the scale is lane 0 of b
  Quantisers quantise_by;      // the same; the scale is lane 0 of b, the zero point lane 0 of c
  LoadFn load[kNumDTypes][4] = {};
  StoreFn store[kNumDTypes][4] = {};
  LoadFn load_float[kNumDTypes][4] = {};  // i8 and u8, loaded as f32
  StoreFn store_float[kNumDTypes][4] = {};
  LoadFn load_byte[kNumDTypes][4] = {};  // bytes, loaded as they are
  StoreFn store_byte[kNumDTypes][4] = {};
  GatherFn gather[kNumDTypes] = {};
  ScatterFn scatter[kNumDTypes] = {};
  FillFn fill[3] = {};
  RequantiseRows requantise = nullptr;
  LookUp look_up = nullptr;
  ByteInstructions bytes;          // the best on this machine
  ByteInstructions bytes_widened;  // without byte dot products: on any machine of the engine's level
  RunFn run[kNumVariants] = {};
  EndPhaseFn end_one_row = nullptr;
  TakeRangeFn take_range = nullptr;
};

}  // namespace rondo::host
