// What one thread of a small collective does, for device code and, with threads as ranks, for tests on the
// CPU.
//
// Thread `first` of `stride` takes packs first, first + stride and so on, of every rank's data the same: what
// it waits for is sent by the thread of its number, so threads need not meet. All that it has to send is sent
// before it waits for anything. What it reads of `from` it has read before the pack of `to` that may be there
// is written, so all of them work in place (core/collective.h).
//
// Sums are taken in f32, from rank 0 on, and rounded once: the same bits on all ranks, whichever way.
//
// `Machine` reads and writes memory:
//   Words Load(const Words* at), void Store(Words* at, Words words): as two 64-bit words, each whole
//   u64 ReadPack(const char* at), void WritePack(char* at, u64 pack): 8 bytes, aligned
//   float HalfToFloat(u32), u32 FloatsToHalves(float low, float high), u32 FloatsToBHalves(float low, float
//   high) bool GoOn(u32 tries, u32 rank): whether to look again for what `rank` has not sent yet; false ends
//   it all
#ifndef RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_EXCHANGE_H_
#define RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_EXCHANGE_H_

#include "drivers/cuda/peer_collectives/exchange_layout.h"

#ifdef __CUDACC_RTC__
#define RONDO_SMALL __device__ __forceinline__
#define RONDO_SMALL_CALL __device__ __noinline__
#define RONDO_UNROLL _Pragma("unroll")
#define RONDO_NO_UNROLL _Pragma("unroll 1")
#else
#define RONDO_SMALL inline
#define RONDO_SMALL_CALL inline
#define RONDO_UNROLL
#define RONDO_NO_UNROLL
#endif

namespace rondo::small {

RONDO_SMALL constexpr u64 PacksOf(u64 bytes) { return (bytes + kPackBytes - 1) / kPackBytes; }
RONDO_SMALL constexpr u64 LeastOf(u64 a, u64 b) { return a < b ? a : b; }

// The packs of a rank's part, where an all-reduce is a reduce-scatter and an all-gather.
RONDO_SMALL constexpr u64 PartOf(u64 packs, u32 ranks) { return (packs + ranks - 1) / ranks; }

struct F32 {
  enum : u32 { kBits = 32 };
  template <class Machine>
  RONDO_SMALL static float Value(u32 bits) {
    return __builtin_bit_cast(float, bits);
  }
  template <class Machine>
  RONDO_SMALL static u32 Bits(float value) {
    return __builtin_bit_cast(u32, value);
  }
};
// Types of 16 bits have Pair, too: the bits of two, the first the low ones.
struct F16 {
  enum : u32 { kBits = 16 };
  template <class Machine>
  RONDO_SMALL static u32 Pair(float low, float high) {
    return Machine::FloatsToHalves(low, high);
  }
  template <class Machine>
  RONDO_SMALL static float Value(u32 bits) {
    return Machine::HalfToFloat(bits);
  }
};
struct BF16 {
  enum : u32 { kBits = 16 };
  template <class Machine>
  RONDO_SMALL static u32 Pair(float low, float high) {
    return Machine::FloatsToBHalves(low, high);
  }
  template <class Machine>
  RONDO_SMALL static float Value(u32 bits) {
    return __builtin_bit_cast(float, bits << 16);
  }
};

// A pack of as many elements as there is room for.
template <class Machine, class Element>
RONDO_SMALL u64 PackOf(const float (&values)[64 / Element::kBits]) {
  if constexpr (Element::kBits == 32) {
    return u64{F32::Bits<Machine>(values[0])} | u64{F32::Bits<Machine>(values[1])} << 32;
  } else {
    return u64{Element::template Pair<Machine>(values[0], values[1])} |
           u64{Element::template Pair<Machine>(values[2], values[3])} << 32;
  }
}
template <class Machine, class Element>
RONDO_SMALL float ElementOf(u64 pack, u32 e) {
  const u64 bits = pack >> (e * Element::kBits) & ~u64{0} >> (64 - Element::kBits);
  return Element::template Value<Machine>(static_cast<u32>(bits));
}

template <class Machine>
class Exchange {
 public:
  RONDO_SMALL Exchange(Machine& machine, const Group& group, const Call& call, u32 epoch, u64 first,
                       u64 stride)
      : m_(machine), g_(group), c_(call), first_(first), stride_(stride) {
    Begin(epoch);
  }

  RONDO_SMALL void AllReduceOneShot() {
    const u64 packs = PacksOf(c_.bytes);
    RONDO_NO_UNROLL
    for (u64 i = first_; i < packs; i += stride_) SendToAll(i, Read(c_.from, i));
    Clean(packs);
    RONDO_NO_UNROLL
    for (u64 i = first_; i < packs; i += stride_) {
      u64 of[kMostRanks] = {};
      if (!Receive(i, g_.ranks, of)) return;
      Write(c_.to, i, Sum(Read(c_.from, i), of));
    }
  }

  // Every rank has a part (TwoShotFits).
  RONDO_SMALL void AllReduceTwoShot() {
    const u64 packs = PacksOf(c_.bytes), part = PartOf(packs, g_.ranks), own = g_.rank * part;
    RONDO_NO_UNROLL
    for (u64 i = first_; i < part; i += stride_) {
      RONDO_NO_UNROLL
      for (u32 rank = 0; rank < g_.ranks; ++rank) {
        const u64 at = rank * part + i;
        if (rank != g_.rank && at < packs) Send(rank, i, Read(c_.from, at));
      }
    }
    Clean(2 * part);
    RONDO_NO_UNROLL
    for (u64 i = first_; i < part && own + i < packs; i += stride_) {
      u64 of[kMostRanks] = {};
      if (!Receive(i, g_.ranks, of)) return;
      const u64 sum = Sum(Read(c_.from, own + i), of);
      SendToAll(part + i, sum);
      Write(c_.to, own + i, sum);
    }
    RONDO_NO_UNROLL
    for (u64 i = first_; i < part; i += stride_) {
      const u32 senders = static_cast<u32>(LeastOf(g_.ranks, PartsWith(i, packs, part)));
      u64 of[kMostRanks] = {};
      if (!Receive(part + i, senders, of)) return;
      RONDO_UNROLL
      for (u32 rank = 0; rank < kMostRanks; ++rank) {
        if (rank < senders && rank != g_.rank) Write(c_.to, rank * part + i, of[rank]);
      }
    }
  }

  // `from` is what this rank gives, `to` what all have given.
  RONDO_SMALL void AllGather() {
    const u64 packs = PacksOf(c_.bytes);
    RONDO_NO_UNROLL
    for (u64 i = first_; i < packs; i += stride_) {
      const u64 pack = Read(c_.from, i);
      SendToAll(i, pack);
      Write(c_.to + g_.rank * c_.bytes, i, pack);
    }
    Clean(packs);
    RONDO_NO_UNROLL
    for (u64 i = first_; i < packs; i += stride_) {
      u64 of[kMostRanks] = {};
      if (!Receive(i, g_.ranks, of)) return;
      RONDO_UNROLL
      for (u32 rank = 0; rank < kMostRanks; ++rank) {
        if (rank < g_.ranks && rank != g_.rank) Write(c_.to + rank * c_.bytes, i, of[rank]);
      }
    }
  }

  // `from` is what this rank gives of all parts, `to` this rank's part of the sum.
  RONDO_SMALL void ReduceScatter() {
    const u64 packs = PacksOf(c_.bytes);
    RONDO_NO_UNROLL
    for (u64 i = first_; i < packs; i += stride_) {
      RONDO_NO_UNROLL
      for (u32 rank = 0; rank < g_.ranks; ++rank) {
        if (rank != g_.rank) Send(rank, i, Read(c_.from + rank * c_.bytes, i));
      }
    }
    Clean(packs);
    RONDO_NO_UNROLL
    for (u64 i = first_; i < packs; i += stride_) {
      u64 of[kMostRanks] = {};
      if (!Receive(i, g_.ranks, of)) return;
      Write(c_.to, i, Sum(Read(c_.from + g_.rank * c_.bytes, i), of));
    }
  }

 protected:
  RONDO_SMALL void Begin(u32 epoch) {
    epoch_ = epoch;
    const u64 slot = epoch % kSlots * g_.ranks * g_.capacity;
    sends_ = slot + g_.rank * g_.capacity;
    receives_ = g_.inbox[g_.rank] + slot;
  }
  // How many parts of `part` packs reach beyond their pack `i`.
  RONDO_SMALL static u64 PartsWith(u64 i, u64 packs, u64 part) { return (packs - i + part - 1) / part; }

  // Pack `i` of c_.bytes bytes at `from`; behind their end are zeros.
  RONDO_SMALL u64 Read(const char* from, u64 i) const {
    const char* const at = from + kPackBytes * i;
    const u64 bytes = LeastOf(c_.bytes - kPackBytes * i, kPackBytes);
    const bool whole = bytes == kPackBytes && reinterpret_cast<u64>(at) % kPackBytes == 0;
    return whole ? m_.ReadPack(at) : ReadBytes(at, bytes);
  }
  RONDO_SMALL void Write(char* to, u64 i, u64 pack) const {
    char* const at = to + kPackBytes * i;
    const u64 bytes = LeastOf(c_.bytes - kPackBytes * i, kPackBytes);
    if (bytes == kPackBytes && reinterpret_cast<u64>(at) % kPackBytes == 0) {
      m_.WritePack(at, pack);
    } else {
      WriteBytes(at, pack, bytes);
    }
  }
  RONDO_SMALL_CALL static u64 ReadBytes(const char* at, u64 bytes) {
    u64 pack = 0;
    for (u64 b = 0; b < bytes; ++b) pack |= static_cast<u64>(static_cast<unsigned char>(at[b])) << (8 * b);
    return pack;
  }
  RONDO_SMALL_CALL static void WriteBytes(char* at, u64 pack, u64 bytes) {
    for (u64 b = 0; b < bytes; ++b) at[b] = static_cast<char>(pack >> (8 * b));
  }

  RONDO_SMALL void Send(u32 rank, u64 i, u64 pack) {
    const u64 flag = u64{epoch_} << 32;
    m_.Store(g_.inbox[rank] + sends_ + i, Words{(pack & 0xffffffff) | flag, pack >> 32 | flag});
  }
  RONDO_SMALL void SendToAll(u64 i, u64 pack) {
    RONDO_NO_UNROLL
    for (u32 rank = 0; rank < g_.ranks; ++rank) {
      if (rank != g_.rank) Send(rank, i, pack);
    }
  }
  // Now and then, what this rank could have sent beyond its first `packs`, and noted beyond its first
  // `notes`.
  RONDO_SMALL void Clean(u64 packs, u64 notes = 0) {
    if (epoch_ % kCleaningPeriod >= kSlots) return;
    RONDO_NO_UNROLL
    for (u64 i = packs + first_; i < g_.capacity; i += stride_) SendToAll(i, 0);
    RONDO_NO_UNROLL
    for (u64 i = notes + first_; i < g_.capacity; i += stride_) Send(g_.rank, i, 0);
  }
  // Pack `i` of the first `senders` ranks, but not this one's. False: it has been given up. kMost: at least
  // as many as there are ranks.
  template <u32 kMost>
  RONDO_SMALL bool Receive(u64 i, u32 senders, u64 (&packs)[kMost]) {
    for (u32 tries = 1;; ++tries) {
      Words words[kMost] = {};
      u32 missing = kMost;
      RONDO_UNROLL
      for (u32 rank = 0; rank < kMost; ++rank) {
        if (rank < senders && rank != g_.rank) words[rank] = m_.Load(receives_ + rank * g_.capacity + i);
      }
      RONDO_UNROLL
      for (u32 rank = 0; rank < kMost; ++rank) {
        if (rank >= senders || rank == g_.rank) continue;
        if (!HasCome(words[rank])) missing = rank;
        packs[rank] = (words[rank].low & 0xffffffff) | words[rank].high << 32;
      }
      if (missing == kMost) return true;
      if (!m_.GoOn(tries, missing)) return false;
    }
  }
  RONDO_SMALL bool HasCome(const Words& words) const {
    return words.low >> 32 == epoch_ && words.high >> 32 == epoch_;
  }

  RONDO_SMALL u64 Sum(u64 own, const u64 (&of)[kMostRanks]) const {
    if (c_.element == kBF16) return SumOf<BF16>(own, of);
    return c_.element == kF16 ? SumOf<F16>(own, of) : SumOf<F32>(own, of);
  }
  template <class Element, u32 kMost>
  RONDO_SMALL u64 SumOf(u64 own, const u64 (&of)[kMost]) const {
    constexpr u32 kElements = 64 / Element::kBits;
    float sums[kElements] = {};
    RONDO_UNROLL
    for (u32 rank = 0; rank < kMost; ++rank) {
      if (rank >= g_.ranks) continue;
      const u64 pack = rank == g_.rank ? own : of[rank];
      RONDO_UNROLL
      for (u32 e = 0; e < kElements; ++e) {
        const float value = ElementOf<Machine, Element>(pack, e);
        sums[e] = rank == 0 ? value : sums[e] + value;
      }
    }
    return PackOf<Machine, Element>(sums);
  }

  Machine& m_;
  const Group& g_;
  const Call& c_;
  const u64 first_, stride_;
  u32 epoch_ = 0;
  u64 sends_ = 0;                    // where what this rank sends begins in the slot of the collective
  const Words* receives_ = nullptr;  // this rank's slot
};

}  // namespace rondo::small

#endif  // RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_EXCHANGE_H_
