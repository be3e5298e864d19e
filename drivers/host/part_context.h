// The shared state of all families' builders: one part of a kernel, its nest, and helpers for accesses,
// scratch and errors.
//
// A family's builder (map/, reduction/, matmul/, convolution/, attention/) decides whether and how one of its
// variants computes the part, and fills in the family's struct. Used once, by one thread. All results live in
// `arena`. Errors name the kernel.
#pragma once

#include "core/arena.h"
#include "core/list.h"
#include "core/status.h"
#include "drivers/host/engine.h"
#include "drivers/host/nest.h"
#include "drivers/host/program.h"
#include "drivers/host/sharing.h"

namespace rondo::host {

// The most scratch for a worker; parts that need more are refused. Loops over scratch count in int.
inline constexpr int64_t kMaxScratchBytes = int64_t{1} << 32;

// The product of sizes that are not negative, capped at twice kMaxScratchBytes.
template <typename... Sizes>
int64_t Bytes(Sizes... sizes) {
  int64_t product = 1;
  for (int64_t size : {static_cast<int64_t>(sizes)...}) {
    if (__builtin_mul_overflow(product, size, &product) || product > 2 * kMaxScratchBytes)
      product = 2 * kMaxScratchBytes;
  }
  return product;
}

inline bool Is8Bit(DType t) { return t == DType::kI8 || t == DType::kU8; }

// How registers hold an operand: in its natural type; or, for operands without guards and indirects, bytes as
// f32 or unchanged.
enum class LoadAs : uint8_t { kNatural, kFloat, kByte };

class PartContext {
 public:
  // `linear`: see MakeTiling. Call Start before any other use.
  PartContext(const Kernel& kernel, const Part& part, const Engine& engine, const Sharing& sharing,
              Arena& arena, bool linear)
      : kernel(kernel), part(part), engine(engine), sharing(sharing), arena(arena), linear(linear) {}
  Status Start();

  // A part's program of type T, in the arena; null when out of memory.
  template <typename T>
  T* New(Variant variant) {
    T* made = arena.New<T>(1).data();
    if (made != nullptr) Set(made, variant);
    return made;
  }
  void Set(PartProgram* made, Variant variant) const;  // which variant it is of

  Status Fail(const char* what) const;  // kUnsupported: "... the host driver cannot run `what`"
  Status NoMemory() const;
  // Reserves `bytes`, computed by Bytes or small, in a worker's scratch. Returns the offset.
  int64_t Take(int64_t bytes);

  // The access to the operand for the tiles of `tiling`.
  Status BuildAccess(uint16_t operand, const Tiling& tiling, const Access** out, int depth = 0,
                     LoadAs as = LoadAs::kNatural);

  // Whether the operand's address depends on a loop of the group; TapeDepends: whether the tape's result
  // does.
  bool Depends(const Operand& operand, int group, int depth = 0) const;
  bool TapeDepends(Tape tape, int group) const;
  // Whether the operand is 8-bit integers (f32 for IsPlainFloat), without guards and indirects.
  bool IsPlainByte(uint16_t operand) const;
  bool IsPlainFloat(uint16_t operand) const;

  const Kernel& kernel;
  Part part;
  const Engine& engine;
  const Sharing& sharing;
  Arena& arena;
  const bool linear;
  bool overflow = false;       // after an error: the part can be built with `linear`
  bool channels_last = false;  // see MakeNest
  Nest nest;
  Tiling tiling;                // of the lanes of the body or epilogue
  bool lanes_in_a_row = false;  // so every lane reads the same row scalar
  int64_t scratch_bytes = 0;

 private:
  Status DropGuards();
  Status BuildGuards(const Operand& operand, const Tiling& tiling, Access* access);
  Status BuildIndices(const Operand& operand, const Tiling& tiling, Access* access, int depth);
};

// Makes the program of the part by asking the families of its skeleton. Null on error.
Status BuildPart(PartContext& c, PartProgram** out);

// Whether a plain access walks the loops of the group with one step, and the step.
bool Linear(const Access& access, const Nest& nest, int group, int64_t* step);

// Elements from point to point along a loop; 0 if the access does not depend on it.
int64_t StepAlong(int loops, const uint8_t* loop, const int64_t* step, int which);
inline int64_t StepAlong(const Access& access, int which) {
  return StepAlong(access.num_loops, access.loop, access.step, which);
}
inline int64_t StepAlong(const GuardTest& guard, int which) {
  return StepAlong(guard.loops, guard.loop, guard.step, which);
}

}  // namespace rondo::host
