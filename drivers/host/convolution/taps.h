// Tests which points of a convolution's kernel (taps) lie inside the input, for variants that read it in
// place.
#pragma once

#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {

// Fetches the input that later points read, while those before them are computed.
class InputAhead {
 public:
  // The next `calls` of Fetch fetch `floats` floats from `from`.
  void Set(const float* from, int64_t floats, int64_t calls) {
    at_ = from;
    left_ = (floats + kLine - 1) / kLine;
    each_ = (left_ + calls - 1) / calls;
  }
  void Fetch() {
    for (int64_t n = Least(each_, left_); n > 0; --n, --left_, at_ += kLine) __builtin_prefetch(at_, 0, 2);
  }

 private:
  static constexpr int64_t kLine = 16;  // floats of a cache line
  const float* at_ = nullptr;
  int64_t left_ = 0, each_ = 0;
};

// The guards of a part's input, at points of group m.
class TapGuards {
 public:
  TapGuards(const MatmulPart& part, const Taps& taps)
      : taps_(taps), input_(*part.rhs[0].by_n), inner_(part.nest.first[2] - 1) {}

  // Whether all taps of `count` points from pos, along the innermost loop of group m, are present.
  bool All(const int64_t* pos, int64_t count) const {
    for (int g = 0; g < input_.num_guards; ++g) {
      const GuardTest& test = input_.guards[g];
      int64_t step = 0;
      const int64_t at = Coordinate(test, pos, &step), end = at + step * (count - 1);
      if (Least(at, end) + test.least < 0 || (at < end ? end : at) + test.greatest >= test.extent)
        return false;
    }
    return true;
  }

  // A number of points, at most `most`, from pos whose taps are all present. Not always the maximum, but 0
  // only if the first point lacks a tap.
  int64_t Whole(const int64_t* pos, int64_t most) const {
    while (most > 0 && !All(pos, most)) most /= 2;
    return most;
  }

  // Sets the point for Present. Call it first.
  void Place(const int64_t* pos) {
    int64_t step = 0;
    for (int g = 0; g < input_.num_guards; ++g) at_[g] = Coordinate(input_.guards[g], pos, &step);
  }
  bool Present(int64_t tap) const {
    bool present = true;
    for (int g = 0; g < input_.num_guards; ++g) {
      const int64_t c = at_[g] + taps_.coordinate[g * taps_.count + tap];
      present &= c >= 0 && c < input_.guards[g].extent;
    }
    return present;
  }

 private:
  int64_t Coordinate(const GuardTest& test, const int64_t* pos, int64_t* step) const {
    int64_t at = test.offset;
    *step = 0;
    for (int i = 0; i < test.loops; ++i) {
      at += test.step[i] * pos[test.loop[i]];
      if (test.loop[i] == inner_) *step = test.step[i];
    }
    return at;
  }

  const Taps& taps_;
  const Access& input_;
  const int inner_;  // the innermost loop of group m
  int64_t at_[kMaxLoops];
};

}  // namespace rondo::host::RONDO_ISA
