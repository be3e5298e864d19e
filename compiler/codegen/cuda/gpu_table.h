// GpuTable: what a GPU does in a cycle, and what starting and ending cost there. All estimates of kernels
// (matmul/matmul_cost.h, attention/attention_cost.h, convolution/window_shape.h) come from it.
//
// Units: cycles of a multiprocessor's clock; bytes a cycle; for matmuls multiply-adds a cycle of one
// multiprocessor. Where each number comes from stands behind it:
//   [products]  tools/bench/results/gpu-matmuls.md
//   [library]   tools/bench/results/gpu-library-matmuls.md
//   [attention] tools/bench/results/gpu-attention.md
//   [packed]    tools/bench/results/packed-weights.md
//   [fit]       chosen so that estimates follow the times of whole kernels; not measured by itself
// tools/bench/gpu_table fits those that times of single kernels tell. All were measured on an H200.
// A GPU without a row of its own is taken for one with fewer or more multiprocessors.
#pragma once

#include <cstdint>

#include "compiler/codegen/cuda/cuda_target.h"
#include "core/kernel.h"

namespace rondo::cuda {

struct GpuTable {
  // Clock under load: the 1.755 GHz that predictions are made with [products]
  double cycles_a_microsecond = 1755;

  double processors = 132;  // multiprocessors of the GPU that was measured

  double l2_size = 50 << 20;  // bytes of L2

  // --- bytes a cycle
  double memory_bytes = 2500;      // from memory, all multiprocessors: 4.4 of 4.67 TB/s [products]
  double memory_processors = 100;  // multiprocessors that reach it; fewer get their share [fit]
  double l2_tma_bytes = 66;        // from L2 into one multiprocessor by TMA [fit]
  double l2_all_bytes = 8195;      // from L2 into all by TMA [fit]
  double l2_copy_bytes = 26;       // from L2 into one by threads' copies (cp.async) [products]
  double map_bytes = 1250;         // a map over sums, read and written, all multiprocessors [library]

  // --- multiply-adds a cycle of one multiprocessor
  double wgmma_tma = 1846;  // wgmma, tiles brought by TMA [fit]
  double wgmma = 1250;      // wgmma, tiles copied by threads: 550 TFLOP/s [products]
  // wgmma by packed weights, which warps unpack in registers: 43 configurations of matmuls of 512 rows
  // [packed]. What it multiplies; cycles to unpack half a stage, of one warpgroup, and of each 16 of K of
  // each.
  double wgmma_packed = 2310;
  double packed_start = 2010;     // a kernel's start and end
  double packed_l2_bytes = 6450;  // from L2 into all multiprocessors
  double unpack_start = 89;
  double unpack_slice = 30;
  // Of each tile: the last steps, and results through shared memory. Where K is split, more for the cluster,
  // and for each point from another block.
  double packed_stored_lanes = 128;  // instructions a cycle of their epilogues [fit]
  double packed_one_group = 1.26;    // of their time where there is but one group of warps [fit]
  double packed_end = 4500;
  double packed_split_start = 3000;
  double packed_split_point = 0.4;
  // wgmma of few rows by packed weights. Cycles of a scheduler to unpack and multiply 16 columns and 32 of K,
  // of numbers of few bits and of others; of a step, however little it has. Of a tile's end, also for each
  // point of each warpgroup, and for a cluster that splits K and each of its blocks.
  double packed_rows_unpack = 58;
  double packed_rows_unpack_bytes = 50;
  double packed_rows_few_groups = 1.07;  // of that time with less than four warpgroups
  double packed_rows_step = 620;
  double packed_rows_end = 1500;
  double packed_rows_point = 0.45;
  double packed_rows_split = 1000;
  double packed_rows_split_block = 250;
  // The same of A as digits: cycles to multiply, for each sum of a block, for a warp to make digits of 16
  // rows of a step, and until the first step has them.
  double packed_digits_multiply = 26;
  double packed_digits_sum = 6;
  double packed_digits_make = 110;
  double packed_digits_start = 1800;
  double mma = 750;        // mma.sync, warps with tiles of at least mma_full points [products]
  double mma_full = 2048;  // points of a warp's tile; smaller ones load as the root of that [fit]
  double tf32 = 300;       // mma.sync of f32 rounded to tf32, fragments loaded element by element [fit]
  double simt = 70;        // FMA in f32, tiles of 32 and 64 [fit]

  // --- tiles of blocks (mma, wgmma, tf32, SIMT): starting, storing, joining a cluster
  double tile_start = 4200;  // a kernel's start, its first copies and its end [fit]
  // Of each element of a matmul that threads read by itself; 0.9 where they lie far apart (59 million of them
  // took 240 us)
  double tile_element = 0.25;
  double tile_stored = 20;    // points a cycle through the epilogue [fit]
  double split_start = 1500;  // a cluster that splits K: its barriers [fit]
  double split_block = 600;   // and for each of its blocks [fit]
  double split_point = 0.1;   // and for each point from another block [products]

  // --- tiles brought by TMA
  // 31 matmuls, of 33 to 16,384 rows, with up to 32 configurations each
  // (tools/bench/results/operator-grid.md): the median estimate is 5.6 % off, and the choice within 5 % of
  // the best on 28, 11 % behind at most [fit].
  double tma_start = 766;          // a kernel's start and end
  double tma_cluster_start = 180;  // more where blocks share what they read
  double tma_stored_lanes = 98;    // instructions a cycle of the epilogue, with two groups of warps
  double tma_one_group = 1.82;     // of its instructions' time where there is but one group
  double tma_not_boxed = 0.55;     // of their time where TMA does not store results
  double tma_read_bytes = 18;  // what the epilogue reads, in bytes a cycle; stores take no time of their own
  double tma_half_box = 0.33;  // more of the epilogue's time where the last box has 16 columns
  double tma_turn = 1295;      // where warpgroups take turns: from one set's last step to the other's first
  double tma_sharpness = 12;   // of the larger of copying and multiplying: the one delays the other
  double tma_split_start = 4110;   // a cluster that splits K
  double tma_split_point = 0.065;  // and for each point from another block

  // --- clusters lie in groups of multiprocessors that are no multiples of 4 and 8
  double clusters_of_4 = 0.9;   // of the multiprocessors that are used: 41 us where pairs took 31 [products]
  double clusters_of_8 = 0.84;  // [fit]
  // Of the multiprocessors, the part that such clusters find room on at once.
  double UsedBy(int64_t cluster) const {
    return cluster >= 8 ? clusters_of_8 : cluster >= 4 ? clusters_of_4 : 1;
  }

  // --- few rows: B streamed once from memory
  // Start and end: 3.5 of the 3 to 4.5 us that every such kernel was seen to take [fit]
  double stream_start = 6100;
  double stream_next_best = 1;  // each configuration behind the best one, as they were timed [products]

  // --- attention: 2.4 to 28.1 us of whole kernels [attention]
  double attention_start = 4000;  // a kernel's start, its first loads and its end [fit]
  double attention_round = 1500;  // each further round of blocks: their first loads and their ends [fit]
  double attention_bytes = 25;  // bytes a cycle of keys and values that the warps of one multiprocessor read
                                // for themselves: 8.3 and 28.1 us [fit]
  // Blocks that share keys and values, by wgmma, of 64 queries (narrow) or 128 (wide): a kernel, each round
  // of blocks, each key and each feature of it and its value; two blocks at once (62 kernels of 4 to 240 us,
  // within 15 %; several wide blocks after one another: 85 and 110 us) [fit]
  double attention_narrow_start = 1300;
  double attention_narrow_block = 2100;
  double attention_narrow_key = 8.6;
  double attention_narrow_feature = 0.113;
  double attention_together = 0.83;
  double attention_wide_block = 5300;
  double attention_wide_key = 14;
  double attention_wide_feature = 0.147;
  // A block whose warpgroups take turns: its start and end; a stage; each key of a warpgroup's stage, each
  // feature of such a key and of its value; a mask; keys that the warpgroups share; two stages, whose copies
  // are waited for (73 kernels of 4 to 185 us, within 12 %) [fit]
  double attention_pipelined_block = 5200;
  double attention_pipelined_stage = 250;
  double attention_pipelined_key = 3.8;
  double attention_pipelined_feature = 0.106;
  double attention_pipelined_mask = 7;
  double attention_mask_piece = 12;  // for each more read of eight keys' mask
  double attention_pipelined_shared = 1.18;
  double attention_pipelined_two_stages = 1.08;
  // Multiply-adds a cycle by mma.sync, both matmuls and the softmax between them, of one multiprocessor: 6.8
  // and 22.6 us [fit]
  double attention_mma = 240;
  double attention_unsuited =
      0.77;  // of it, by stages of fewer or more keys than suit: 34.4 us and 26.6 [fit]
  // Elements of a mask that a multiprocessor adds in a cycle, where each query has its own, and where all
  // have the same; elements of keys and values that it copies one by one [fit]
  double attention_mask = 3.4;
  double attention_mask_keys = 7;
  double attention_elements = 4;
  double fma = 128;        // f32 by FMA, from registers
  double fma_stage = 500;  // and each stage of 64 keys: softmax, barriers [fit]

  // --- cuBLASLt
  double library_start = 6800;   // start and end, over which no other kernel runs [library]
  double library_stored = 40;    // points a cycle through the epilogue [fit]
  double library_few_rows = 32;  // up to so many rows it reads memory no faster, and was not fitted [library]
  // Its blocks have 128 or 64 points along M or N, and along the other one as many as suit, in steps of 8.
  // Cycles of 64 of K: of such a block, and for each of those points (128 x 256 1180, 64 x 64 260) [fit]
  double library_step = 40, library_step_point = 4.45;
  double library_narrow_step = 118, library_narrow_step_point = 2.23;
  // Cycles of a matmul of f32 over those of one of 16 bits, rounded to tf32 and exact. They take 2.4 and 13.9
  // times as long (tools/bench/gpu_table), but beside estimates of simt and tf32 that are as far off, 1
  // chooses better: 1.046 times the best that was timed against 1.085 [fit]
  double library_tf32 = 1;
  double library_f32 = 1;
  // The same of 16-bit rows that begin at odd elements: 6968 x 3040 x 143 took 216 us [fit]
  double library_odd_rows = 20;
  double map_start = 1600;  // start and end of the map that follows a library's matmul [library]

  // --- among the kernels of a whole model [library]
  double long_kernel = 40000;        // generated matmuls longer than that
  double long_among_others = 1.2;    // take more of their own time than alone
  double short_among_others = 0.85;  // others overlap with the kernels around them; a library's do not
  // The same of tiles by TMA: what they save by overlaps, in cycles. ViT-L's 1,576 x 4,096 x 1,024 takes 21
  // us alone and as long as 23.5 in the model, where cuBLASLt's 20 are 22 [fit]
  double tma_overlap = 3070;

  // --- where one template is better than another
  // Rows, where B's vectors lie along N or in f32: 16 took 22 us, tiles 16 [fit]
  int64_t stream_wide_rows = 8;
  int64_t dot_rows = 4;           // matmuls of so few rows ...
  int64_t dot_bytes = 256 << 10;  // and so little B: a stream would end before it has begun [fit]
  double dot_points = 8;  // points a multiprocessor from which on blocks have 256 threads, not 64 [fit]
  // Attention whose queries share keys and values in shared memory [attention]
  int64_t staged_two_blocks = 128;  // values up to which registers are left for two blocks a multiprocessor
  int64_t staged_wide_stage = 128;  // features and values up to which mma has them for scores of 64 keys
  int64_t last_writer_points = 65536;  // of a scatter: each looks at all later ones [fit]
  // Points whose places belong to one block each: so few that every block looks at all of them by itself, and
  // so few that two blocks of a multiprocessor do [fit]
  int64_t owned_alone = 4096;
  int64_t owned_two_blocks = 1 << 16;
  // A row of so few vectors is left to one warp, longer ones to a block [fit]
  int64_t row_warp_vectors = 128;
  int64_t row_warp_elements = 256;  // the same of rows that are read element by element [fit]
  // Elements from which on the blocks of a cluster share a row, if there is one whose extremes alone are
  // found [fit]
  int64_t team_extremes = 1 << 13;
  int64_t column_cluster_rounds = 32;  // loads of a thread that a cluster must save to be worth it [fit]

  // --- epilogues: instructions a point, besides one for most operations [fit]
  double epilogue_place = 6;      // of where the point lies
  double epilogue_function = 16;  // of a function without an instruction of its own (erf, tanh, exp, sigmoid)
  double quick_function = 7;      // the same for results of 16 bits (device/quick_scalar.cuh), by their count

  // --- maps and reductions, by the instructions of their threads, four warps of which issue at once:
  // operators of the grid (tools/bench/results/operator-grid.md) [fit]
  double element_start = 1250;   // cycles: start and end of a kernel
  double element_thread = 95;    // of a thread: where its point lies
  double element_place = 22;     // of an access: where its element lies; again for each index and guard
  double element_step = 7;       // the same where it follows from another point's
  double element_access = 1;     // of each element that is accessed by itself, besides
  double element_function = 12;  // of a function without an instruction of its own
  double short_access = 4;       // the same where a short K is unrolled, and with it places
  double short_guard = 8;        // of each guard of such an element
  double row_wait = 40;          // cycles that each round of a row is waited for that registers do not keep
  // Matmuls whose threads go through K element by element: 5 x 64 x 2327 took 47 us, and 64 x 8000 x 3 of 8
  // images 64.6
  double chain_wait = 33;          // cycles of an element
  double chain_thread = 390;       // instructions of a thread ...
  double chain_instructions = 16;  // and for each element
  // Points whose places belong to one block each: cycles of an index that a block looks at, of each exchange
  // in a cluster, of a pass over a list, and of a point in it; bytes a cycle of what points read
  double owned_index = 0.3;
  double owned_exchange = 1500;
  double owned_pass = 500;
  double owned_sorted = 0.7;
  double owned_bytes = 24;
  // Sectors of scattered elements a cycle, all multiprocessors: read, and changed by atomic operations
  // (PyTorch's sums of 6.4 million f32 at random places: 88 us)
  double scattered_reads = 120;
  double scattered_updates = 41;
  double changing_extremes = 0.3;  // of the updates by maximum or minimum, those that change the element
  double ordered_point = 500;      // cycles of each point of a map that runs in order on one thread

  // --- windows (depthwise convolutions, pools): instructions of a warp, four of which issue at once [fit]
  double window_read = 6;        // of reading one place, besides one a lane
  double window_output = 12;     // of an output, besides its epilogue
  double window_start = 60;      // of a thread
  double window_line = 40;       // cycles that a line's first read is waited for
  double window_chain = 300;     // the same of each of many lines, read one after another: 133 and 146 us
  int64_t window_lines = 64;     // so many
  double window_issue = 4;       // warps that issue in one cycle
  double window_load_bytes = 4;  // bytes of a thread that one cycle of the load units brings
  double window_apart = 16;      // loads of a warp whose threads read far apart: 1,700 us [fit]
};

// The row of a target: its own (CudaTarget::table), or else the H200's, the only one that was measured.
const GpuTable& GpuTableOf(const CudaTarget& target);

// Instructions a point of an epilogue, about.
double EpilogueInstructions(const GpuTable& gpu, const Part& part);

}  // namespace rondo::cuda
