// What one thread of an all-reduce does that goes on with a residual and a norm (Norm, exchange_layout.h),
// for device code and, with threads as blocks, for tests on the CPU.
//
// The sum of the ranks is taken by one shot. A thread has one pack, half of a vector, and keeps what it makes
// of it. Blocks that share a row tell each other what their vectors add up to in the rank's own part of its
// inbox, as ranks tell each other data; each then adds up the whole row. The order of all sums is that of a
// kernel of its own for the same norm (compiler/codegen/cuda/reduction/row_reduction.cc), in which a thread
// has whole vectors, and so are the bits.
//
// A thread reads what it writes over before it does so, and no other thread's: memory may be written in
// place.
#ifndef RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_NORM_H_
#define RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_NORM_H_

#include "drivers/cuda/peer_collectives/exchange.h"

namespace rondo::small {

RONDO_SMALL constexpr u32 VectorsOf(const Norm& norm, u32 element) {
  return norm.columns / (kVectorBytes / (element == kF32 ? 4u : 2u));
}
RONDO_SMALL constexpr bool IsShort(const Norm& norm, u32 element) {
  return VectorsOf(norm, element) <= kShortRow;
}
// How many blocks or, of a short row, warps a row takes.
RONDO_SMALL constexpr u32 PartsOf(const Norm& norm, u32 element) {
  const u32 vectors = VectorsOf(norm, element), width = IsShort(norm, element) ? 32u : u32{kRowBlock};
  return (vectors + width - 1) / width;
}
RONDO_SMALL constexpr u64 BlocksOf(const Norm& norm, u32 element) {
  const u32 a_block = kRowBlock / 32 / norm.parts;  // short rows
  return IsShort(norm, element) ? (norm.rows + a_block - 1) / a_block : u64{norm.rows} * norm.parts;
}
// Words that blocks tell each other: one a vector, or two.
RONDO_SMALL constexpr u64 NotesOf(const Norm& norm, u32 element) {
  if (norm.parts <= 1 || IsShort(norm, element)) return 0;
  return u64{norm.rows} * norm.parts * kRowBlock * ((norm.flags & kCentred) != 0 ? 2 : 1);
}

// Thread `thread` of block `block` of `blocks`; what it does is in the order of its functions. kRanks: at
// least as many as there are.
template <class Machine, class Type, u32 kRanks>
class NormThread : public Exchange<Machine> {
  using Base = Exchange<Machine>;

 public:
  RONDO_SMALL NormThread(Machine& machine, const Group& group, const Call& call, const Norm& norm, u32 block,
                         u32 blocks, u32 thread)
      : Base(machine, group, call, 0, u64{block} * kNormThreads + thread, u64{blocks} * kNormThreads),
        n_(norm),
        second_(thread / kRowBlock),
        thread_(thread % kRowBlock),
        vectors_(norm.columns * (Type::kBits / 8) / kVectorBytes) {
    const u32 a_block = kRowBlock / 32 / norm.parts, warp = thread_ / 32;
    const u32 warps_row = block * a_block + warp / norm.parts;
    row_ = IsOfShortRow() ? warps_row : block / norm.parts;
    vector_ =
        IsOfShortRow() ? warp % norm.parts * 32 + thread_ % 32 : block % norm.parts * kRowBlock + thread_;
    has_ = vector_ < vectors_ && row_ < norm.rows && (!IsOfShortRow() || warp < a_block * norm.parts);
    pack_ = 2 * vector_ + second_;
    place_ = u64{row_} * vectors_ * 2 + pack_;
  }

  // What it needs of scale and bias: before kernels ahead have ended, if kConstantRows says so.
  RONDO_SMALL void ReadRows() {
    if (!has_) return;
    ReadRow(n_.scale, scale_);
    if (n_.bias != nullptr) ReadRow(n_.bias, bias_);
  }
  // And of what kernels ahead have written.
  RONDO_SMALL void Read() {
    if (!has_) return;
    own_ = ReadPack(this->c_.from, place_);
    if (n_.addends[0] != nullptr)
      first_addend_ = ReadPack(n_.addends[0], (n_.flags & kFirstIsRow) != 0 ? pack_ : place_);
    if (n_.addends[1] != nullptr)
      second_addend_ = ReadPack(n_.addends[1], (n_.flags & kSecondIsRow) != 0 ? pack_ : place_);
  }
  // `epoch`: the collective's.
  RONDO_SMALL void Send(u32 epoch) {
    Base::Begin(epoch);
    if (has_) this->SendToAll(place_, own_);
    this->Clean(PacksOf(this->c_.bytes), NotesOf(n_, this->c_.element));
  }

  // What all have sent, and s.
  RONDO_SMALL void Reduce() {
    if (!has_) return;
    u64 of[kRanks] = {};
    ok_ = this->Receive(place_, this->g_.ranks, of);
    if (!ok_) return;
    const u64 sum = this->template SumOf<Type>(own_, of);
    const bool last = (n_.flags & kLastOfSum) != 0;
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) {
      const float of_ranks = ElementOf<Machine, Type>(sum, e);
      const float first = ElementOf<Machine, Type>(first_addend_, e),
                  second = ElementOf<Machine, Type>(second_addend_, e);
      s_[e] = last ? first + second : of_ranks;
      if (last) s_[e] = s_[e] + of_ranks;
      if (!last && n_.addends[0] != nullptr) s_[e] = s_[e] + first;
      if (!last && n_.addends[1] != nullptr) s_[e] = s_[e] + second;
    }
    WritePack(this->c_.to, sum);
    if (n_.sum != nullptr) WritePack(n_.sum, PackOf<Machine, Type>(s_));
  }

  // What its elements add up to, or, `squares`, the squares of s - mean, from `before` on.
  RONDO_SMALL float AddUp(float before, bool squares) const {
    if (!has_) return before;
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) {
      const float value = squares ? Centred(e) : s_[e];
      before = before + (squares ? value * value : value);
    }
    return before;
  }
  // The thread of a vector's second half has the vector's sum: it tells it the blocks that share the row, if
  // any do, and returns what those of its number in these blocks add up to.
  RONDO_SMALL float TellAndGather(float sum, bool squares) {
    if (n_.parts <= 1 || IsOfShortRow() || !ok_) return sum;
    if (has_)
      this->Base::Send(this->g_.rank, NoteOf(squares, vector_ / kRowBlock),
                       u64{__builtin_bit_cast(u32, sum)});
    const Words* const notes = this->receives_ + this->g_.rank * this->g_.capacity;
    for (u32 tries = 1; ok_; ++tries) {
      Words words[kMostParts] = {};
      RONDO_UNROLL
      for (u32 part = 0; part < kMostParts; ++part) {
        if (HasPart(part)) words[part] = this->m_.Load(notes + NoteOf(squares, part));
      }
      bool come = true;
      sum = 0;
      RONDO_UNROLL
      for (u32 part = 0; part < kMostParts; ++part) {
        if (!HasPart(part)) continue;
        come = come && this->HasCome(words[part]);
        sum = sum + __builtin_bit_cast(float, static_cast<u32>(words[part].low));
      }
      if (come) break;
      ok_ = this->m_.GoOn(tries, this->g_.rank);
    }
    return sum;
  }
  // Of a short row: `sums` has what its vectors add up to, by their threads; those 32 apart are added up
  // first.
  RONDO_SMALL float SumOfWarps(const float* sums) const {
    const u32 first = thread_ - vector_ / 32 * 32;
    float sum = 0;
    for (u32 part = 0; part < n_.parts; ++part) {
      if (part * 32 + thread_ % 32 < vectors_) sum = sum + sums[(first + part * 32) % kRowBlock];
    }
    return sum;
  }
  RONDO_SMALL bool IsOfShortRow() const { return vectors_ <= kShortRow; }
  RONDO_SMALL void TakeMean(float sum) { mean_ = sum / n_.count; }

  // The norm; `sum` is the row's, of squares.
  RONDO_SMALL void Write(float sum) {
    if (!ok_ || !has_) return;
    const float factor = 1.0f / Machine::Root(sum / n_.count + n_.epsilon);
    float values[kElements];
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) values[e] = Centred(e) * factor;
    if ((n_.flags & kRounded) != 0) {
      const u64 rounded = PackOf<Machine, Type>(values);
      RONDO_UNROLL
      for (u32 e = 0; e < kElements; ++e) values[e] = ElementOf<Machine, Type>(rounded, e);
    }
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) {
      values[e] = values[e] * scale_[e];
      if (n_.bias != nullptr) values[e] = values[e] + bias_[e];
    }
    WritePack(n_.normed, PackOf<Machine, Type>(values));
  }

 private:
  enum : u32 { kElements = 64 / Type::kBits };

  RONDO_SMALL bool HasPart(u32 part) const {
    return part < n_.parts && part * kRowBlock + thread_ < vectors_;
  }
  RONDO_SMALL float Centred(u32 e) const { return (n_.flags & kCentred) != 0 ? s_[e] - mean_ : s_[e]; }
  RONDO_SMALL u64 NoteOf(bool squares, u32 part) const {
    const u32 second = squares && (n_.flags & kCentred) != 0 ? n_.rows : 0;
    return u64{(second + row_) * n_.parts + part} * kRowBlock + thread_;
  }
  RONDO_SMALL u64 ReadPack(const char* from, u64 pack) const {
    return this->m_.ReadPack(from + kPackBytes * pack);
  }
  RONDO_SMALL void WritePack(char* to, u64 pack) const { this->m_.WritePack(to + kPackBytes * place_, pack); }
  // What a row has for its pack.
  RONDO_SMALL void ReadRow(const char* from, float (&values)[kElements]) const {
    if ((n_.flags & kWideRows) != 0) {
      RONDO_UNROLL
      for (u32 e = 0; e < kElements; ++e)
        values[e] = ElementOf<Machine, F32>(ReadPack(from, (u64{pack_} * kElements + e) / 2), e % 2);
      return;
    }
    const u64 pack = ReadPack(from, pack_);
    RONDO_UNROLL
    for (u32 e = 0; e < kElements; ++e) values[e] = ElementOf<Machine, Type>(pack, e);
  }

  const Norm& n_;
  const u32 second_;          // 1: it has the second half of a vector
  const u32 thread_;          // of those of such halves
  const u32 vectors_;         // of a row
  u32 row_ = 0, vector_ = 0;  // its vector, in its row
  u32 pack_ = 0;              // its pack, in its row
  u64 place_ = 0;             // and among all
  bool has_ = false;          // there is one
  bool ok_ = true;
  u64 own_ = 0, first_addend_ = 0, second_addend_ = 0;
  float s_[kElements] = {}, scale_[kElements] = {}, bias_[kElements] = {};
  float mean_ = 0;
};

// The threads of a block, once each has done Reduce. `team.SumOfRows(squares)` adds up: each thread of a
// first half from 0 on, each of a second from what that of the first has on, which is told and gathered; then
// over a warp's threads, or a block's, as compiler/codegen/cuda/device/reductions.cuh adds them.
// `team.Each(f)` calls f(thread, what its row adds up to) for all.
template <class Team>
RONDO_SMALL void NormRows(Team& team, const Norm& norm) {
  using Thread = typename Team::Thread;
  RONDO_NO_UNROLL
  for (bool squares = (norm.flags & kCentred) == 0;; squares = true) {
    team.SumOfRows(squares);
    if (squares) break;
    team.Each([](Thread& thread, float sum) { thread.TakeMean(sum); });
  }
  team.Each([](Thread& thread, float sum) { thread.Write(sum); });
}

}  // namespace rondo::small

#endif  // RONDO_DRIVERS_CUDA_PEER_COLLECTIVES_NORM_H_
