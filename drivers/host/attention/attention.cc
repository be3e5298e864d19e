// Attention: for a few query rows at a time, computes the scores of all keys below the limit, a softmax, and
// the weighted sum of the values. Only the scores of these rows exist at a time.
#include <cmath>
#include <limits>

#include "core/scalar.h"
#include "drivers/host/attention/attention_program.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/blocks.h"
#include "drivers/host/tape/math.h"

namespace rondo::host::RONDO_ISA {
namespace {

// The maximum; NaN if one element is NaN, -inf if there are none.
float MaxOf(const float* x, int64_t n) {
  float parts[32];
  for (float& p : parts) p = -__builtin_inff();
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC ivdep
    for (int j = 0; j < 32; ++j) parts[j] = x[i + j] > parts[j] || x[i + j] != x[i + j] ? x[i + j] : parts[j];
  }
  float most = -__builtin_inff();
  for (; i < n; ++i) most = x[i] > most || x[i] != x[i] ? x[i] : most;
  for (float p : parts) most = p > most || p != p ? p : most;
  return most;
}

// x[i] = exp(x[i] - shift); returns the sum.
float ExpSum(float* x, int64_t n, float shift) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int count = static_cast<int>(Least<int64_t>(kLanes, n - i));
    float* at = x + i;
    float parts[16] = {};
    int j = 0;
    for (; j + 16 <= count; j += 16) {
#pragma GCC ivdep
      for (int l = 0; l < 16; ++l) {
        at[j + l] = ExpF(at[j + l] - shift);
        parts[l] += at[j + l];
      }
    }
    for (; j < count; ++j) {
      at[j] = ExpF(at[j] - shift);
      parts[0] += at[j];
    }
    for (float p : parts) sum += p;
  }
  return static_cast<float>(sum);
}

double MaxOf(const double* x, int64_t n) {
  double most = -__builtin_inf();
  for (int64_t i = 0; i < n; ++i) most = x[i] > most || x[i] != x[i] ? x[i] : most;
  return most;
}
double ExpSum(double* x, int64_t n, double shift) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - shift);
  return sum;
}

float Tanh(float x) { return TanhF(x); }
double Tanh(double x) { return std::tanh(x); }

// Converts n loaded lanes of `type` to T; copies nothing if they are in place already.
template <typename T>
void Widen(TapeType type, const char* from, int n, T* out) {
  for (int i = 0; i < n; ++i) {
    switch (type) {
      case TapeType::kF32: out[i] = static_cast<T>(reinterpret_cast<const float*>(from)[i]); break;
      case TapeType::kF64: {
        double v;
        std::memcpy(&v, from + i * 8, 8);
        out[i] = static_cast<T>(v);
        break;
      }
      case TapeType::kI64: {
        int64_t v;
        std::memcpy(&v, from + i * 8, 8);
        out[i] = static_cast<T>(v);
        break;
      }
    }
  }
}

// One task: `rows` query rows, from `row` on, of one outer point.
template <typename T>
class AttentionBlock {
 public:
  AttentionBlock(const AttentionPart& part, Worker& w, int64_t* pos, int64_t row, int rows)
      : part_(part), nest_(part.nest), w_(w), pos_(pos), row_(row), rows_(rows) {
    features_ = nest_.points[4];
    keys_ = nest_.points[3];
    q_row_ = features_ + kLanes;
    score_row_ = keys_ + kLanes;
    q_ = reinterpret_cast<T*>(w.scratch + part.query_at);
    line_ = reinterpret_cast<T*>(w.scratch + part.key_at);
    scores_ = reinterpret_cast<T*>(w.scratch + part.scores_at);
    temp_ = w.scratch + part.temp_at;
    acc_ = reinterpret_cast<T*>(w.scratch + part.acc_at);
  }

  void Run() {
    LoadQueries();
    used_ = 0;
    for (int r = 0; r < rows_; ++r) used_ = limits_[r] > used_ ? limits_[r] : used_;
    if (used_ > 0) Scores();
    for (int r = 0; r < rows_; ++r) Softmax(r);
    WeightedValues();
  }

 private:
  static constexpr int64_t kKeysAtOnce = 4096;  // between two looks at what stops the launch

  void ToRow(int r) { Decode(nest_, nest_.first[1], nest_.first[2], row_ + r, pos_); }
  void Zero(int group) {
    for (int d = nest_.first[group]; d < nest_.first[group + 1]; ++d) pos_[d] = 0;
  }

  // All lanes of `access` over `tiling`, widened to T.
  void LoadLine(const Access& access, const Tiling& tiling, int64_t lanes, T* out) {
    int n = DecodeTile(nest_, tiling, 0, pos_);
    for (int64_t at = 0;;) {
      LoadLanes(access, w_, pos_, n, temp_);
      Widen(NaturalType(access.dtype), temp_, n, out + at);
      at += n;
      if (at >= lanes) break;
      n = NextTile(nest_, tiling, pos_);
    }
    for (int d = tiling.first; d < tiling.end; ++d) pos_[d] = 0;
  }

  void LoadQueries() {
    for (int g = 2; g < 5; ++g) Zero(g);
    for (int r = 0; r < rows_; ++r) {
      ToRow(r);
      LoadLine(*part_.q, part_.feature_tiling, features_, q_ + r * q_row_);
      limits_[r] = keys_;
      if (part_.limit == nullptr) continue;
      LoadLanes(*part_.limit, w_, pos_, 1, temp_);
      int64_t limit;
      std::memcpy(&limit, temp_, 8);
      limits_[r] = limit < 0 ? 0 : Least(limit, keys_);
    }
  }

  void Scores() {
    ToRow(0);
    if constexpr (sizeof(T) == 4) {
      if (part_.keys_direct) {
        const Access& keys = *part_.keys;
        const int64_t base = BaseOf(keys, pos_);
        for (int64_t k = 0; k < used_ && !Stopped(w_); k += kKeysAtOnce) {
          Dots(q_, q_row_, rows_, Pointer(keys, w_, base + k * part_.key_step), keys.dtype, part_.key_step,
               features_, static_cast<int>(Least(kKeysAtOnce, used_ - k)), scores_ + k, score_row_, false);
        }
        return Adjust();
      }
    }
    for (int r = 0; r < rows_; ++r) {
      ToRow(r);
      for (int64_t k = 0; k < limits_[r] && !Stopped(w_); ++k) {
        Decode(nest_, nest_.first[3], nest_.first[4], k, pos_);
        LoadLine(*part_.keys, part_.feature_tiling, features_, line_);
        T sum = 0;
        for (int64_t f = 0; f < features_; ++f) sum += q_[r * q_row_ + f] * line_[f];
        scores_[r * score_row_ + k] = sum;
      }
    }
    Zero(3);
    Adjust();
  }

  // Scale, softcap, mask, limit.
  void Adjust() {
    const T scale = part_.scale, cap = part_.softcap;
    for (int r = 0; r < rows_; ++r) {
      T* s = scores_ + r * score_row_;
      const int64_t limit = limits_[r];
      for (int64_t k = 0; k < limit; ++k) s[k] *= scale;
      if (cap != 0) {
        for (int64_t k = 0; k < limit; ++k) s[k] = cap * Tanh(s[k] / cap);
      }
      if (part_.mask != nullptr && limit > 0) Mask(r, s, limit);
    }
  }

  void Mask(int r, T* s, int64_t limit) {
    const Access& mask = *part_.mask;
    const TapeType type = NaturalType(mask.dtype);
    const bool keep = mask.dtype == DType::kBool;
    ToRow(r);
    int n = DecodeTile(nest_, part_.key_tiling, 0, pos_);
    T added[kLanes];
    for (int64_t at = 0;;) {
      n = static_cast<int>(Least<int64_t>(n, limit - at));
      LoadLanes(mask, w_, pos_, n, temp_);
      Widen(type, temp_, n, added);
      if (keep) {
        for (int i = 0; i < n; ++i)
          s[at + i] = added[i] != 0 ? s[at + i] : -std::numeric_limits<T>::infinity();
      } else {
        for (int i = 0; i < n; ++i) s[at + i] += added[i];
      }
      at += n;
      if (at >= limit) break;
      n = NextTile(nest_, part_.key_tiling, pos_);
    }
    Zero(3);
  }

  void Softmax(int r) {
    T* s = scores_ + r * score_row_;
    const int64_t limit = limits_[r];
    const T most = MaxOf(s, limit);
    T sum = 0;
    if (most > -std::numeric_limits<T>::infinity()) sum = ExpSum(s, limit, most);
    dead_[r] = !(sum > 0);  // no key left, or NaN among the scores
    if (dead_[r]) {
      for (int64_t k = 0; k < used_; ++k) s[k] = 0;
      return;
    }
    const T factor = T(1) / sum;
    for (int64_t k = 0; k < limit; ++k) s[k] *= factor;
    for (int64_t k = limit; k < used_; ++k) s[k] = 0;
  }

  void WeightedValues() {
    TapeFrame frame;
    frame.worker = &w_;
    frame.acc_size = sizeof(T);
    const int64_t tiles = part_.tiling.tiles;
    for (int64_t t = 0; t < tiles && !Stopped(w_); ++t) {
      const int n = DecodeTile(nest_, part_.tiling, t, pos_);
      Sum(n);
      for (int r = 0; r < rows_; ++r) {
        ToRow(r);
        T* acc = acc_ + r * kLanes;
        if (dead_[r]) {
          for (int i = 0; i < n; ++i) acc[i] = part_.nan_to_zero ? T(0) : std::numeric_limits<T>::quiet_NaN();
        }
        frame.acc = reinterpret_cast<const char*>(acc);
        RunTape(part_.epilogue, frame, pos_, n);
      }
    }
  }

  void Sum(int n) {
    ToRow(0);
    const Access& values = *part_.values;
    if (used_ == 0) {
      for (int r = 0; r < rows_; ++r) std::memset(acc_ + r * kLanes, 0, static_cast<size_t>(n) * sizeof(T));
      return;
    }
    if constexpr (sizeof(T) == 4) {
      if (part_.values_direct) {
        const int64_t base = BaseOf(values, pos_);
        for (int64_t k = 0; k < used_ && !Stopped(w_); k += kKeysAtOnce) {
          WalkRows(scores_ + k, score_row_, rows_, Pointer(values, w_, base + k * part_.value_step),
                   values.dtype, part_.value_step, Least(kKeysAtOnce, used_ - k), n, acc_, kLanes, k > 0,
                   8 * part_.value_step);
        }
        return;
      }
    }
    T line[kLanes];
    for (int r = 0; r < rows_; ++r) {
      ToRow(r);
      T* acc = acc_ + r * kLanes;
      for (int i = 0; i < n; ++i) acc[i] = 0;
      for (int64_t k = 0; k < limits_[r] && !Stopped(w_); ++k) {
        Decode(nest_, nest_.first[3], nest_.first[4], k, pos_);
        LoadLanes(values, w_, pos_, n, temp_);
        Widen(NaturalType(values.dtype), temp_, n, line);
        const T p = scores_[r * score_row_ + k];
        for (int i = 0; i < n; ++i) acc[i] += p * line[i];
      }
      Zero(3);
    }
  }

  const AttentionPart& part_;
  const Nest& nest_;
  Worker& w_;
  int64_t* pos_;
  const int64_t row_;
  const int rows_;
  int64_t features_, keys_, q_row_, score_row_, used_ = 0;
  T *q_, *line_, *scores_, *acc_;
  char* temp_;
  int64_t limits_[kFewRows] = {};
  bool dead_[kFewRows] = {};
};

}  // namespace

void RunAttention(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const AttentionPart& part = static_cast<const AttentionPart&>(base);
  const Nest& nest = part.nest;
  const int64_t m = nest.points[1];
  const int64_t row_blocks = (m + part.block_rows - 1) / part.block_rows;
  BeginTape(part.epilogue, w);
  int64_t pos[kMaxNest] = {};
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t row = task % row_blocks * part.block_rows;
    const int rows = static_cast<int>(Least(part.block_rows, m - row));
    Decode(nest, 0, nest.first[1], task / row_blocks, pos);
    if (part.acc_type == TapeType::kF64) {
      AttentionBlock<double>(part, w, pos, row, rows).Run();
    } else {
      AttentionBlock<float>(part, w, pos, row, rows).Run();
    }
  }
}

}  // namespace rondo::host::RONDO_ISA
