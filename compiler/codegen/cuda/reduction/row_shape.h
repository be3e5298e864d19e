// How a row's elements lie over the threads that share it, each of which keeps its own in registers; and the
// loops over them. Internal to compiler/codegen/cuda.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduction/row_steps.h"

namespace rondo::cuda {

// How a row lies over the threads that share it.
struct RowShape {
  size_t along = 0;  // the innermost loop
  int lanes = 1;     // elements a vector
  int64_t vectors = 0, rounds = 0;
  std::vector<size_t> cached;  // operands read by several stages, or before the wait
  int64_t width = 32;          // threads
  int64_t cluster = 1;         // blocks that share the row
  bool in_registers = true;    // some of it; else rounds are a loop
  // What the row keeps, and what of it is cached, lies in dynamic shared memory, so that rounds are a loop.
  bool in_shared = false;
};

// What the stages of elements read and write, some of it more than once.
std::vector<size_t> RowOperands(const Part& part);
// Operands read by several stages, or that are constant and so may be read before the kernels ahead are
// complete; as vectors.
std::vector<size_t> CachedOperands(const PartContext& context, const RowShape& shape);
// Of one thread, for what a row keeps and what of it is cached.
int64_t RegistersOf(const Part& part, const RowShape& shape);

// A row that neighbours in a warp, a warp or a block keep; or that a thread takes alone, of many that read
// the same elements. None if it is too long; and a long one that lies so that vectors cannot be read.
std::optional<RowShape> ShapeOfRow(const PartContext& context);

// Bytes of shared memory of a block where the row lies there.
int64_t SharedBytesOf(const Part& part, const RowShape& shape);

// Declares keptK and sK.
void DeclareKept(const RowTypes& types, const RowShape& shape, PartWriter* writer);
void DeclareScalars(const RowTypes& types, PartWriter* writer);
// Reads the cached operands that are constant, or the others.
void CacheOperands(const PartContext& context, const RowShape& shape, bool constant, PartWriter* writer);
// The stage's tape at all of this thread's elements (the row's thread is `lane`), reductions in vK.
void WriteElements(const PartContext& context, const RowShape& shape, const Stage& stage,
                   const std::string& prefix, PartWriter* writer);
// Any stage of a row that the `shape.width` threads of a row share, with what it reduces.
void WriteRowStage(const PartContext& context, const RowShape& shape, const Stage& stage,
                   const std::string& prefix, PartWriter* writer);

}  // namespace rondo::cuda
