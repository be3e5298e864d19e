// TmaMatmul: a matmul whose tiles TMA brings (matmul_tma.cuh), as its kernel fixes it; and what lies where in
// its shared memory. Sizes in bytes unless said otherwise.
#pragma once

#include "compiler/codegen/cuda/device/tile_layout.h"

namespace rondo::cuda {

// Tile K: lines of 128 bytes, as TMA swizzles them and wgmma reads them. Of FP8 all that counts along K
// counts pairs.
enum : int { kTmaTileK = 64 };

// What is multiplied.
enum TmaFactors : int { kTmaF16, kTmaBF16, kTmaE4M3, kTmaE5M2E4M3, kTmaE4M3E5M2, kTmaE5M2 };

// A cluster has cluster_m x cluster_n blocks with tiles that lie side by side: those that share tiles of A
// (along N), or of B (along M), copy a share each for all (multicast). split_k blocks divide K. All are ints,
// as those of TileMatmul.
struct TmaMatmul {
  int m, n;  // the tile
  int b_count;
  int cluster_m, cluster_n, split_k;
  int b_k_major;  // lines of B run along K, else panels of 64 columns do along N
  int stages;
  int lanes;       // neighbouring points of the epilogue
  int factors;     // TmaFactors: of A, then of B
  int early;       // stages whose B is asked for before the kernels ahead are complete: B never changes
  int words;       // that `fetch` reads ahead of the epilogue, for each call of it
  int registers;   // for words while all accumulators are needed
  int boxed;       // TMA stores the results, which have 16 bits: from pieces in shared memory
  int of_columns;  // words that `fetch_columns` reads ahead for two columns of all rows, if boxed
  int down;        // neighbouring threads compute neighbouring rows: results lie next to each other along M
  int turns;       // sets of warpgroups that take tiles in turn: the epilogue of one beside the next tile

  HOST_DEVICE int cluster() const { return cluster_m * cluster_n * split_k; }
  HOST_DEVICE bool fp8() const { return factors >= kTmaE4M3; }
  HOST_DEVICE int tile_groups() const { return m / 64; }               // warpgroups of one tile
  HOST_DEVICE int groups() const { return tile_groups() * turns; }     // warpgroups, which multiply
  HOST_DEVICE int threads() const { return groups() * 128 + 32; }      // and a warp that copies
  HOST_DEVICE int peers() const { return cluster_m + cluster_n - 1; }  // blocks that copy into one
  // Stages: A, then the matrices B one behind the other, so that one instruction can multiply with all.
  HOST_DEVICE int panels() const { return b_k_major ? 1 : (n + 63) / 64; }
  HOST_DEVICE int at_once() const { return b_k_major || n % 64 == 0 ? b_count : 1; }
  HOST_DEVICE int a_bytes() const { return m * kTmaTileK * 2; }
  HOST_DEVICE int b_bytes() const { return (b_k_major ? n : panels() * 64) * kTmaTileK * 2; }
  HOST_DEVICE int stage() const { return a_bytes() + b_count * b_bytes(); }
  // Lines that one block asks for, of those that blocks share.
  HOST_DEVICE int a_share() const { return m / cluster_n; }
  HOST_DEVICE int b_share() const { return (b_k_major ? n : int{kTmaTileK}) / cluster_m; }
  // A warp puts its 16 rows through memory of its own, a piece at a time, where K is not split: results that
  // TMA stores, in boxes of 64 or 32 columns, or else accumulators. Of accumulators whose results have 16
  // bits the first pieces have 64 columns and half of the rows, so that each line of 128 bytes is written at
  // once (64 bytes at a time take 1.4 times as long); the others have all rows.
  HOST_DEVICE int narrow() const {
    return boxed ? (n % 64 == 0 ? 64 : 32) : b_count == 1 && n % 32 == 0 ? 32 : 16;
  }
  HOST_DEVICE int wide_pieces() const {
    return !boxed && lanes == 8 && b_count == 1 && !down ? n / 64 * 2 : 0;
  }
  HOST_DEVICE int pieces() const {
    return wide_pieces() + (n - wide_pieces() * 32 + narrow() - 1) / narrow();
  }
  HOST_DEVICE int columns(int piece) const {
    const int left = n - first_column(piece);
    return piece < wide_pieces() ? 64 : left < narrow() ? left : narrow();
  }
  HOST_DEVICE int rows(int piece) const { return piece < wide_pieces() ? 8 : 16; }
  HOST_DEVICE int first_column(int piece) const {
    return piece < wide_pieces() ? piece / 2 * 64 : wide_pieces() * 32 + (piece - wide_pieces()) * narrow();
  }
  HOST_DEVICE int first_row(int piece) const { return piece < wide_pieces() ? piece % 2 * 8 : 0; }
  HOST_DEVICE int points(int piece) const { return rows(piece) * columns(piece); }
  // Calls of the epilogue, or if boxed of `fetch`: two for each 32 columns.
  HOST_DEVICE int calls(int piece) const {
    return boxed ? (columns(piece) + 31) / 32 * 2 : (points(piece) / lanes + 31) / 32;
  }
  HOST_DEVICE int most_calls() const { return calls(0); }
  // Words of a call, and of a pair of columns; arrays have one at least.
  HOST_DEVICE int fetched_words() const { return words > 0 ? words : 1; }
  HOST_DEVICE int column_words() const { return of_columns > 0 ? of_columns : 1; }
  // Pieces whose words have been asked for when the accumulators of `stored` pieces have left their
  // registers, to which words may move.
  HOST_DEVICE int fetched(int stored) const {
    const int piece_words = most_calls() * words > 0 ? most_calls() * words : 1;
    const int fit = (registers + stored * b_count * points(0) / 32) / piece_words;
    const int pending = stored > 0 ? stored - 1 : 0, least = stored + 1;
    const int count = pending + fit > least ? pending + fit : least;
    return count < pieces() ? count : pieces();
  }
  HOST_DEVICE int pitch(int piece) const { return columns(piece) + 8; }  // floats
  HOST_DEVICE int box_bytes() const { return 16 * narrow() * 2; }
  HOST_DEVICE bool half_box() const { return boxed && n % narrow() != 0; }  // the last one has 16 columns
  HOST_DEVICE int boxes() const { return 4096 / box_bytes(); }  // of a warp: one is filled, others are stored
  HOST_DEVICE int own_bytes() const {                           // of a warp
    const int narrow_bytes = b_count * 16 * (narrow() + 8) * 4, wide_bytes = 8 * (64 + 8) * 4;
    return boxed ? 4096 : wide_pieces() > 0 && narrow_bytes < wide_bytes ? wide_bytes : narrow_bytes;
  }
  HOST_DEVICE int piece_bytes() const { return split_k > 1 ? 0 : groups() * 4 * own_bytes(); }
  // Where K is split, the accumulators lie where the stages were.
  HOST_DEVICE int accumulators() const { return split_k > 1 ? AccumulatorsBytes(m, n, b_count) : 0; }
  // With so many stages: to align them, two barriers a stage, and the pieces.
  HOST_DEVICE int besides_stages(int count) const { return 1024 + 16 * count + piece_bytes(); }
  HOST_DEVICE int shared() const { return stages * stage() + besides_stages(stages); }
};

// The problem. M and K of A lie evenly in runs of m_run and k_run.
struct TmaExtents {
  int m, n, k, batches, m_run, k_run;
};
// Results that TMA stores lie evenly in such runs of M and N.
struct TmaRuns {
  int m, n;
};

}  // namespace rondo::cuda
