// Points that write to places which data chooses: each place belongs to one warp of one block, which takes
// the points that write there, in their order. Nothing is atomic, and results are the same bits in every run.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OWNED_PLACES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OWNED_PLACES_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// Points of one warp that wait until there are 32 of them.
struct OwnedQueue {
  u32 points[64], places[64];
};

// Takes the first `count` points of a queue, by places, those of one place in their order: LANES neighbouring
// threads take all of one place, 32 / LANES places at a time. `apply(points, count, lane)` does what a thread
// does of points of one place.
template <int LANES, typename Apply>
DEV void take_points(OwnedQueue& queue, int count, Apply apply) {
  constexpr u32 ALL = 0xffffffffu;
  constexpr int TOGETHER = 32 / LANES;
  const int lane = threadIdx.x % 32;
  const u32 point = queue.points[lane], place = lane < count ? queue.places[lane] : 0x80000000u + lane;
  const int leader = __ffs(__match_any_sync(ALL, place)) - 1;
  int at = 0;
#pragma unroll
  for (int other = 0; other < 32; ++other) {
    const int of = __shfl_sync(ALL, leader, other);
    at += of < leader || (of == leader && other < lane);
  }
  queue.points[at] = point;
  queue.places[at] = place;
  __syncwarp();
  const bool first = lane == 0 || queue.places[lane] != queue.places[lane - 1];
  u32 left = __ballot_sync(ALL, lane < count && first);
  for (int group = 0; group < lane / LANES; ++group) left &= left - 1;
  while (left != 0) {
    const u32 rest = left & (left - 1);
    const int begin = __ffs(left) - 1, end = rest != 0 ? __ffs(rest) - 1 : count;
    apply(queue.points + begin, end - begin, lane % LANES);
#pragma unroll
    for (int group = 0; group < TOGETHER; ++group) left &= left - 1;
  }
  __syncwarp();
}

// All threads of the block call. Of the POINTS points, those whose place (`place_at(point)`, below 2^31) has
// the number `owner` modulo OWNERS are the block's. `fetch(point)`, called by one thread a point, asks for
// what `apply` will read of it.
template <u32 POINTS, u32 OWNERS, int LANES, typename PlaceAt, typename Fetch, typename Apply>
DEV void take_owned_points(u32 owner, PlaceAt place_at, Fetch fetch, Apply apply) {
  constexpr u32 NONE = 0xffffffffu, WARPS = kBlockThreads / 32, EACH = 8;
  constexpr u32 CHUNK = EACH * kBlockThreads, ROOM = 2 * CHUNK;
  __shared__ u32 points[ROOM], places[ROOM], counts[WARPS];
  __shared__ OwnedQueue queues[WARPS];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, below = (1u << lane) - 1;
  OwnedQueue& queue = queues[warp];
  const auto place_of = [&](u32 point) { return point < POINTS ? place_at(point) : NONE; };
  const auto number = [&](u32 from, u32 k) { return from + warp * (32 * EACH) + k * 32 + lane; };
  u32 next[EACH], listed = 0;
  int waiting = 0;
#pragma unroll
  for (u32 k = 0; k < EACH; ++k) next[k] = place_of(number(0, k));
  for (u32 from = 0; from < POINTS; from += CHUNK) {
    // The block's points of a chunk, in their order, behind those of the chunks before.
    u32 own[EACH], ballots[EACH], count = 0;
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
      own[k] = next[k];
      ballots[k] = __ballot_sync(0xffffffffu, own[k] != NONE && own[k] % OWNERS == owner);
      count += __popc(ballots[k]);
    }
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) next[k] = place_of(number(from + CHUNK, k));
    if (lane == 0) counts[warp] = count;
    __syncthreads();
    u32 at = listed;
#pragma unroll
    for (u32 w = 0; w < WARPS; ++w) {
      if (w < warp) at += counts[w];
      listed += counts[w];
    }
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
      if ((ballots[k] >> lane & 1) != 0) {
        points[at + __popc(ballots[k] & below)] = number(from, k);
        places[at + __popc(ballots[k] & below)] = own[k];
      }
      at += __popc(ballots[k]);
    }
    __syncthreads();
    const bool last = from + CHUNK >= POINTS;
    if (listed + CHUNK <= ROOM && !last) continue;
    // Each warp picks out those of its own places. What they read is asked for 32 points ahead.
    if (lane < listed && places[lane] / OWNERS % WARPS == warp) fetch(points[lane]);
    for (u32 first = 0; first < listed; first += 32) {
      const u32 ahead = first + 32 + lane;
      if (ahead < listed && places[ahead] / OWNERS % WARPS == warp) fetch(points[ahead]);
      const bool there = first + lane < listed;
      const u32 place = there ? places[first + lane] : 0;
      const bool mine = there && place / OWNERS % WARPS == warp;
      const u32 ballot = __ballot_sync(0xffffffffu, mine);
      if (mine) {
        queue.points[waiting + __popc(ballot & below)] = points[first + lane];
        queue.places[waiting + __popc(ballot & below)] = place;
      }
      waiting += __popc(ballot);
      __syncwarp();
      if (waiting < 32) continue;
      take_points<LANES>(queue, 32, apply);
      waiting -= 32;
      const u32 point_behind = queue.points[32 + lane], place_behind = queue.places[32 + lane];
      __syncwarp();
      queue.points[lane] = point_behind;
      queue.places[lane] = place_behind;
      __syncwarp();
    }
    listed = 0;
    if (last && waiting > 0) take_points<LANES>(queue, waiting, apply);
    __syncthreads();
  }
}

// Has the line of memory at an address brought to L1: a load that nobody waits for.
DEV void fetch_line(const char* at) {
  u32 word;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(word) : "l"(at));
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OWNED_PLACES_CUH_
