// Attention of many queries on sm_90a: one warpgroup copies keys and values, and two compute, each with
// queries of its own or, of the same 64 queries, with its own share of a stage's keys. They take turns: one
// has the tensor cores while the other makes weights of its scores; and a warpgroup's own weights are made
// beside its matmul with values. As FlashAttention-3 does it (Shah et al., 2024,
// https://arxiv.org/abs/2407.08608).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_PIPELINED_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_PIPELINED_CUH_

#include "compiler/codegen/cuda/device/attention_staged.cuh"
#include "compiler/codegen/cuda/device/mbarrier.cuh"
#include "compiler/codegen/cuda/device/named_barrier.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Barriers in shared memory for each stage: that its keys, or values, are there, and that they are used up.
template <int STAGES>
struct StageBarriers {
  static constexpr int KEYS = 0, VALUES = 1;
  u32 first;
  MEMBER u32 full(int what, int tile) const { return first + 8 * (what * STAGES + tile % STAGES); }
  MEMBER u32 used(int what, int tile) const { return full(what + 2, tile); }
  // The parity of the phase in which a tile is in its stage.
  static MEMBER u32 phase(int tile) { return (u32)(tile / STAGES & 1); }
};

// Of those that only copy, whose registers are few.
template <typename Matmuls>
using CopierSource = StagedSource<Matmuls, StagedAttention::kCopiers, 4>;

// Copies all tiles, each as soon as its stage is free.
template <typename Matmuls>
DEV void copy_tiles(const CopierSource<Matmuls>& source, StageBarriers<Matmuls::LAYOUT.stages> barriers,
                    int bound) {
#pragma unroll 1
  for (int tile = 0; tile * Matmuls::KEYS < bound; ++tile) {
#pragma unroll
    for (int what = 0; what < 2; ++what) {
      if (tile >= Matmuls::LAYOUT.stages) mbarrier_wait(barriers.used(what, tile), barriers.phase(tile) ^ 1);
      if (what == barriers.KEYS)
        source.copy_keys(tile, bound);
      else
        source.copy_values(tile, bound);
      mbarrier_arrive_when_copied(barriers.full(what, tile));
    }
  }
  wait_copies<0>();
}

// A block of kBlockThreads threads that compute, and StagedAttention::kCopiers that copy to them.
template <typename Matmuls>
struct AttentionPipeline {
  static constexpr int STAGES = Matmuls::LAYOUT.stages;
  StageBarriers<STAGES> barriers;
  LinesAt keys, values;
  int bound;  // no key from it on is read
  u32 queries;

  MEMBER u32 stages() const { return queries + Matmuls::LAYOUT.query_bytes(); }
  // All threads call. `limits` as staged_attention has them.
  template <bool LIMITED>
  MEMBER void begin(const int* limits, int all) {
    __shared__ u64 memory[4 * STAGES];
    barriers.first = shared_address(memory);
    if (threadIdx.x == 0) {
#pragma unroll
      for (int what = barriers.KEYS; what <= barriers.VALUES; ++what)
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
          mbarrier_init(barriers.full(what, s), StagedAttention::kCopiers);
          mbarrier_init(barriers.used(what, s), kBlockThreads / 128);
        }
    }
    bound = all;
    if constexpr (LIMITED)
      bound = greatest_of_block<(kBlockThreads + StagedAttention::kCopiers) / 32>(max(limits[0], limits[1]));
    else
      __syncthreads();
    queries = Matmuls::begin();
  }
  // The threads behind those that compute, which have nothing more to do. Of a multiprocessor's 65536
  // registers they need 56 each; that leaves 224 to each of the others.
  MEMBER void copy() const {
    fewer_registers<56>();
    copy_tiles<Matmuls>({stages(), keys, values}, barriers, bound);
  }
};

// As staged_attention, by the threads that compute.
template <bool PLAIN, typename Matmuls, typename QueryAt, typename Mask, typename Score>
DEV void pipelined_attention(const AttentionPipeline<Matmuls>& pipeline, typename Matmuls::Rows& rows,
                             QueryAt query_at, i64 element, const int* limits, float unit, Mask mask,
                             Score score) {
  constexpr StagedAttention LAYOUT = Matmuls::LAYOUT;
  using Barriers = StageBarriers<LAYOUT.stages>;
  constexpr int OWN = LAYOUT.own(), KEYS = Barriers::KEYS, VALUES = Barriers::VALUES;
  constexpr int GROUP = 128;
  const Barriers& barriers = pipeline.barriers;
  more_registers<224>();
  const StagedSource<Matmuls> source = {pipeline.stages(), pipeline.keys, pipeline.values};
  const u32 queries = pipeline.queries;
  copy_lines<typename Matmuls::Queries, LAYOUT.rows(), 2, LAYOUT.features, LAYOUT.query_lanes>(
      queries,
      [&](int line) {
        const char* at = query_at(line);
        return Line{at != 0 ? at : source.keys.at, at != 0};
      },
      element);
  commit_copies();
  // Below it, every row of the warp has every key. Rows that do not exist count as the others.
  const int whole = (int)__reduce_min_sync(0xffffffffu, min((u32)limits[0], (u32)limits[1]));
  wait_copies<0>();
  Matmuls::show();
  named_sync<kBlockThreads>(1);
  const int tiles = (pipeline.bound + LAYOUT.keys - 1) / LAYOUT.keys;
  const u32 group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0);  // so that ptxas sees it is a warp's
  const u32 turn = 2 + group, other = 2 + (group ^ 1);                 // barriers of the warpgroups' turns
  const u32 own_queries = queries + Matmuls::own_queries(group), own_keys = Matmuls::own_keys(group);
  auto wait_for = [&](int what, int tile) {
    mbarrier_wait(barriers.full(what, tile), barriers.phase(tile));
    Matmuls::show();
  };
  auto used = [&](int what, int tile) {
    if (threadIdx.x % GROUP == 0) mbarrier_arrive(barriers.used(what, tile));
  };
  rows.clear();
  if (tiles == 0) return;
  float s[OWN / 8][4], scale[2];
  u32 weights[OWN / 16][4];
  if (group == 1) named_arrive<kBlockThreads>(other);  // the first turn is the other's
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for(KEYS, tile);
    named_sync<kBlockThreads>(turn);
    Matmuls::begin_score(own_queries, source.stage(tile) + own_keys, s);
    if (tile > 0) {
      wait_for(VALUES, tile - 1);
      Matmuls::begin_add(source.stage(tile - 1) + LAYOUT.key_bytes() + own_keys, weights, rows.out);
    } else {
      wgmma_fence();
      wgmma_commit();  // of nothing, so that one more is pending than the scores
    }
    if (group == 0 || tile + 1 < tiles) named_arrive<kBlockThreads>(other);
    const int from = tile * LAYOUT.keys + (int)group / (LAYOUT.row_warps / 4) * OWN;
    mask.load(from);
    wgmma_wait<1>();
    hold_accumulators<OWN / 8>(s);
    used(KEYS, tile);
    if (!PLAIN || from + OWN > whole) limit_scores<Matmuls>(s, from, limits, mask, score);
    rows.template weigh<OWN / 8>(s, unit, scale);
    // Never below 0. Without it, ptxas makes weights behind the wait, not beside the matmul; a trap here, and
    // it would keep to the registers that the kernel begins with.
    if (rows.total[0] + rows.total[1] < 0) asm volatile("st.shared.u32 [%0], %0;" ::"r"(queries) : "memory");
    wgmma_wait<0>();
    hold_accumulators<Matmuls::VALUES / 8>(rows.out);
    if (tile > 0) used(VALUES, tile - 1);
    rows.rescale(scale);
    pack_weights<Matmuls::BF16, OWN / 16>(s, weights);
  }
  wait_for(VALUES, tiles - 1);
  Matmuls::add(source.stage(tiles - 1) + LAYOUT.key_bytes(), weights, rows.out);
  named_sync<kBlockThreads>(1);
#pragma unroll
  for (int h = 0; h < 2; ++h) rows.most[h] *= unit;
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_PIPELINED_CUH_
