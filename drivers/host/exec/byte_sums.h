// Sums of products of bytes on their way to the epilogue: as 32 bits, in rows of accumulators, with what they
// are too large by.
#ifndef RONDO_DRIVERS_HOST_EXEC_BYTE_SUMS_H_
#define RONDO_DRIVERS_HOST_EXEC_BYTE_SUMS_H_

#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {

// One part in one launch. Scratch: acc_at, temp_at, rhs_at (wide_stride a right side) and correction_at.
class ByteSums {
 public:
  ByteSums(const PartProgram& part, Worker& w) : part_(part), bytes_(*part.bytes), w_(w) {
    if (bytes_.requantise == nullptr) return;
    BeginTape(bytes_.of_columns, w);
    std::memset(w.scratch + bytes_.zeros_at, 0, kLanes * sizeof(float));
  }

  int32_t* Acc(int j) const {
    return reinterpret_cast<int32_t*>(w_.scratch + part_.acc_at + j * part_.acc_stride);
  }

  // What each column's sums are too large by: what the epilogue says, for the n columns of the tile at pos.
  void LoadCorrections(const int64_t* pos, int n) {
    if (bytes_.requantise != nullptr) return LoadColumns(pos, n);
    int64_t* lanes = reinterpret_cast<int64_t*>(w_.scratch + part_.temp_at);
    for (int j = 0; j < part_.num_rhs; ++j) {
      if (bytes_.correction[j] != nullptr) LoadLanes(*bytes_.correction[j], w_, pos, n, lanes);
      Narrow(bytes_.correction[j] != nullptr ? lanes : nullptr, n, Corrections(j));
    }
  }
  // And by `more`.
  void Correct(int j, const int32_t* more, int n) {
    int32_t* less = Corrections(j);
    for (int i = 0; i < n; ++i)
      less[i] = static_cast<int32_t>(static_cast<uint32_t>(less[i]) + static_cast<uint32_t>(more[i]));
  }

  // Runs the epilogue of rows [row, row + rows) of group m over the n lanes of the tile at pos. Row r of the
  // accumulators is too small by row_sums[r] where the right side is flipped.
  void RunEpilogue(int64_t* pos, int64_t row, int64_t rows, int n, const int64_t* row_sums) {
    if (bytes_.requantise != nullptr) return Requantise(pos, row, rows, n, row_sums);
    const Nest& nest = part_.nest;
    const int inner = nest.first[2] - 1;
    TapeFrame frame;
    frame.worker = &w_;
    frame.acc = w_.scratch + part_.rhs_at;
    frame.acc_stride = bytes_.wide_stride;
    Decode(nest, nest.first[1], nest.first[2], row, pos);
    for (int64_t r = 0; r < rows;) {
      const int64_t count = part_.epilogue_rows == 1 ? 1
                                                     : Least(Least(part_.epilogue_rows, rows - r),
                                                             nest.extent[inner] - pos[inner]);
      for (int j = 0; j < part_.num_rhs; ++j) {
        char* wide = w_.scratch + part_.rhs_at + j * bytes_.wide_stride;
        for (int64_t i = 0; i < count; ++i) {
          const uint32_t more = More(j, row_sums, r + i);
          if (bytes_.float_sums) {
            Convert(j, r + i, more, n, reinterpret_cast<float*>(wide) + i * n);
          } else {
            Convert(j, r + i, more, n, reinterpret_cast<int64_t*>(wide) + i * n);
          }
        }
      }
      RunTape(part_.program, frame, pos, static_cast<int>(count) * n);
      r += count;
      pos[inner] += count - 1;
      Advance(nest, nest.first[1], nest.first[2], pos);
    }
  }

 private:
  int32_t* Corrections(int j) const {
    return reinterpret_cast<int32_t*>(w_.scratch + bytes_.correction_at) + j * kLanes;
  }

  int32_t* Times(int j) const {
    return reinterpret_cast<int32_t*>(w_.scratch + bytes_.times_at) + j * kLanes;
  }
  static void Narrow(const int64_t* from, int n, int32_t* to) {
    for (int i = 0; i < n; ++i) to[i] = from == nullptr ? 0 : static_cast<int32_t>(from[i]);
  }

  // What all sums of row r of right side j are too small by, modulo 2^32.
  uint32_t More(int j, const int64_t* row_sums, int64_t r) const {
    if (bytes_.right_flip[j] == 0) return 0;
    uint32_t more = row_sums == nullptr ? 0 : static_cast<uint32_t>(row_sums[r]);
    if (bytes_.left_flip != 0) more -= static_cast<uint32_t>(part_.nest.points[3]) << 14;
    return more;
  }

  // What requantisations read of the columns of the tile at pos.
  void LoadColumns(const int64_t* pos, int n) {
    TapeFrame frame;
    frame.worker = &w_;
    RunTape(bytes_.of_columns, frame, pos, n);
    for (int j = 0; j < part_.num_rhs; ++j) {
      const Requantisation& how = bytes_.requantise[j];
      Narrow(Register<int64_t>(how.correction), n, Corrections(j));
      if (how.row != nullptr) Narrow(Register<int64_t>(how.times), n, Times(j));
    }
  }
  template <typename T>
  const T* Register(uint32_t at) const {
    return at == kNoRegister ? nullptr : reinterpret_cast<const T*>(RegisterOf(bytes_.of_columns, w_, at));
  }

  void Requantise(int64_t* pos, int64_t row, int64_t rows, int n, const int64_t* row_sums) {
    const Nest& nest = part_.nest;
    for (int j = 0; j < part_.num_rhs && !Stopped(w_); ++j) {
      const Requantisation& how = bytes_.requantise[j];
      RequantisedRow one;
      one.sums = Acc(j);
      one.less = Corrections(j);
      one.times = how.row != nullptr ? Times(j) : nullptr;
      one.before = Register<float>(how.before);
      one.factor = Register<float>(how.factor);
      one.after = Register<float>(how.after);
      if (one.after == nullptr) one.after = reinterpret_cast<const float*>(w_.scratch + bytes_.zeros_at);
      one.columns = n;
      int64_t* number = reinterpret_cast<int64_t*>(w_.scratch + part_.temp_at);
      Decode(nest, nest.first[1], nest.first[2], row, pos);
      for (int64_t r = 0; r < rows; ++r) {
        one.more = More(j, row_sums, r);
        if (how.row != nullptr) {
          LoadLanes(*how.row, w_, pos, 1, number);
          one.row = static_cast<uint32_t>(*number);
        }
        one.out = Pointer(*how.out, w_, BaseOf(*how.out, pos));
        bytes_.requantise_row(how, one);
        one.sums += part_.acc_row;
        Advance(nest, nest.first[1], nest.first[2], pos);
      }
    }
  }

  // Sums of row r of right side j, less the corrections, and `more`. Modulo 2^32, as the sums.
  template <typename T>
  void Convert(int j, int64_t r, uint32_t more, int n, T* to) const {
    const int32_t* sums = Acc(j) + r * part_.acc_row;
    const int32_t* less = Corrections(j);
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) {
      const uint32_t sum = static_cast<uint32_t>(sums[i]) + more - static_cast<uint32_t>(less[i]);
      to[i] = static_cast<T>(static_cast<int32_t>(sum));
    }
  }

  const PartProgram& part_;
  const BytesProgram& bytes_;
  Worker& w_;
};

}  // namespace rondo::host::RONDO_ISA

#endif  // RONDO_DRIVERS_HOST_EXEC_BYTE_SUMS_H_
