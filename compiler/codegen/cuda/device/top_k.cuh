// The first elements of rows, in order: smaller keys first, equal keys by place (core/row_order.h).
//
// Keys and places together are distinct numbers. A block, or the blocks of a cluster together, count the
// elements of a row by the first digit of that number, find the digits of the first and the last wanted rank,
// and go on with the next digit until few elements lie between the two. These are then put in order. What
// they write does not depend on the order of threads.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TOP_K_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TOP_K_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/elements.cuh"
#include "compiler/codegen/cuda/device/scan.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/top_k_layout.h"

using rondo::cuda::TopKRows;

// Keys of widened elements, in as many bits as the type needs: larger numbers have larger keys.
DEV u32 key_f32(float x) {
  const u32 bits = __float_as_uint(x != x ? bits_float(0x7f800000u) : x + 0.0f);  // -0 becomes 0
  return bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}
DEV u32 key_bf16(float x) { return key_f32(x) >> 16; }
DEV u32 key_e4m3(float x) { return key_f32(x) >> 16; }
DEV u32 key_e5m2(float x) { return key_f32(x) >> 16; }
DEV u32 key_f16(float x) {
  const u32 bits = float_half(x != x ? bits_float(0x7f800000u) : x + 0.0f);
  return bits ^ ((bits >> 15) != 0 ? 0xffffu : 0x8000u);
}
DEV u64 key_f64(double x) {
  const u64 sign = 1ull << 63;
  const u64 bits = (u64)__double_as_longlong(x != x ? __longlong_as_double(0x7ffll << 52) : x + 0.0);
  return (bits & sign) != 0 ? ~bits : bits | sign;
}
DEV u64 key_i64(i64 x) { return (u64)x ^ 1ull << 63; }
DEV u64 key_u64(i64 x) { return (u64)x; }
DEV u32 key_i32(i64 x) { return (u32)x ^ 0x80000000u; }
DEV u32 key_u32(i64 x) { return (u32)x; }
DEV u32 key_i16(i64 x) { return ((u32)x ^ 0x8000u) & 0xffffu; }
DEV u32 key_u16(i64 x) { return (u32)x; }
DEV u32 key_i8(i64 x) { return ((u32)x ^ 0x80u) & 0xffu; }
DEV u32 key_u8(i64 x) { return (u32)x; }
DEV u32 key_bool(i64 x) { return (u32)x; }

// ------------------------------------------------------------------------------------- short rows

// Puts 32 * E items of a warp in order; item e of lane l is number 32 * e + l. A bitonic network.
template <int E, typename T>
DEV void sort_lanes(T (&item)[E]) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int size = 2; size <= 32 * E; size *= 2) {
#pragma unroll
    for (int apart = size / 2; apart > 0; apart /= 2) {
#pragma unroll
      for (int e = 0; e < E; ++e) {
        const bool up = (size < 32 ? lane & size : e & size / 32) == 0;
        if (apart < 32) {
          const T other = (T)__shfl_xor_sync(0xffffffffu, item[e], apart);
          const bool least = ((lane & apart) == 0) == up;
          item[e] = (other < item[e]) == least ? other : item[e];
        } else if ((e & apart / 32) == 0) {
          const T a = item[e], b = item[e | apart / 32];
          const bool swap = (b < a) == up;
          item[e] = swap ? b : a;
          item[e | apart / 32] = swap ? a : b;
        }
      }
    }
  }
}

// By a warp: rows of up to 32 * E elements, whose keys and places fit T. `key(place)`, `store(rank, place)`.
template <int ELEMENTS, int COUNT, int E, typename T, typename Key, typename Store>
DEV void top_k_lanes(Key key, Store store) {
  constexpr int PLACE = sizeof(T) == 4 ? 16 : 32;
  const u32 lane = threadIdx.x % 32;
  T item[E];
#pragma unroll
  for (int e = 0; e < E; ++e) {
    const u32 place = 32 * e + lane;
    item[e] = place < ELEMENTS ? (T)key(place) << PLACE | place : ~(T)0;
  }
  sort_lanes(item);
#pragma unroll
  for (int e = 0; e < E; ++e) {
    const u32 rank = 32 * e + lane;
    if (rank < COUNT) store(rank, (u32)item[e] & (u32)((1ull << PLACE) - 1));
  }
}

// -------------------------------------------------------------------------------------- long rows

template <typename K>
struct __align__(2 * sizeof(K)) RankedElement {
  K key;
  u32 place;
  MEMBER bool before(const RankedElement& b) const {
    return key < b.key || (key == b.key && place < b.place);
  }
};

// The element of one rank, as far as its digits are known: the others are 0.
template <typename K>
struct RankSearch {
  K key = 0;
  u32 place = 0;
  u32 below = 0, group = 0;  // elements before those with the known digits; of these

  MEMBER bool matches(K other, u32 at, K key_mask, u32 place_mask) const {
    return ((key ^ other) & key_mask) == 0 && ((place ^ at) & place_mask) == 0;
  }
};

// Of the counts of a digit's values, by a warp: the value of the element of rank `rank` among them, the
// number of elements with smaller values, and with this one.
DEV void choose_bin(const u32* counts, u32 rank, u32* chosen) {
  constexpr u32 EACH = TopKRows::kBins / 32;
  const u32 lane = threadIdx.x % 32;
  u32 own = 0;
#pragma unroll
  for (u32 b = 0; b < EACH; ++b) own += counts[lane * EACH + b];
  u32 before = (u32)sum_of_lanes((i64)own, lane) - own;
  if (rank < before || rank >= before + own) return;
  u32 bin = lane * EACH;
  while (rank >= before + counts[bin]) before += counts[bin++];
  chosen[0] = bin;
  chosen[1] = before;
  chosen[2] = counts[bin];
}

// Calls take(key, place) for this thread's elements; several keys are read before the first is used.
template <TopKRows R, typename Key, typename Take>
DEV void each_element(u32 rank, Key key, Take take) {
  constexpr u32 EACH = 8, STEP = R.threads * R.cluster;
  for (u32 from = rank * R.threads + threadIdx.x; from < (u32)R.elements; from += EACH * STEP) {
    decltype(key(0u)) keys[EACH];
#pragma unroll
    for (u32 e = 0; e < EACH; ++e)
      if (from + e * STEP < (u32)R.elements) keys[e] = key(from + e * STEP);
#pragma unroll
    for (u32 e = 0; e < EACH; ++e)
      if (from + e * STEP < (u32)R.elements) take(keys[e], from + e * STEP);
  }
}

// Puts `number` elements of shared memory in order, and those of ranks [first, end) among them where they
// belong: store(rank, place).
template <TopKRows R, typename K, typename Store>
DEV void store_in_order(RankedElement<K>* list, u32 number, u32 first, u32 end, Store store) {
  if (number <= (u32)TopKRows::kCounted) {
    for (u32 i = threadIdx.x; i < number; i += R.threads) {
      const RankedElement<K> own = list[i];
      u32 rank = 0;
#pragma unroll 4
      for (u32 j = 0; j < number; ++j) rank += list[j].before(own);
      if (rank >= first && rank < end) store(rank, own.place);
    }
    return;
  }
  u32 room = 2 * TopKRows::kCounted;  // a bitonic network
  while (room < number) room *= 2;
  for (u32 i = number + threadIdx.x; i < room; i += R.threads) {
    list[i].key = ~(K)0;
    list[i].place = ~0u;
  }
  for (u32 size = 2; size <= room; size *= 2) {
    for (u32 apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (u32 pair = threadIdx.x; pair < room / 2; pair += R.threads) {
        const u32 i = 2 * pair - (pair & (apart - 1)), j = i + apart;
        const RankedElement<K> a = list[i], b = list[j];
        if (b.before(a) != ((i & size) == 0)) continue;
        list[i] = b;
        list[j] = a;
      }
    }
  }
  __syncthreads();
  for (u32 rank = first + threadIdx.x; rank < end; rank += R.threads) store(rank, list[rank].place);
}

// Ranks [chunk * R.chunk, ...) of a row, by block `rank` of a cluster. `key(place)` is an element's key, K;
// `store(rank, place)`.
template <TopKRows R, typename K, typename Key, typename Store>
DEV void top_k_row(u32 chunk, u32 rank, Key key, Store store) {
  constexpr u32 BINS = TopKRows::kBins, DIGIT = TopKRows::kDigit, KEYS = R.bits / DIGIT, ROOM = R.room(),
                PLACE = R.place_bits();
  __shared__ u32 counts[2][2][BINS];  // of the digits of even and odd numbers; of the first rank and the last
  __shared__ u32 sums[2][BINS];       // over the cluster
  __shared__ u32 chosen[2][3];
  __shared__ u32 listed;
  RankedElement<K>* const list = (RankedElement<K>*)shared_memory;
  const u32 begin = chunk * R.chunk, end = begin + R.chunk < R.count ? begin + R.chunk : R.count;
  RankSearch<K> first, last;
  last.group = R.elements;
  K key_mask = R.bits < 32 ? (K)(~0ull << R.bits) : 0;  // known digits; what keys and places do not have is 0
  u32 place_mask = ~(u32)((1ull << PLACE) - 1), number = R.elements;
  if (threadIdx.x == 0) listed = 0;
  for (u32 level = 0; number > ROOM; ++level) {
    const bool of_key = level < KEYS;
    const u32 shift = of_key ? R.bits - DIGIT * (level + 1) : PLACE - DIGIT * (level - KEYS + 1);
    u32(&own)[2][BINS] = counts[level & 1];
    for (u32 b = threadIdx.x; b < 2 * BINS; b += R.threads) own[b / BINS][b % BINS] = 0;
    __syncthreads();
    each_element<R>(rank, key, [&](K k, u32 place) {
      const u32 digit = (u32)(of_key ? k >> shift : (K)(place >> shift)) & (BINS - 1);
      if (begin != 0 && first.matches(k, place, key_mask, place_mask)) atomicAdd(&own[0][digit], 1u);
      if (last.matches(k, place, key_mask, place_mask)) atomicAdd(&own[1][digit], 1u);
    });
    meet_blocks<R.cluster>();
    if (R.cluster > 1) {
      for (u32 b = threadIdx.x; b < 2 * BINS; b += R.threads) {
        u32 sum = 0;
#pragma unroll
        for (u32 c = 0; c < R.cluster; ++c)
          sum += remote_value<u32>(shared_address(&own[b / BINS][b % BINS]), c);
        sums[b / BINS][b % BINS] = sum;
      }
      __syncthreads();
    }
    const u32 side = threadIdx.x / 32;
    if (side < 2)
      choose_bin(R.cluster > 1 ? sums[side] : own[side],
                 side == 0 ? begin - first.below : end - 1 - last.below, chosen[side]);
    __syncthreads();
    const auto go_on = [&](RankSearch<K>& search, const u32* bin) {
      if (of_key)
        search.key |= (K)bin[0] << shift;
      else
        search.place |= bin[0] << shift;
      search.below += bin[1];
      search.group = bin[2];
    };
    if (begin != 0) go_on(first, chosen[0]);
    go_on(last, chosen[1]);
    if (of_key)
      key_mask |= (K)(BINS - 1) << shift;
    else
      place_mask |= (BINS - 1) << shift;
    number = last.below + last.group - first.below;
  }
  // Everything between the first rank's digits and the last's.
  const RankedElement<K> least = {first.key, first.place},
                         most = {(K)(last.key | ~key_mask), last.place | ~place_mask};
  __syncthreads();
  each_element<R>(rank, key, [&](K k, u32 place) {
    const RankedElement<K> one = {k, place};
    if (!one.before(least) && !most.before(one)) list[atomicAdd(&listed, 1u)] = one;
  });
  meet_blocks<R.cluster>();
  if (R.cluster > 1) {
    if (rank == 0) {
      u32 at = listed;
      for (u32 c = 1; c < R.cluster; ++c) {
        const u32 more = remote_value<u32>(shared_address(&listed), c),
                  words = more * (sizeof(RankedElement<K>) / 4);
        for (u32 w = threadIdx.x; w < words; w += R.threads)
          ((u32*)(list + at))[w] = remote_value<u32>(shared_address((const u32*)list + w), c);
        at += more;
      }
    }
    cluster_barrier();  // the others' lists are read
    if (rank != 0) return;
  }
  store_in_order<R>(list, number, begin - first.below, end - first.below,
                    [&](u32 place_of_rank, u32 place) { store(first.below + place_of_rank, place); });
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TOP_K_CUH_
