// Masks of attention on tensor cores: what a thread's scores of a stage get from memory, or nothing.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_MASKS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_MASKS_CUH_

#include "compiler/codegen/cuda/device/vectors.cuh"

// Whatever mask there is, `score` reads it itself.
struct NoMaskAhead {
  MEMBER void load(int) {}
  template <typename Score>
  MEMBER float score(Score score, int row, int, int key, float dot) const {
    return score(row, key, dot);
  }
};

// Elements of SIZE bytes, read before the scores are there: for each of a thread's two rows RUNS runs of
// eight neighbouring keys, 32 keys apart (PermutedKeys). LANES elements are read at once: their alignment
// permits it, and behind the last of `all` keys there are elements enough.
template <int SIZE, int LANES, int RUNS>
struct MaskAhead {
  static constexpr int WORDS = 2 * SIZE;  // of a run
  const char* rows[2];                    // the elements of the first key
  int all;
  u32 words[2][RUNS][WORDS];

  // The elements of the thread's keys in the stage whose first key of this warp is `from`.
  MEMBER void load(int from) {
    const int first = from + 8 * (threadIdx.x % 4);
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int r = 0; r < RUNS; ++r) load_run(rows[h], first + 32 * r, words[h][r]);
  }
  // The score of key 2 * (j % 4) + x of run j / 4.
  template <typename Score>
  MEMBER float score(Score score, int row, int element, int key, float dot) const {
    constexpr u32 ALL = SIZE == 4 ? 0xffffffffu : (1u << SIZE * 8 % 32) - 1;
    const int byte = element % 8 * SIZE;
    return score(row, key, dot, words[row][element / 8][byte / 4] >> 8 * (byte % 4) & ALL);
  }

 private:
  MEMBER void load_run(const char* row, int key, u32* to) const {
    constexpr int BYTES = LANES * SIZE;
#pragma unroll
    for (int n = 0; n < 8 / LANES; ++n) {
      const int first = key + n * LANES;
      const char* const at = row + (i64)first * SIZE;
      if constexpr (BYTES >= 4) {
        u32* const piece = to + n * BYTES / 4;
        if (first < all)
          load_words<BYTES / 4>(at, piece);
        else
          fill_words<BYTES / 4>(piece);
      } else {
        u32 piece = 0;
        if (first < all) piece = BYTES == 2 ? *(const unsigned short*)at : *(const unsigned char*)at;
        u32& word = to[n * BYTES / 4];
        word = n * BYTES % 4 == 0 ? piece : word | piece << n * BYTES % 4 * 8;
      }
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_MASKS_CUH_
