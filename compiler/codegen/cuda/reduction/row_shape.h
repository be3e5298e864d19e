// RowShape: the distribution of a row's elements over the threads that share it, each of which keeps its own
// in registers; and the loops over them. Internal to compiler/codegen/cuda.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduction/row_steps.h"
#include "compiler/codegen/cuda/reduction/unaligned_rows.h"

namespace rondo::cuda {

// The distribution of a row over the threads that share it.
struct RowShape {
  size_t along = 0;  // the innermost loop
  int lanes = 1;     // elements a vector
  int64_t vectors = 0, rounds = 0;
  std::optional<UnalignedRows> unaligned;  // rows begin anywhere: `vectors` is the most that one has
  std::vector<size_t> cached;  // operands read by several stages, or before waiting for earlier kernels
  int64_t width = 32;          // threads
  int64_t cluster = 1;         // blocks that share the row
  bool in_registers = true;    // at least some of it; otherwise rounds are a loop
  // Kept values and the cached operands lie in dynamic shared memory, so rounds are a loop.
  bool in_shared = false;
};

// What per-element stages read and write; some operands appear more than once.
std::vector<size_t> RowOperands(const Part& part);
// Sets `along`, `lanes` and `vectors`, and `unaligned` if that makes vectors of long rows larger.
void SetVectors(const PartContext& context, RowShape* shape);
// Declares `head` and `vectors` if rows are unaligned, where the row's counters are known.
void DeclareRow(const PartContext& context, const RowShape& shape, PartWriter* writer);
// Operands read by several stages; and, if `early`, constant ones, which can be read as vectors before the
// kernels ahead are complete.
std::vector<size_t> CachedOperands(const PartContext& context, const RowShape& shape, bool early = true);
// Whether the elements that a row reads lie in runs of at least a sector (32 bytes). Rows of shorter runs
// share their sectors with other rows, and more loads in flight then take longer: group norms of 4 channels
// took 600 us with them and 416 without (134 MB, an H200).
bool FillsSectors(const Part& part);
// Registers of one thread for kept values and the cached operands.
int64_t RegistersOf(const Part& part, const RowShape& shape);

// A row that neighbouring lanes of a warp, a warp or a block keep; or that a block reads for each stage, if
// it is too long and vectors suit; or that one thread handles alone, if many rows read the same elements. No
// value for others.
std::optional<RowShape> ShapeOfRow(const PartContext& context);

// Threads of a row as kPlainReduction reads it: a block, a warp or, if it keeps nothing, a part of one; one
// thread where many rows lie side by side.
int64_t WidthOfPlainRow(const PartContext& context);

// Bytes of shared memory of a block if the row lies there.
int64_t SharedBytesOf(const Part& part, const RowShape& shape);

// Declares keptK and sK.
void DeclareKept(const RowTypes& types, const RowShape& shape, PartWriter* writer);
void DeclareScalars(const RowTypes& types, PartWriter* writer);
// Reads the cached operands: the constant ones, or the others.
void CacheOperands(const PartContext& context, const RowShape& shape, bool constant, PartWriter* writer);
// Writes the stage's tape for all of this thread's elements (the row's thread is `lane`); reductions go to
// vK.
void WriteElements(const PartContext& context, const RowShape& shape, const Stage& stage,
                   const std::string& prefix, PartWriter* writer);
// Writes any stage of a row that `shape.width` threads share, including its reductions.
void WriteRowStage(const PartContext& context, const RowShape& shape, const Stage& stage,
                   const std::string& prefix, PartWriter* writer);

}  // namespace rondo::cuda
