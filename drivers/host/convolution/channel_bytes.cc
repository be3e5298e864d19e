// Depthwise convolutions of bytes over contiguous channels (Variant::kChannelBytes), exact in 32 bits.
//
// Four vertical taps of a channel are moved next to each other, so that a dot product of four bytes sums them
// (byte_channels.inc). All points of a strip with a tap in an input column share this column, which is
// prepared once. Weights are signed bytes or, if one does not fit, 16-bit numbers that multiply bytes in
// pairs. With short vectors, two taps are next to each other, with weights of 16 bits (channel_pairs.inc).
#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/convolution/taps.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/byte_sums.h"
#include "drivers/host/reduction/extremes.h"

namespace rondo::host::RONDO_ISA {
namespace {

class ChannelBytes {
 public:
  ChannelBytes(const ChannelBytesPart& part, Worker& w)
      : part_(part),
        program_(part.strip),
        nest_(part.nest),
        w_(w),
        input_(*part.rhs[0].by_n),
        guards_(part, part.taps),
        sums_(part, w),
        inner_(part.nest.first[2] - 1),
        beside_(program_.with.taps),
        step_(program_.with.step),
        four_(4 * step_),
        columns_(At<uint8_t>(program_.columns_at)),
        rows_(At<uint8_t>(program_.rows_at)),
        none_(rows_ + part.taps.count * step_),
        absent_(At<uint8_t>(program_.absent_at)),
        made_(At<Made>(program_.made_at)) {
    std::memset(made_, 0, static_cast<size_t>(part.tiling.tiles * program_.tile_steps));
    std::memset(absent_, part_.absent, static_cast<size_t>(step_));
    std::memset(none_, 0, static_cast<size_t>(step_));
    strip_.taps = static_cast<int>(program_.horizontal);
    strip_.fours = static_cast<int>(program_.fours);
    strip_.columns = columns_;
    strip_.point_step = program_.point_columns * program_.fours * four_;
    strip_.tap_step = program_.tap_columns * program_.fours * four_;
    strip_.acc_row = part.acc_row;
  }

  // Points [row, row + rows) of group m over the n channels of tile `tile`, which is at pos.
  void Run(int64_t* pos, int64_t tile, int64_t row, int64_t rows, int n) {
    sums_.LoadCorrections(pos, n);
    for (int channel = 0; channel < n && !Stopped(w_); channel += step_) {
      const int channels = Least(step_, n - channel);
      FindWeights(pos, tile, channel, channels);
      Decode(nest_, nest_.first[1], nest_.first[2], row, pos);
      int32_t* acc = sums_.Acc(0) + channel;
      for (int64_t r = 0; r < rows && !Stopped(w_);) {
        const int64_t points = Least(Least(program_.points, rows - r), nest_.extent[inner_] - pos[inner_]);
        MakeColumns(pos, points, channel, channels);
        strip_.acc = acc + r * part_.acc_row;
        strip_.points = static_cast<int>(points);
        strip_.channels = channels;
        program_.with.sum(strip_);
        r += points;
        pos[inner_] += points - 1;
        Advance(nest_, nest_.first[1], nest_.first[2], pos);
      }
      for (int d = nest_.first[1]; d < nest_.first[2]; ++d) pos[d] = 0;
    }
    if (part_.left_flip != 0 && !InPairs())
      sums_.Correct(0, At<int32_t>(program_.sums_at) + tile * kLanes, n);
    sums_.RunEpilogue(pos, row, rows, n, nullptr);
  }

 private:
  template <typename T>
  T* At(int64_t offset) const {
    return reinterpret_cast<T*>(w_.scratch + offset);
  }

  // ---------------------------------------------------------------------------------- weights

  // The form of the weights of a step of channels: numbers of one byte or two.
  enum Made : uint8_t { kNotYet, kBytes, kWide };

  // Prepares the weights of channels [channel, channel + channels) of the tile at pos.
  void FindWeights(const int64_t* pos, int64_t tile, int channel, int channels) {
    const int64_t step = tile * program_.tile_steps + channel / step_;
    weights_ = At<uint8_t>(program_.weights_at) + step * program_.weights_bytes;
    Made& made = made_[step];
    if (made == kNotYet) {
      const Access& weight = *part_.weight;
      const char* from = Pointer(weight, w_, BaseOf(weight, pos) + channel);
      const int64_t of = tile * kLanes + channel;
      switch (weight.dtype) {
        case DType::kI8: made = Pack(reinterpret_cast<const int8_t*>(from), of, channels); break;
        case DType::kU8: made = Pack(reinterpret_cast<const uint8_t*>(from), of, channels); break;
        default: made = Pack(reinterpret_cast<const int16_t*>(from), of, channels); break;
      }
    }
    strip_.weights = weights_;
    strip_.high = made == kWide ? weights_ + NumberBytes() : nullptr;
  }
  bool InPairs() const { return beside_ == 2; }
  // Bytes for one byte of each weight of a step.
  int64_t NumberBytes() const { return program_.horizontal * program_.fours * four_; }

  // Packs the weights of `channels` channels; `channel` counts over all tiles.
  template <typename T>
  Made Pack(const T* weights, int64_t channel, int channels) {
    if (InPairs()) {
      PutPairs(weights, channels);
      return kBytes;
    }
    if (part_.left_flip != 0) AddUp(weights, channel, channels);
    if constexpr (static_cast<T>(-1) < 0 && sizeof(T) == 1) {  // read in place
      PutBytes(
          [&](int64_t tap) { return reinterpret_cast<const uint8_t*>(weights) + part_.taps.weight[tap]; },
          channels, 0);
      return kBytes;
    }
    PutRows(weights, channels, 0);
    PutRows(weights, channels, 1);
    return FitBytes() ? kBytes : kWide;
  }

  // Writes 16-bit weights, two taps next to each other.
  template <typename T>
  void PutPairs(const T* weights, int channels) {
    auto* to = reinterpret_cast<uint32_t*>(weights_);
    for (int64_t x = 0; x < program_.horizontal; ++x) {
      for (int64_t v = 0; v < 2 * program_.fours; v += 2, to += step_) {
        const int64_t tap = v * program_.horizontal + x;
        const T* const one = weights + part_.taps.weight[tap];
        const bool both = v + 1 < program_.vertical;
        const T* const other = both ? weights + part_.taps.weight[tap + program_.horizontal] : one;
        const uint32_t takes = both ? ~uint32_t{0} : 0;
#pragma GCC ivdep
        for (int c = 0; c < channels; ++c)
          to[c] = (static_cast<uint32_t>(one[c]) & 0xffff) | (static_cast<uint32_t>(other[c]) << 16 & takes);
        std::memset(to + channels, 0, static_cast<size_t>(step_ - channels) * sizeof(*to));
      }
    }
  }

  // Whether the low bytes, sign-extended, hold the whole values.
  bool FitBytes() const {
    const uint8_t *const low = weights_, *const high = weights_ + NumberBytes();
    uint8_t beyond = 0;
    for (int64_t i = 0; i < NumberBytes(); ++i)
      beyond |= high[i] ^ static_cast<uint8_t>(low[i] & 0x80 ? 0xff : 0);
    return beyond == 0;
  }

  // Writes byte number `number` of each weight; 0 is the low byte.
  template <typename T>
  void PutRows(const T* weights, int channels, int number) {
    for (int64_t t = 0; t < part_.taps.count; ++t) {
      const T* const of = weights + part_.taps.weight[t];
      uint8_t* const to = rows_ + t * step_;
#pragma GCC ivdep
      for (int c = 0; c < channels; ++c) to[c] = static_cast<uint8_t>(of[c] >> (8 * number));
    }
    PutBytes([&](int64_t tap) { return rows_ + tap * step_; }, channels, number);
  }

  // Writes one byte for each weight, in the order in which SumChannels reads them; row(tap) has the bytes of
  // a tap.
  template <typename Row>
  void PutBytes(const Row& row, int channels, int number) {
    static constexpr int64_t kStay[4] = {};
    uint8_t* to = weights_ + number * NumberBytes();
    for (int64_t x = 0; x < program_.horizontal; ++x) {
      for (int64_t g = 0; g < program_.fours; ++g, to += four_) {
        const uint8_t* from[4];
        for (int64_t t = 0; t < 4; ++t) {
          const int64_t v = 4 * g + t;
          from[t] = v < program_.vertical ? row(v * program_.horizontal + x) : none_;
        }
        program_.with.interleave(from, kStay, 1, channels, 0, to, 0);
      }
    }
  }

  // Adds up what flipped input bits add to each channel's sum.
  template <typename T>
  void AddUp(const T* weights, int64_t channel, int channels) {
    int32_t* const sums = At<int32_t>(program_.sums_at) + channel;
    std::memset(sums, 0, static_cast<size_t>(channels) * sizeof(*sums));
    for (int64_t t = 0; t < part_.taps.count; ++t) {
      const T* const of = weights + part_.taps.weight[t];
#pragma GCC ivdep
      for (int c = 0; c < channels; ++c) sums[c] += 128 * of[c];
    }
  }

  // ---------------------------------------------------------------------------------- points

  // The input columns [first, last) in which a vertical tap is present.
  struct Present {
    int64_t first = 0, last = 0;
  };

  // For tap `v`, in a strip of `columns` from pos on.
  Present PresenceOf(int64_t v, const int64_t* pos, int64_t columns) const {
    Present present{0, columns};
    for (int g = 0; g < input_.num_guards; ++g) {
      const GuardTest& guard = input_.guards[g];
      int64_t at = guard.offset + part_.taps.coordinate[g * part_.taps.count + v * program_.horizontal];
      for (int i = 0; i < guard.loops; ++i) at += guard.step[i] * pos[guard.loop[i]];
      const int64_t unit = program_.guard_unit[g];
      if (unit == 0) {
        if (at < 0 || at >= guard.extent) return {};
        continue;
      }
      const int64_t first = at < 0 ? (-at + unit - 1) / unit : 0;
      const int64_t last = at < guard.extent ? (guard.extent - at + unit - 1) / unit : 0;
      if (first > present.first) present.first = first;
      if (last < present.last) present.last = last;
    }
    return present.first < present.last ? present : Present{};
  }

  // Prepares what the points of a strip at pos read, four vertical taps next to each other.
  void MakeColumns(const int64_t* pos, int64_t points, int channel, int channels) {
    const uint8_t* base =
        reinterpret_cast<const uint8_t*>(Pointer(input_, w_, BaseOf(input_, pos))) + channel;
    const int64_t columns =
        (points - 1) * program_.point_columns + (program_.horizontal - 1) * program_.tap_columns + 1;
    const bool whole = guards_.All(pos, points);
    for (int64_t g = 0; g < program_.fours; ++g) {
      Present present[4];
      for (int64_t t = 0; t < beside_ && beside_ * g + t < program_.vertical; ++t)
        present[t] = whole ? Present{0, columns} : PresenceOf(beside_ * g + t, pos, columns);
      for (int64_t column = 0; column < columns;) {
        const uint8_t* from[4];
        int64_t step[4], next = columns;
        for (int64_t t = 0; t < beside_; ++t) {
          const bool here = column >= present[t].first && column < present[t].last;
          if (here) next = Least(next, present[t].last);
          if (column < present[t].first) next = Least(next, present[t].first);
          from[t] =
              here ? base + part_.taps.at[(beside_ * g + t) * program_.horizontal] + column * program_.unit
                   : absent_;
          step[t] = here ? program_.unit : 0;
        }
        if (InPairs() && 2 * g + 1 >= program_.vertical) from[1] = nullptr;
        const int64_t to_step = program_.fours * four_;
        program_.with.interleave(from, step, static_cast<int>(next - column), channels, part_.left_flip,
                                 columns_ + column * to_step + g * four_, to_step);
        column = next;
      }
    }
  }

  const ChannelBytesPart& part_;
  const ChannelStripProgram& program_;
  const Nest& nest_;
  Worker& w_;
  const Access& input_;
  TapGuards guards_;
  ByteSums sums_;
  const int inner_;   // the innermost loop of group m
  const int beside_;  // vertical taps
  const int step_;    // channels at a time
  const int four_;    // bytes of four such taps for them
  uint8_t* const columns_;
  uint8_t* weights_ = nullptr;  // of the current channels
  uint8_t* const rows_;         // bytes of the weights, one row a tap
  uint8_t* const none_;         // zeros
  uint8_t* const absent_;
  Made* const made_;  // of each step of channels
  ChannelStrip strip_;
};

}  // namespace

void RunChannelBytes(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const ChannelBytesPart& part = static_cast<const ChannelBytesPart&>(base);
  const Nest& nest = part.nest;
  const int64_t rows = nest.points[1], tiles = part.tiling.tiles;
  const int64_t blocks = (rows + part.block_rows - 1) / part.block_rows;
  BeginTape(part.epilogue, w);
  ChannelBytes channels(part, w);
  StartRange(w);
  int64_t pos[kMaxNest] = {};
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t block = task / tiles, row = block % blocks * part.block_rows;
    Decode(nest, 0, nest.first[1], block / blocks, pos);
    for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    channels.Run(pos, task % tiles, row, Least(part.block_rows, rows - row), n);
    TakeWritten(part, w, pos, row, Least(part.block_rows, rows - row), n);
  }
}

}  // namespace rondo::host::RONDO_ISA
