// Matmuls by weights in fewer bits (core/packed_weights.h; sm_90a), tile by tile. Persistent: copies into
// stages go on while sums become results.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_TILES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_TILES_CUH_

#include "compiler/codegen/cuda/device/packed_tiles_digits.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_pairs.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_results.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_rows.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// What adds up and what fills stages, by whether rows are few and A lies as digits.
template <PackedTiles MATMUL, typename MakeA, bool FEW_ROWS = (MATMUL.warp_tiles > 0),
          bool DIGITS = (MATMUL.digits > 0)>
struct PackedTilesForm {
  typedef PackedTilesWgmma<MATMUL> Sums;
  typedef PackedTilesCopies<MATMUL, MakeA> Copies;
};
template <PackedTiles MATMUL, typename MakeA>
struct PackedTilesForm<MATMUL, MakeA, true, false> {
  typedef PackedTilesRows<MATMUL, PackedTilesPairs> Sums;
  typedef PackedTilesCopies<MATMUL, MakeA> Copies;
};
template <PackedTiles MATMUL, typename MakeA>
struct PackedTilesForm<MATMUL, MakeA, true, true> {
  typedef PackedTilesRows<MATMUL, PackedTilesDigits> Sums;
  typedef PackedTilesDigitCopies<MATMUL, MakeA> Copies;
};

// a: A's map; with a_made a_at(m, k): 8 elements of A along K. `fetch` reads ahead what `epilogue` needs.
template <PackedTiles MATMUL, typename MakeA, typename Fetch, typename Epilogue>
DEV void matmul_packed_tiles(u32 block, u32 blocks, TmaExtents problem, const TensorMap* a, PackedTilesB b,
                             MakeA a_at, Fetch fetch, Epilogue epilogue) {
  typedef PackedTilesForm<MATMUL, MakeA> Form;
  constexpr int MULTIPLIERS = MATMUL.multipliers(), SPLIT_K = MATMUL.split_k;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
  const PackedTilesBlock<MATMUL> own(block, blocks, problem);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < MATMUL.stages; ++s) {
      mbarrier_init(own.full + 8 * s, MATMUL.writers() + 1);
      mbarrier_init(own.empty + 8 * s, MATMUL.column_warps());
    }
#pragma unroll
    for (int s = 0; s < MATMUL.raw_steps(); ++s) {
      mbarrier_init(own.raw_full + 8 * s, 1);
      mbarrier_init(own.raw_empty + 8 * s, 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (threadIdx.x == MULTIPLIERS) {
    if (!MATMUL.a_made) prefetch_tensor_map(a);
#pragma unroll
    for (int j = 0; j < MATMUL.b_count; ++j) prefetch_tensor_map(b.codes[j]);
  }
  if (SPLIT_K > 1)
    cluster_barrier();
  else
    __syncthreads();
  if (warp >= MULTIPLIERS / 32) {
    if constexpr (MATMUL.registers > 0) fewer_registers<kCopierRegisters>();
    const int thread = (int)threadIdx.x - MULTIPLIERS;
    if (MATMUL.writers() || thread < 32) typename Form::Copies(own, b, a, a_at, thread).run();
    if (SPLIT_K > 1) cluster_barrier();
  } else {
    if constexpr (MATMUL.registers > 0) more_registers<MATMUL.registers>();
    wait_for_earlier();
    typename Form::Sums sums(own, warp);
#pragma unroll 1
    for (u32 tile = own.first; tile < own.tiles; tile += own.stride) {
      int m, n;
      own.place(tile, m, n);
      sums.begin(b, n);
      sums.run();
      if constexpr (SPLIT_K == 1)
        packed_tiles_store<MATMUL>(sums, m, n, fetch, epilogue);
      else
        packed_tiles_join<MATMUL>(sums, m, n, fetch, epilogue);
    }
  }
  // No block ends while others of its cluster may still reach its shared memory.
  if (SPLIT_K > 1) cluster_barrier();
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_TILES_CUH_
