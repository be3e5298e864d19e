// What families share whose blocks copy tiles of A and B to shared memory and multiply them there: which
// problems suit, how blocks are counted, and the text that says where a block's tile lies. Internal to
// compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_MATMUL_BLOCK_TILES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_MATMUL_BLOCK_TILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// Whether tiles of 16-bit factors, or of f32, can compute the part, and there is enough of it.
bool SuitsHalfTiles(const PartContext& context, const MatmulProblem& problem);
bool SuitsFloatTiles(const PartContext& context, const MatmulProblem& problem);

// An A through a prologue, or with indices from data, is made element by element, or, if its tape reads
// vectors along K, ALanes at a time.
bool AIsMade(const Part& part);
int ALanes(const PartContext& context, const MatmulProblem& problem);

// Clusters that may split `steps` of K: none larger than it has steps, unless others have settled it.
std::vector<int64_t> Clusters(const PartContext& context, int64_t steps);

// How the tiles of a problem are counted: blocks of a cluster first, then tiles along M, along N, batches.
struct TileGrid {
  int64_t m_tiles, n_tiles, cluster, blocks;
};
TileGrid GridOf(const MatmulProblem& problem, int64_t m, int64_t n, int64_t cluster);

// Where a block's tile is, and the lambdas by which tiles are copied. `a_lanes`: of what makes A.
void WriteTilePlaces(const PartContext& context, const MatmulProblem& problem, const TileGrid& grid,
                     int a_lanes, PartWriter* writer);
// What every device template of tiles is called with.
std::string TileArguments(const Part& part, const MatmulProblem& problem);

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_MATMUL_BLOCK_TILES_H_
