// The functions of one instruction set, as the builders and the launches see them.
#pragma once

#include "drivers/host/matmul/byte_instructions.h"
#include "drivers/host/program.h"

namespace rondo::host {

// Quantises to floats, where NaN stays NaN; or to stored bytes, where NaN becomes 0.
struct Quantisers {
  OpFn to_floats = nullptr, to_u8 = nullptr, to_i8 = nullptr;
};

// The engine of one instruction set.
struct Engine {
  const char* name = "";
  int rows = 0;  // rows and columns of a register block of the packed product
  int columns = 0;
  int vectors = 0;  // that its columns are
  OpFn (*find_op)(TapeOp op, TapeType result, TapeType operand) = nullptr;
  OpFn add_clamp = nullptr;    // f32: a + b, then the range; NaN stays
  OpFn clamp = nullptr;        // f32: a, then the range; NaN stays
  OpFn table = nullptr;        // f32: the table's number for the byte that a, a whole number, is; NaN: for 0
  Quantisers quantise;         // f32: a / scale, rounded half to even, + zero, then the range
  Quantisers quantise_scaled;  // the same; the scale is lane 0 of b
  Quantisers quantise_by;      // the same; the scale is lane 0 of b, the zero point that of c
  LoadFn load[kNumDTypes][4] = {};
  StoreFn store[kNumDTypes][4] = {};
  LoadFn load_float[kNumDTypes][4] = {};  // of i8 and u8, as f32
  StoreFn store_float[kNumDTypes][4] = {};
  LoadFn load_byte[kNumDTypes][4] = {};  // as they are
  StoreFn store_byte[kNumDTypes][4] = {};
  GatherFn gather[kNumDTypes] = {};
  ScatterFn scatter[kNumDTypes] = {};
  FillFn fill[3] = {};
  RequantiseRows requantise = nullptr;
  LookUp look_up = nullptr;
  ByteInstructions bytes;          // by what this machine has
  ByteInstructions bytes_widened;  // without dot products of bytes: on any that the engine is for
  RunFn run[kNumVariants] = {};
  EndPhaseFn end_one_row = nullptr;
  TakeRangeFn take_range = nullptr;
};

}  // namespace rondo::host
