// ByteSums: corrects the 32-bit sums of byte matmuls and runs their epilogue. Sums lie in rows of
// accumulators, with a correction for each column.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/byte_program.h"

namespace rondo::host::RONDO_ISA {

inline constexpr int kRowsTransposed = 16;  // at a time

// Interleaves the lanes of x and y: *low has those of the first halves, *high those of the second.
static inline __attribute__((always_inline)) void Interleave(Vector x, Vector y, Vector* low, Vector* high) {
#if defined(__AVX512F__)
  *low = __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  *high = __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
#elif defined(__AVX2__)
  *low = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
  *high = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
#else
  *low = __builtin_shufflevector(x, y, 0, 4, 1, 5);
  *high = __builtin_shufflevector(x, y, 2, 6, 3, 7);
#endif
}

// Stores up to kRowsTransposed rows of kLanes floats, `columns` of which count, as columns `step` floats
// apart. Reads whole squares.
static inline void StoreTransposed(const float* from, int rows, int columns, float* to, int64_t step) {
  for (int r = 0; r < rows; r += kWidth) {
    const int some = Least(kWidth, rows - r);
    for (int c = 0; c < columns; c += kWidth) {
      Vector square[kWidth];
#pragma GCC unroll 16
      for (int i = 0; i < kWidth; ++i)
        square[i] = *reinterpret_cast<const Vector*>(from + (r + i) * kLanes + c);
#pragma GCC unroll 4
      for (int round = 1; round < kWidth; round *= 2) {
        Vector next[kWidth];
#pragma GCC unroll 8
        for (int i = 0; i < kWidth / 2; ++i)
          Interleave(square[i], square[i + kWidth / 2], &next[2 * i], &next[2 * i + 1]);
#pragma GCC unroll 16
        for (int i = 0; i < kWidth; ++i) square[i] = next[i];
      }
      const int here = Least(kWidth, columns - c);
      float* out = to + c * step + r;
      if (some == kWidth && here == kWidth) {
#pragma GCC unroll 16
        for (int i = 0; i < kWidth; ++i) *reinterpret_cast<Vector*>(out + i * step) = square[i];
        continue;
      }
      alignas(64) float floats[kWidth * kWidth];
      std::memcpy(floats, square, sizeof(floats));
      for (int i = 0; i < here; ++i) CopyFloats(floats + i * kWidth, some, out + i * step);
    }
  }
}

// For one part in one launch. Scratch: acc_at, temp_at, rhs_at (wide_stride for each rhs) and correction_at.
class ByteSums {
 public:
  ByteSums(const SumsPart& part, Worker& w) : part_(part), w_(w) {
    if (part_.sums == nullptr) return;
    BeginTape(part_.of_columns, w);
    std::memset(w.scratch + part_.zeros_at, 0, kLanes * sizeof(float));
    for (int i = 0; i < kLanes; ++i) reinterpret_cast<float*>(w.scratch + part_.ones_at)[i] = 1;
  }

  int32_t* Acc(int j) const {
    return reinterpret_cast<int32_t*>(w_.scratch + part_.acc_at + j * part_.acc_stride);
  }

  // Loads the corrections from the epilogue: what is to be subtracted from each column's sums, for the n
  // columns of the tile at pos.
  void LoadCorrections(const int64_t* pos, int n) {
    if (part_.sums != nullptr) return LoadColumns(pos, n);
    for (int j = 0; j < part_.num_rhs; ++j) Narrow(nullptr, n, Corrections(j));
  }
  // Adds `more` to the corrections.
  void Correct(int j, const int32_t* more, int n) {
    int32_t* less = Corrections(j);
    for (int i = 0; i < n; ++i)
      less[i] = static_cast<int32_t>(static_cast<uint32_t>(less[i]) + static_cast<uint32_t>(more[i]));
  }

  // Runs the epilogue of rows [row, row + rows) of group m over the n lanes of the tile at pos. row_sums: the
  // sums of the packed bytes of each row, if any rhs needs them.
  void RunEpilogue(int64_t* pos, int64_t row, int64_t rows, int n, const int64_t* row_sums) {
    if (part_.whole) return Requantise(pos, row, rows, n, row_sums);
    if (part_.tail.out != nullptr) return RunTail(pos, row, rows, n, row_sums);
    if (const Access* const columns = Columns()) return RunColumns(*columns, pos, row, rows, n, row_sums);
    const Nest& nest = part_.nest;
    const int inner = nest.first[2] - 1;
    TapeFrame frame;
    frame.worker = &w_;
    frame.acc = w_.scratch + part_.wide_at;
    frame.acc_stride = part_.wide_stride;
    Decode(nest, nest.first[1], nest.first[2], row, pos);
    for (int64_t r = 0; r < rows;) {
      const int64_t count = part_.epilogue_rows == 1 ? 1
                                                     : Least(Least(part_.epilogue_rows, rows - r),
                                                             nest.extent[inner] - pos[inner]);
      for (int j = 0; j < part_.num_rhs; ++j) {
        char* wide = w_.scratch + part_.wide_at + j * part_.wide_stride;
        if (part_.sums != nullptr) {
          if (!part_.row_sum[j]) ToFloats(j, r, count, pos, n, row_sums, wide);
          continue;
        }
        for (int64_t i = 0; i < count; ++i) {
          if (part_.row_sum[j]) {
            const int64_t product = NumberOf(j, pos) * SumOf(row_sums, r + i);
            for (int c = 0; c < n; ++c) reinterpret_cast<int64_t*>(wide)[i * n + c] = product;
          } else {
            ToWhole(j, r + i, n, row_sums, reinterpret_cast<int64_t*>(wide) + i * n);
          }
        }
      }
      RunTape(part_.epilogue, frame, pos, static_cast<int>(count) * n);
      r += count;
      pos[inner] += count - 1;
      Advance(nest, nest.first[1], nest.first[2], pos);
    }
  }

 private:
  int32_t* Corrections(int j) const {
    return reinterpret_cast<int32_t*>(w_.scratch + part_.correction_at) + j * kLanes;
  }

  int32_t* Times(int j) const { return reinterpret_cast<int32_t*>(w_.scratch + part_.times_at) + j * kLanes; }
  static void Narrow(const int64_t* from, int n, int32_t* to) {
    for (int i = 0; i < n; ++i) to[i] = from == nullptr ? 0 : static_cast<int32_t>(from[i]);
  }

  static bool AllSame(const int32_t* x, int n) {
    int32_t other = 0;
    for (int i = 1; i < n; ++i) other |= x[i] ^ x[0];
    return other == 0;
  }

  // What must be added to all sums of row r of rhs j, which may be flipped; modulo 2^32.
  uint32_t More(int j, const int64_t* row_sums, int64_t r) const {
    return part_.right_flip[j] == 0 ? 0 : static_cast<uint32_t>(SumOf(row_sums, r)) * 128;
  }
  // The sum of row r of the unflipped lhs; 0 if it is not needed.
  int64_t SumOf(const int64_t* row_sums, int64_t r) const {
    if (row_sums == nullptr) return 0;
    return row_sums[r] - (part_.left_flip != 0 ? part_.nest.points[3] * 128 : 0);
  }
  // The single number of rhs j, for the outer loops at pos.
  int64_t NumberOf(int j, const int64_t* pos) const {
    const Access& number = *part_.rhs[j].by_n;
    int64_t at[kMaxNest] = {};
    for (int d = 0; d < part_.nest.first[1]; ++d) at[d] = pos[d];
    const char* const byte = Pointer(number, w_, BaseOf(number, at));
    return number.dtype == DType::kU8 ? *reinterpret_cast<const uint8_t*>(byte)
                                      : *reinterpret_cast<const int8_t*>(byte);
  }
  // For `rows` rows from r on: the row's number in `how`, which each column multiplies by its `times`. The
  // rows lie along the innermost loop of group m from pos on.
  void OfRows(const Requantisation& how, int64_t* pos, const int64_t* row_sums, int64_t r, int rows,
              uint32_t* numbers) const {
    if (how.row_sum >= 0) {
      const int64_t times = NumberOf(how.row_sum, pos);
      for (int i = 0; i < rows; ++i) numbers[i] = static_cast<uint32_t>(times * SumOf(row_sums, r + i));
      return;
    }
    const int inner = part_.nest.first[2] - 1;
    int64_t* number = reinterpret_cast<int64_t*>(w_.scratch + part_.lanes_at);
    for (int i = 0; i < rows; ++i, ++pos[inner]) {
      LoadLanes(*how.row, w_, pos, 1, number);
      numbers[i] = static_cast<uint32_t>(*number);
    }
    pos[inner] -= rows;
  }

  // Computes the per-column inputs of the requantisations, for the tile at pos.
  void LoadColumns(const int64_t* pos, int n) {
    TapeFrame frame;
    frame.worker = &w_;
    RunTape(part_.of_columns, frame, pos, n);
    for (int j = 0; j < part_.num_rhs; ++j) {
      const Requantisation& how = part_.sums[j];
      Narrow(Register<int64_t>(how.correction), n, Corrections(j));
      if (how.times != kNoRegister) Narrow(Register<int64_t>(how.times), n, Times(j));
    }
  }
  template <typename T>
  const T* Register(uint32_t at) const {
    return at == kNoRegister ? nullptr : reinterpret_cast<const T*>(RegisterOf(part_.of_columns, w_, at));
  }

  void Requantise(int64_t* pos, int64_t row, int64_t rows, int n, const int64_t* row_sums) {
    const Nest& nest = part_.nest;
    const int inner = nest.first[2] - 1;
    for (int j = 0; j < part_.num_rhs && !Stopped(w_); ++j) {
      const Requantisation& how = part_.sums[j];
      if (how.out == nullptr) continue;  // a row sum
      RequantisedRows some = OfColumns(j, n);
      for (int i = 0; i < how.out->num_loops; ++i) {
        if (how.out->loop[i] == inner) some.out_row = how.out->step[i] * how.out->size;
      }
      Decode(nest, nest.first[1], nest.first[2], row, pos);
      for (int64_t r = 0; r < rows; r += some.rows) {
        some.rows = static_cast<int>(
            Least<int64_t>(kMostRequantised, Least(rows - r, nest.extent[inner] - pos[inner])));
        some.out = Pointer(*how.out, w_, BaseOf(*how.out, pos));
        RequantiseRun(j, r, pos, row_sums, &some);
        if (how.table != nullptr) LookUpRows(how, some);
        pos[inner] += some.rows - 1;
        Advance(nest, nest.first[1], nest.first[2], pos);
      }
    }
  }
  // The fields that are the same for all rows.
  RequantisedRows OfColumns(int j, int n) const {
    const Requantisation& how = part_.sums[j];
    RequantisedRows some;
    some.sums_row = part_.acc_row;
    some.less = Corrections(j);
    some.before = Register<float>(how.before);
    some.factor = Register<float>(how.factor);
    some.after = Register<float>(how.after);
    if (some.factor == nullptr) some.factor = reinterpret_cast<const float*>(w_.scratch + part_.ones_at);
    if (some.after == nullptr) some.after = reinterpret_cast<const float*>(w_.scratch + part_.zeros_at);
    some.columns = n;
    const bool alike =
        how.times == kNoRegister || AllSame(Times(j), n);  // all columns take the same of a row
    some.times = alike ? nullptr : Times(j);
    return some;
  }
  // Requantises rows [r, r + some->rows) of rhs j, along the innermost loop of group m from pos on.
  void RequantiseRun(int j, int64_t r, int64_t* pos, const int64_t* row_sums, RequantisedRows* some) const {
    const Requantisation& how = part_.sums[j];
    uint32_t more[kMostRequantised] = {}, numbers[kMostRequantised];
    for (int i = 0; part_.right_flip[j] != 0 && i < some->rows; ++i) more[i] = More(j, row_sums, r + i);
    if (how.of_row()) OfRows(how, pos, row_sums, r, some->rows, numbers);
    if (how.of_row() && some->times == nullptr) {
      const uint32_t times = how.times == kNoRegister ? 1 : static_cast<uint32_t>(*Times(j));
      for (int i = 0; i < some->rows; ++i) more[i] -= numbers[i] * times;
    }
    some->more = more;
    some->row = numbers;
    some->sums = Acc(j) + r * part_.acc_row;
    part_.requantise(how, *some);
  }
  void LookUpRows(const Requantisation& how, const RequantisedRows& rows) const {
    auto* out = reinterpret_cast<uint8_t*>(rows.out);
    if (rows.out_row == rows.columns || rows.rows == 1)
      return part_.look_up(how.table, out, int64_t{1} * rows.rows * rows.columns, out);
    for (int m = 0; m < rows.rows; ++m, out += rows.out_row) part_.look_up(how.table, out, rows.columns, out);
  }

  // The output, if the epilogue only stores the floats and each column of it is contiguous along the
  // innermost loop of group m; otherwise null.
  const Access* Columns() const {
    const Program& program = part_.epilogue;
    if (part_.sums == nullptr || program.num_body != program.num_same + 2) return nullptr;
    const Inst &sums = program.body[program.num_same], &store = program.body[program.num_same + 1];
    if (sums.kind != InstKind::kAcc || store.kind != InstKind::kStore || store.a != sums.out) return nullptr;
    const Access& to = *store.access;
    if (!to.plain || to.dtype != DType::kF32 || part_.row_sum[sums.arg]) return nullptr;
    const int inner = part_.nest.first[2] - 1, across = part_.nest.first[3] - 1;
    bool along = false, columns = part_.nest.first[2] == across;
    for (int i = 0; i < to.num_loops; ++i) {
      along |= to.loop[i] == inner && to.step[i] == 1;
      columns &= to.loop[i] != across || to.step[i] != 1;
    }
    return along && columns && part_.nest.extent[inner] >= kWidth ? &to : nullptr;
  }
  void RunColumns(const Access& to, int64_t* pos, int64_t row, int64_t rows, int n, const int64_t* row_sums) {
    const Nest& nest = part_.nest;
    const int inner = nest.first[2] - 1, across = nest.first[3] - 1;
    const int right = part_.epilogue.body[part_.epilogue.num_same].arg;
    int64_t step = 0;
    for (int i = 0; i < to.num_loops; ++i) step = to.loop[i] == across ? to.step[i] : step;
    alignas(64) float floats[kRowsTransposed * kLanes];
    RequantisedRows some = OfColumns(right, n);
    some.out_row = kLanes * static_cast<int64_t>(sizeof(float));
    Decode(nest, nest.first[1], nest.first[2], row, pos);
    for (int64_t r = 0; r < rows && !Stopped(w_); r += some.rows) {
      some.rows =
          static_cast<int>(Least<int64_t>(kRowsTransposed, Least(rows - r, nest.extent[inner] - pos[inner])));
      some.out = reinterpret_cast<char*>(floats);
      RequantiseRun(right, r, pos, row_sums, &some);
      StoreTransposed(floats, some.rows, n, FloatsOf(to, pos), step);
      pos[inner] += some.rows - 1;
      Advance(nest, nest.first[1], nest.first[2], pos);
    }
  }

  // Runs the epilogue as a FloatTail.
  void RunTail(int64_t* pos, int64_t row, int64_t rows, int n, const int64_t* row_sums) {
    const Nest& nest = part_.nest;
    const FloatTail& tail = part_.tail;
    const int inner = nest.first[2] - 1;
    const int64_t out_row = nest.points[2];
    RequantisedRows some = OfColumns(tail.right, n);
    Decode(nest, nest.first[1], nest.first[2], row, pos);
    float* memory[kMostTail] = {};
    for (uint32_t i = 0; i < tail.count; ++i) {
      if (tail.body[i].kind == InstKind::kLoad) memory[i] = FloatsOf(*tail.body[i].access, pos);
    }
    float* const out = FloatsOf(*tail.out, pos);
    float* const beside =
        reinterpret_cast<float*>(w_.scratch + part_.wide_at + tail.right * part_.wide_stride);
    const int64_t most = tail.loads ? Least<int64_t>(kMostRequantised, 2 * kLanes / n) : kMostRequantised;
    for (int64_t r = 0; r < rows && !Stopped(w_); r += some.rows) {
      some.rows = static_cast<int>(Least(most, Least(rows - r, nest.extent[inner] - pos[inner])));
      const int64_t step = tail.loads ? n : out_row;
      float* const floats = tail.loads ? beside : out + r * out_row;
      some.out = reinterpret_cast<char*>(floats);
      some.out_row = step * static_cast<int64_t>(sizeof(float));
      RequantiseRun(tail.right, r, pos, row_sums, &some);
      if (n == out_row) {
        RunOver(floats, memory, out, r * out_row, int64_t{1} * some.rows * n);
      } else {
        for (int m = 0; m < some.rows; ++m) RunOver(floats + m * step, memory, out, (r + m) * out_row, n);
      }
      pos[inner] += some.rows - 1;
      Advance(nest, nest.first[1], nest.first[2], pos);
    }
  }
  float* FloatsOf(const Access& access, const int64_t* pos) const {
    return reinterpret_cast<float*>(Pointer(access, w_, BaseOf(access, pos)));
  }
  // Runs the tail over `count` floats. Results begin at element `at` of `out`, and each load's memory at its
  // element `at`.
  void RunOver(float* floats, float* const* memory, float* out, int64_t at, int64_t count) {
    const FloatTail& tail = part_.tail;
    const Program& program = part_.epilogue;
    char* const registers = w_.scratch + program.registers_at;
    char** const table = reinterpret_cast<char**>(w_.scratch + program.table_at);
    const uint32_t shift = program.slot_shift;
    for (int64_t done = 0; done < count; done += kLanes) {
      const int lanes = static_cast<int>(Least<int64_t>(kLanes, count - done));
      const size_t bytes = static_cast<size_t>(lanes) * sizeof(float);
      const bool whole = lanes % 16 == 0;  // operations compute whole vectors
      char* const result = reinterpret_cast<char*>(out + at + done);
      for (uint32_t i = 0; i < tail.count; ++i) {
        const Inst& inst = tail.body[i];
        char*& place = table[inst.out >> shift];
        if (inst.kind == InstKind::kOp) {
          char* const to = whole && i + 1 == tail.count ? result : registers + inst.out;
          inst.fn({to, table[inst.a >> shift], table[inst.b >> shift], table[inst.c >> shift]}, inst, lanes);
          place = to;
          continue;
        }
        const bool sums = inst.kind == InstKind::kAcc;
        char* const from = reinterpret_cast<char*>(sums ? floats + done : memory[i] + at + done);
        place = whole ? from : registers + inst.out;
        if (!whole) std::memcpy(place, from, bytes);
      }
      if (!whole) std::memcpy(result, registers + tail.body[tail.count - 1].out, bytes);
    }
  }

  // Converts `count` rows of rhs j, from row r at pos on, to adjacent rows of floats.
  void ToFloats(int j, int64_t r, int64_t count, int64_t* pos, int n, const int64_t* row_sums,
                char* to) const {
    RequantisedRows some = OfColumns(j, n);
    some.out_row = n * static_cast<int64_t>(sizeof(float));
    for (int64_t i = 0; i < count; i += some.rows) {
      some.rows = static_cast<int>(Least<int64_t>(kMostRequantised, count - i));
      some.out = to + i * some.out_row;
      pos[part_.nest.first[2] - 1] += i;
      RequantiseRun(j, r + i, pos, row_sums, &some);
      pos[part_.nest.first[2] - 1] -= i;
    }
  }

  // Converts the sums of row r to i64, unscaled.
  void ToWhole(int j, int64_t r, int n, const int64_t* row_sums, int64_t* to) const {
    const int32_t *const sums = Acc(j) + r * part_.acc_row, *const less = Corrections(j);
    const uint32_t more = More(j, row_sums, r);
#pragma GCC ivdep
    for (int c = 0; c < n; ++c)
      to[c] = static_cast<int32_t>(static_cast<uint32_t>(sums[c]) + more - static_cast<uint32_t>(less[c]));
  }

  const SumsPart& part_;
  Worker& w_;
};

}  // namespace rondo::host::RONDO_ISA
