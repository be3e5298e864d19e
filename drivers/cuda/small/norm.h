// What one thread of an all-reduce does that goes on with a residual and a norm (Norm, exchange_layout.h),
// for device code and, with threads as blocks, for tests on the CPU.
//
// The sum of the ranks is taken by one shot, so a thread has its vector as soon as the other ranks have sent
// it, and keeps it. Blocks that share a row tell each other what their threads' vectors add up to in the
// rank's own part of its inbox, as ranks tell each other data; each then adds up the whole row. The order of
// all sums is that of a kernel of its own for the same norm
// (compiler/codegen/cuda/reduction/row_reduction.cc), and so are the bits.
//
// A thread reads what it writes over before it does so, and no other thread's: memory may be written in
// place.
#ifndef RONDO_DRIVERS_CUDA_SMALL_NORM_H_
#define RONDO_DRIVERS_CUDA_SMALL_NORM_H_

#include "drivers/cuda/small/exchange.h"

namespace rondo::small {

RONDO_SMALL constexpr u64 VectorsOf(const Norm& norm, u32 element) {
  return u64{norm.columns} * (element == kF32 ? 4 : 2) / kVectorBytes;
}
RONDO_SMALL constexpr bool IsShort(const Norm& norm, u32 element) {
  return VectorsOf(norm, element) <= kShortRow;
}
// How many blocks or, of a short row, warps a row takes.
RONDO_SMALL constexpr u64 PartsOf(const Norm& norm, u32 element) {
  const u64 vectors = VectorsOf(norm, element), width = IsShort(norm, element) ? 32u : u32{kRowBlock};
  return (vectors + width - 1) / width;
}
RONDO_SMALL constexpr u64 BlocksOf(const Norm& norm, u32 element) {
  const u64 a_block = kRowBlock / 32 / norm.parts;  // short rows
  return IsShort(norm, element) ? (norm.rows + a_block - 1) / a_block : u64{norm.rows} * norm.parts;
}
// Words that blocks tell each other: one a thread, or two.
RONDO_SMALL constexpr u64 NotesOf(const Norm& norm, u32 element) {
  if (norm.parts <= 1 || IsShort(norm, element)) return 0;
  return u64{norm.rows} * norm.parts * kRowBlock * ((norm.flags & kCentred) != 0 ? 2 : 1);
}

// Thread `thread` of block `block` of `blocks`; what it does is in the order of its functions.
template <class Machine, class Type>
class NormThread : public Exchange<Machine> {
  using Base = Exchange<Machine>;

 public:
  RONDO_SMALL NormThread(Machine& machine, const Group& group, const Call& call, const Norm& norm, u32 block,
                         u32 blocks, u32 thread)
      : Base(machine, group, call, 0, u64{block} * kRowBlock + thread, u64{blocks} * kRowBlock),
        n_(norm),
        short_(IsShort(norm, call.element)),
        thread_(thread),
        vectors_(VectorsOf(norm, call.element)) {
    const u32 a_block = kRowBlock / 32 / norm.parts, warp = thread / 32;
    row_ = short_ ? u64{block} * a_block + warp / norm.parts : block / norm.parts;
    vector_ = short_ ? warp % norm.parts * 32 + thread % 32 : block % norm.parts * kRowBlock + thread;
    has_ = vector_ < vectors_ && row_ < norm.rows && (!short_ || warp < a_block * norm.parts);
    place_ = row_ * vectors_ + vector_;
  }

  // Before the rest, and before kernels ahead have ended if kConstantRows says so.
  RONDO_SMALL void ReadRows() {
    if (!has_) return;
    ReadRow(n_.scale, scale_);
    if (n_.bias != nullptr) ReadRow(n_.bias, bias_);
  }
  // `epoch`: the collective's; before what follows.
  RONDO_SMALL void Begin(u32 epoch) { Base::Begin(epoch); }

  RONDO_SMALL void Send() {
    if (has_) {
      ReadVector(this->c_.from, place_, own_);
      this->SendToAll(2 * place_, own_[0]);
      this->SendToAll(2 * place_ + 1, own_[1]);
    }
    this->Clean(PacksOf(this->c_.bytes), NotesOf(n_, this->c_.element));
  }

  // What all have sent, and s.
  RONDO_SMALL void Reduce() {
    if (!has_) return;
    u64 of[2][kMostRanks] = {};
    ok_ = this->ReceiveSeveral(2 * place_, this->g_.ranks, of);
    if (!ok_) return;
    const u64 sums[2] = {this->template SumOf<Type>(own_[0], of[0]),
                         this->template SumOf<Type>(own_[1], of[1])};
    Add(sums);
    WriteVector(this->c_.to, sums);
    if (n_.sum != nullptr) WriteRounded(n_.sum, s_);
  }

  // What its vector adds up to, or, `squares`, the squares of s - mean: told to the blocks that share the
  // row, if any do.
  RONDO_SMALL void Note(bool squares) {
    sum_ = 0;
    if (!has_) return;
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) {
      const float value = squares ? Centred(e) : s_[e];
      sum_ = sum_ + (squares ? value * value : value);
    }
    if (!ok_ || n_.parts <= 1 || short_) return;
    Base::Send(this->g_.rank, NoteOf(squares, vector_ / kRowBlock), u64{__builtin_bit_cast(u32, sum_)});
  }
  // What those of the threads of its number in these blocks do.
  RONDO_SMALL void Gather(bool squares) {
    if (!ok_ || n_.parts <= 1 || short_) return;
    const Words* const notes = this->receives_ + this->g_.rank * this->g_.capacity;
    for (u32 tries = 1; ok_; ++tries) {
      Words words[kMostParts] = {};
      RONDO_UNROLL
      for (u32 part = 0; part < kMostParts; ++part) {
        if (HasPart(part)) words[part] = this->m_.Load(notes + NoteOf(squares, part));
      }
      bool come = true;
      sum_ = 0;
      RONDO_UNROLL
      for (u32 part = 0; part < kMostParts; ++part) {
        if (!HasPart(part)) continue;
        come = come && this->HasCome(words[part]);
        sum_ = sum_ + __builtin_bit_cast(float, static_cast<u32>(words[part].low));
      }
      if (come) return;
      ok_ = this->m_.GoOn(tries, this->g_.rank);
    }
  }
  RONDO_SMALL float sum() const { return sum_; }
  // Of a short row: what threads 32 apart have is added up first, from `sums` of the block.
  RONDO_SMALL float SumOfWarps(const float* sums) const {
    const u32 first = thread_ - vector_ / 32 * 32;
    float sum = 0;
    for (u32 part = 0; part < n_.parts; ++part) {
      if (part * 32 + thread_ % 32 < vectors_) sum = sum + sums[(first + part * 32) % kRowBlock];
    }
    return sum;
  }
  RONDO_SMALL bool IsOfShortRow() const { return short_; }
  // Of all threads of the row.
  RONDO_SMALL void SetSum(float sum) { sum_ = sum; }
  RONDO_SMALL void TakeMean() { mean_ = sum_ / n_.count; }

  // The norm, once sum() is that of the squares.
  RONDO_SMALL void Write() {
    if (!ok_ || !has_) return;
    const float scale = 1.0f / Machine::Root(sum_ / n_.count + n_.epsilon);
    float values[kElements];
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) {
      float value = Centred(e) * scale;
      if ((n_.flags & kRounded) != 0)
        value = Type::template Value<Machine>(Type::template Bits<Machine>(value));
      value = value * scale_[e];
      values[e] = n_.bias != nullptr ? value + bias_[e] : value;
    }
    WriteRounded(n_.normed, values);
  }

 private:
  enum : u32 { kElements = 128 / Type::kBits, kOfPack = 64 / Type::kBits };

  RONDO_SMALL bool HasPart(u32 part) const {
    return part < n_.parts && part * kRowBlock + thread_ < vectors_;
  }
  RONDO_SMALL float Centred(u32 e) const { return (n_.flags & kCentred) != 0 ? s_[e] - mean_ : s_[e]; }
  RONDO_SMALL u64 NoteOf(bool squares, u64 part) const {
    const u64 second = squares && (n_.flags & kCentred) != 0 ? n_.rows : 0;
    return ((second + row_) * n_.parts + part) * kRowBlock + thread_;
  }
  RONDO_SMALL void ReadVector(const char* from, u64 vector, u64 (&packs)[2]) const {
    packs[0] = this->m_.ReadPack(from + kVectorBytes * vector);
    packs[1] = this->m_.ReadPack(from + kVectorBytes * vector + kPackBytes);
  }
  // What a row has for its vector.
  RONDO_SMALL void ReadRow(const char* from, float (&values)[kElements]) const {
    if ((n_.flags & kWideRows) != 0) {
      RONDO_UNROLL
      for (u32 e = 0; e < kElements; e += 2) {
        const u64 pack = this->m_.ReadPack(from + 4 * (vector_ * kElements + e));
        values[e] = F32::Value<Machine>(static_cast<u32>(pack));
        values[e + 1] = F32::Value<Machine>(static_cast<u32>(pack >> 32));
      }
      return;
    }
    u64 packs[2] = {};
    ReadVector(from, vector_, packs);
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) values[e] = ElementOf(packs, e);
  }
  RONDO_SMALL void WriteVector(char* to, const u64 (&packs)[2]) const {
    this->m_.WritePack(to + kVectorBytes * place_, packs[0]);
    this->m_.WritePack(to + kVectorBytes * place_ + kPackBytes, packs[1]);
  }
  RONDO_SMALL void WriteRounded(char* to, const float (&values)[kElements]) const {
    u64 packs[2] = {};
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) {
      packs[e / kOfPack] |= u64{Type::template Bits<Machine>(values[e])} << (e % kOfPack * Type::kBits);
    }
    WriteVector(to, packs);
  }
  RONDO_SMALL static float ElementOf(const u64 (&packs)[2], u32 e) {
    const u64 bits = packs[e / kOfPack] >> (e % kOfPack * Type::kBits);
    return Type::template Value<Machine>(static_cast<u32>(bits & ~u64{0} >> (64 - Type::kBits)));
  }
  // s, of what the ranks sum up to.
  RONDO_SMALL void Add(const u64 (&sums)[2]) {
    u64 addends[2][2] = {};
    RONDO_UNROLL
    for (u32 a = 0; a < 2; ++a) {
      const bool row = (n_.flags & (a == 0 ? kFirstIsRow : kSecondIsRow)) != 0;
      if (n_.addends[a] != nullptr) ReadVector(n_.addends[a], row ? vector_ : place_, addends[a]);
    }
    const bool last = (n_.flags & kLastOfSum) != 0;
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) {
      const float of_ranks = ElementOf(sums, e), first = ElementOf(addends[0], e),
                  second = ElementOf(addends[1], e);
      s_[e] = last ? first + second : of_ranks;
      if (last) s_[e] = s_[e] + of_ranks;
      if (!last && n_.addends[0] != nullptr) s_[e] = s_[e] + first;
      if (!last && n_.addends[1] != nullptr) s_[e] = s_[e] + second;
    }
  }

  const Norm& n_;
  const bool short_;
  const u32 thread_;
  const u64 vectors_;         // of a row
  u64 row_ = 0, vector_ = 0;  // its vector, in its row
  u64 place_ = 0;             // the vector's among all
  bool has_ = false;          // there is one
  bool ok_ = true;
  u64 own_[2] = {};
  float s_[kElements] = {}, scale_[kElements] = {}, bias_[kElements] = {};
  float sum_ = 0, mean_ = 0;
};

// The threads of a block, once each has done Reduce. `team.Each(f)` calls f(thread) for each of them,
// `team.Sum()` sets the sum of each to that of its row: over a warp's threads, or a block's, as
// compiler/codegen/cuda/device/reductions.cuh adds them.
template <class Team>
RONDO_SMALL void NormRows(Team& team, const Norm& norm) {
  using Thread = typename Team::Thread;
  RONDO_NO_UNROLL
  for (u32 pass = (norm.flags & kCentred) != 0 ? 0 : 1; pass < 2; ++pass) {
    team.Each([pass](Thread& thread) { thread.Note(pass != 0); });
    team.Each([pass](Thread& thread) { thread.Gather(pass != 0); });
    team.Sum();
    if (pass == 0) team.Each([](Thread& thread) { thread.TakeMean(); });
  }
  team.Each([](Thread& thread) { thread.Write(); });
}

}  // namespace rondo::small

#endif  // RONDO_DRIVERS_CUDA_SMALL_NORM_H_
