// Points that write to places which data chooses: each place belongs to one block, which sorts its points by
// place and applies those of each place in their order. Nothing is atomic, and results are the same bits in
// every run.
//
// The blocks of a cluster look at points in turn: each lists those that belong to the cluster's places, in
// order, by block, and then collects its own from the lists of all. A block sorts what it has collected
// whenever its list is full; teams of threads then take a place each. Of many updates of one place, pieces of
// OwnedPlaces::kPiece are summed by themselves, and the sums are added in order.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OWNED_PLACES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OWNED_PLACES_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/owned_layout.h"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/stable_order.cuh"

// A block's shared memory.
template <OwnedPlaces L>
struct OwnedMemory {
  MEMBER static u32* list_places() { return (u32*)(shared_memory + L.list_places_at()); }
  MEMBER static u32* list_points() { return (u32*)(shared_memory + L.list_points_at()); }
  MEMBER static u32* counts() { return (u32*)(shared_memory + L.counts_at()); }
  MEMBER static u32* totals() { return (u32*)(shared_memory + L.totals_at()); }
  // Of list `list`: where each block's part begins, and the end.
  MEMBER static u32* parts(u32 list) { return (u32*)(shared_memory + L.parts_at()) + list * (L.cluster + 1); }
  // Of the points that the block collects from each list: the end, counted over all lists, and where they
  // lie, less the number of those of the lists before.
  MEMBER static u32* ends() { return (u32*)(shared_memory + L.ends_at()); }
  MEMBER static u32* starts() { return ends() + 32; }
  MEMBER static unsigned short* pieces() { return (unsigned short*)(shared_memory + L.pieces_at()); }
  // Numbers of found points in the block's chunk.
  MEMBER static unsigned short* found() { return (unsigned short*)(shared_memory + L.found_at()); }
  // The sum of the piece that begins at point `begin` of the list, of this thread's share of the row.
  // `first`: the first of its place: a last piece and a first one may begin near each other, others not.
  MEMBER static char* sum(u32 begin, bool first, u32 lane) {
    return shared_memory + ((2 * (begin / OwnedPlaces::kPiece) + first) * L.lanes + lane) * L.share;
  }
};

// The sums of the pieces of a place, the first of which begins at point `begin` of the list.
template <OwnedPlaces L>
struct PieceSums {
  u32 begin, lane;
  MEMBER const char* operator[](int k) const {
    return OwnedMemory<L>::sum(begin + k * OwnedPlaces::kPiece, k == 0, lane);
  }
};

// What lies at `at` in block `block` of the cluster.
template <OwnedPlaces L, typename T>
DEV T found_at(const T* at, u32 block) {
  return L.cluster == 1 ? *at : remote_value<T>(shared_address(at), block);
}

// The block, of all that share the places, to which a place belongs: neighbouring places, and those a
// multiple of their number apart, belong to different blocks.
template <OwnedPlaces L>
DEV u32 block_of(u32 place) {
  constexpr u32 BLOCKS = L.blocks();
  const u32 block = place % BLOCKS + place / BLOCKS * 37u % BLOCKS;
  return block < BLOCKS ? block : block - BLOCKS;
}

// Lists the block's chunk of points, from `from` on, as far as they belong to cluster `owner`, in order;
// returns their number. `near_at(point)` is a point's place if that is valid, and any number else.
template <OwnedPlaces L, typename Exists, typename NearAt>
DEV u32 find_points(u32 from, u32 owner, Exists exists, NearAt near_at) {
  using M = OwnedMemory<L>;
  constexpr u32 ALL = 0xffffffffu, LOOKS = L.looks();
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  u32 found = 0;  // of the 32 points that the warp looks at in turn `lane`
#pragma unroll 8
  for (u32 k = 0; k < LOOKS; ++k) {
    const u32 point = from + item_number(k, LOOKS);
    const bool there = point < (u32)L.points && exists(point);
    const bool own = there && (L.owners == 1 || block_of<L>(near_at(point)) % (u32)L.owners == owner);
    const u32 ballot = __ballot_sync(ALL, own);
    if (lane == k) found = ballot;
  }
  u32 sum = __popc(found);
#pragma unroll
  for (u32 d = 1; d < 32; d *= 2) {
    const u32 other = __shfl_sync(ALL, sum, lane >= d ? lane - d : lane);
    if (lane >= d) sum += other;
  }
  if (lane == 31) M::totals()[warp] = sum;
  __syncthreads();
  u32 before = 0, all = 0;
#pragma unroll
  for (u32 w = 0; w < OwnedPlaces::kWarps; ++w) {
    before += w < warp ? M::totals()[w] : 0;
    all += M::totals()[w];
  }
  const u32 begin = before + sum - __popc(found);
#pragma unroll 4
  for (u32 k = 0; k < LOOKS; ++k) {
    const u32 own = __shfl_sync(ALL, found, k), at = __shfl_sync(ALL, begin, k);
    if ((own >> lane & 1) != 0)
      M::found()[at + __popc(own & ((1u << lane) - 1))] = (unsigned short)item_number(k, LOOKS);
  }
  __syncthreads();
  return all;
}

// Puts each list of the `found` points in order of the blocks that they belong to.
template <OwnedPlaces L, typename PlaceAt>
DEV void split_found(u32 from, u32 found, PlaceAt place_at) {
  using M = OwnedMemory<L>;
  constexpr u32 EACH = OwnedPlaces::kEach, LIST = OwnedPlaces::kList;
  constexpr int BITS = L.cluster == 1 ? 0 : L.cluster == 2 ? 1 : L.cluster <= 4 ? 2 : 3;
  static_assert(L.cluster <= 8);
#pragma unroll 1
  for (u32 list = 0; list < (u32)L.lists(); ++list) {
    const u32 left = found > list * LIST ? found - list * LIST : 0, size = left < LIST ? left : LIST;
    if (L.cluster == 1 || size == 0) {
      if (threadIdx.x <= L.cluster) M::parts(list)[threadIdx.x] = threadIdx.x == 0 ? 0 : size;
      continue;
    }
    const u32 steps = (size + OwnedPlaces::kThreads - 1) / OwnedPlaces::kThreads;
    unsigned short* const points = M::found() + list * LIST;
    u32 point[EACH], rank[EACH], at[EACH], there = 0;
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
      const u32 item = item_number(k, steps);
      point[k] = rank[k] = 0;
      if (k >= steps || item >= size) continue;
      point[k] = points[item];
      rank[k] = block_of<L>(place_at(from + point[k])) / (u32)L.owners;
      there |= 1u << k;
    }
    const u32 all = stable_order<OwnedPlaces::kWarps, BITS>(rank, there, at, M::counts(), M::totals());
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
      if ((there >> k & 1) != 0) points[at[k]] = (unsigned short)point[k];
    }
    if (threadIdx.x <= L.cluster)
      M::parts(list)[threadIdx.x] =
          threadIdx.x < L.cluster ? M::counts()[threadIdx.x * OwnedPlaces::kWarps] : all;
    __syncthreads();
  }
}

// Sorts the first `listed` points of the list by place.
template <OwnedPlaces L>
DEV void sort_list(u32 listed) {
  using M = OwnedMemory<L>;
  constexpr u32 EACH = L.room() / OwnedPlaces::kThreads, DIGIT = L.digit();
  const u32 steps = (listed + OwnedPlaces::kThreads - 1) / OwnedPlaces::kThreads;
#pragma unroll 1
  for (u32 pass = 0; pass < L.passes(); ++pass) {
    u32 place[EACH], point[EACH], digit[EACH], at[EACH], there = 0;
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
      const u32 item = item_number(k, steps);
      const bool is = k < steps && item < listed;
      place[k] = is ? M::list_places()[item] : 0;
      point[k] = is ? M::list_points()[item] : 0;
      digit[k] = place[k] >> pass * DIGIT & ((1u << DIGIT) - 1);
      if (is) there |= 1u << k;
    }
    stable_order<OwnedPlaces::kWarps, DIGIT>(digit, there, at, M::counts(), M::totals());
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) {
      if ((there >> k & 1) == 0) continue;
      M::list_places()[at[k]] = place[k];
      M::list_points()[at[k]] = point[k];
    }
    __syncthreads();
  }
}

// The first point of the sorted list that writes where point `at` does.
template <OwnedPlaces L>
DEV u32 first_of_place(u32 at) {
  const u32* const places = OwnedMemory<L>::list_places();
  const u32 place = places[at];
  u32 low = 0, high = at;
  while (low < high) {
    const u32 middle = (low + high) / 2;
    if (places[middle] < place)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Lists where the pieces of the sorted list begin; returns their number. `*split`: whether a place has
// several.
template <OwnedPlaces L>
DEV u32 find_pieces(u32 listed, bool* split) {
  using M = OwnedMemory<L>;
  constexpr u32 EACH = L.room() / OwnedPlaces::kThreads, PIECE = OwnedPlaces::kPiece;
  const u32 steps = (listed + OwnedPlaces::kThreads - 1) / OwnedPlaces::kThreads;
  const u32* const places = M::list_places();
  u32 none[EACH], at[EACH], there = 0;
  bool many = false;
#pragma unroll
  for (u32 k = 0; k < EACH; ++k) {
    none[k] = 0;
    const u32 item = item_number(k, steps);
    if (k >= steps || item >= listed) continue;
    bool begins = item == 0 || places[item - 1] != places[item];
    if (L.splits && item >= PIECE && places[item - PIECE] == places[item]) {
      many = true;
      begins = (item - first_of_place<L>(item)) % PIECE == 0;
    }
    if (begins) there |= 1u << k;
  }
  const u32 pieces = stable_order<OwnedPlaces::kWarps, 0>(none, there, at, M::counts(), M::totals());
#pragma unroll
  for (u32 k = 0; k < EACH; ++k) {
    if ((there >> k & 1) != 0) M::pieces()[at[k]] = (unsigned short)item_number(k, steps);
  }
  *split = __syncthreads_or(many) != 0;
  return pieces;
}

// Applies the points of the list to parts [from, end) of the rows. `take(points, count, item, sum)` has part
// `item` of a place's row changed by points in order; the result goes to memory or, where `sum` is not null,
// there, as what the points alone give. `join(point, item, count, sums)` changes it by `count` such sums.
template <OwnedPlaces L, typename Take, typename Join>
DEV void apply_list(u32 listed, u32 from, u32 end, Take take, Join join) {
  using M = OwnedMemory<L>;
  constexpr u32 LANES = L.lanes, TEAMS = OwnedPlaces::kThreads / LANES;
  __syncthreads();
  sort_list<L>(listed);
  bool split;
  const u32 pieces = find_pieces<L>(listed, &split), lane = threadIdx.x % LANES;
  const u32* const places = M::list_places();
  const auto begin_of = [&](u32 piece) -> u32 { return piece < pieces ? M::pieces()[piece] : listed; };
  const auto is_first = [&](u32 begin) { return begin == 0 || places[begin - 1] != places[begin]; };
  const auto is_last = [&](u32 end) { return end == listed || places[end - 1] != places[end]; };
  for (u32 first = from; first < end; first += LANES) {
    const u32 item = first + lane;
    for (u32 piece = threadIdx.x / LANES; piece < pieces && item < end; piece += TEAMS) {
      u32 begin = begin_of(piece);
      const u32 behind = begin_of(piece + 1);
      if (L.last_wins) begin = behind - 1;
      const bool whole = !split || (is_first(begin) && is_last(behind));
      take(M::list_points() + begin, (int)(behind - begin), item,
           whole ? nullptr : M::sum(begin, is_first(begin), lane));
    }
    if (!split) continue;
    __syncthreads();
    for (u32 piece = threadIdx.x / LANES; piece < pieces && item < end; piece += TEAMS) {
      const u32 begin = begin_of(piece);
      if (!is_first(begin) || is_last(begin_of(piece + 1))) continue;
      u32 count = 2;
      while (!is_last(begin_of(piece + count))) ++count;
      join(M::list_points()[begin], item, (int)count, PieceSums<L>{begin, lane});
    }
    __syncthreads();
  }
  __syncthreads();
}

// All threads of a cluster call; `owner`: the cluster's number among those that share the places, `rank` the
// block's within it. Of points that `exists`, `place_at(point)` is the place, or L.places for an index out of
// range.
template <OwnedPlaces L, typename Exists, typename NearAt, typename PlaceAt, typename Take, typename Join>
DEV void take_owned_points(u32 owner, u32 rank, u32 from_item, u32 end_item, Exists exists, NearAt near_at,
                           PlaceAt place_at, Take take, Join join) {
  using M = OwnedMemory<L>;
  constexpr u32 ALL = 0xffffffffu, CHUNK = L.chunk(), EACH = L.lists();
  constexpr u32 LISTS = EACH * L.cluster;
  static_assert(LISTS <= 32);
  const u32 lane = threadIdx.x % 32;
  u32 listed = 0;
#pragma unroll 1
  for (u32 from = 0; from < (u32)L.points; from += L.cluster * CHUNK) {
    const u32 own = from + rank * CHUNK;
    split_found<L>(own, find_points<L>(own, owner, exists, near_at), place_at);
    meet_blocks<L.cluster>();
    // Lane l knows list l % EACH of block l / EACH: where this block's part of it begins, and how many points
    // it and the lists before have for this block.
    const u32 of_lane = lane < LISTS ? lane : 0;
    const u32* const parts = M::parts(of_lane % EACH) + rank;
    const u32 begin = found_at<L>(parts, of_lane / EACH);
    const u32 count = lane < LISTS ? found_at<L>(parts + 1, of_lane / EACH) - begin : 0;
    u32 sum = count;
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
      const u32 other = __shfl_sync(ALL, sum, lane >= d ? lane - d : lane);
      if (lane >= d) sum += other;
    }
    const u32 all = __shfl_sync(ALL, sum, 31);
    if (threadIdx.x < 32) {
      M::ends()[lane] = sum;
      M::starts()[lane] = begin + of_lane % EACH * OwnedPlaces::kList - (sum - count);
    }
    __syncthreads();
    const bool last = L.cluster * CHUNK >= (u32)L.points - from;
    u32 done = 0;
    do {
      const u32 left = all - done, room = L.room() - listed, taken = left < room ? left : room;
#pragma unroll 4
      for (u32 k = threadIdx.x; k < taken; k += OwnedPlaces::kThreads) {
        u32 list = 0;  // the first that ends behind the point
#pragma unroll
        for (u32 half = 16; half > 0; half /= 2) {
          if (M::ends()[list + half - 1] <= done + k) list += half;
        }
        const u32 block = list / EACH, at = M::starts()[list] + done + k;
        const u32 point = from + block * CHUNK + found_at<L>(M::found() + at, block);
        const u32 place = place_at(point);
        M::list_places()[listed + k] = place == L.places ? L.outside() : place / (u32)L.blocks();
        M::list_points()[listed + k] = point;
      }
      listed += taken;
      done += taken;
      if (listed < L.room() && !(last && done == all)) continue;
      apply_list<L>(listed, from_item, end_item, take, join);
      listed = 0;
    } while (done < all);
    meet_blocks<L.cluster>();
  }
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_OWNED_PLACES_CUH_
