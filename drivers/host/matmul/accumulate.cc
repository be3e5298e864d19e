// Matmuls and pools of any operands: lanes along n, one step of k at a time.
#include "core/scalar.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host::RONDO_ISA {
namespace {

template <TapeOp kOp, typename T>
[[gnu::flatten]] void PoolLanes(const T* x, const uint8_t* mask, int n, T* acc) {
  if (mask == nullptr) {
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) acc[i] = scalar::ReduceStep<T>(kOp, acc[i], x[i]);
    return;
  }
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) {
    const T next = scalar::ReduceStep<T>(kOp, acc[i], x[i]);
    acc[i] = mask[i] != 0 ? next : acc[i];
  }
}

// Adds the present lanes of one input tile to the pool.
template <typename T>
void PoolStep(Combine combine, const T* x, const uint8_t* mask, int n, T* acc, double* count) {
  if (combine == Combine::kMax) return PoolLanes<TapeOp::kReduceMax>(x, mask, n, acc);
  PoolLanes<TapeOp::kReduceSum>(x, mask, n, acc);
  if (combine != Combine::kMean) return;
  for (int i = 0; i < n; ++i) count[i] += mask == nullptr ? 1 : mask[i];
}

template <typename T>
void Pool(const AccumulatePart& part, Worker& w, int64_t* pos, int n) {
  const Nest& nest = part.nest;
  const Access& input = *part.rhs[0].by_n;
  T* acc = reinterpret_cast<T*>(w.scratch + part.acc_at);
  double* count = reinterpret_cast<double*>(w.scratch + part.count_at);
  char* temp = w.scratch + part.temp_at;
  const T start = part.combine == Combine::kMax ? scalar::ReduceStart<T>(TapeOp::kReduceMax) : T(0);
  for (int i = 0; i < n; ++i) {
    acc[i] = start;
    count[i] = 0;
  }
  const TapeType type = NaturalType(input.dtype);
  for (int64_t k = 0; k < nest.points[3] && !Stopped(w); ++k) {
    const uint8_t* mask = nullptr;
    const Presence presence = LoadGuarded(input, w, pos, n, temp, 0, &mask);
    Advance(nest, nest.first[3], nest.first[4], pos);
    if (presence == Presence::kNone) continue;
    T* x = reinterpret_cast<T*>(temp);
    if (type == TapeType::kF32 && sizeof(T) == 8) {  // widens in place, from the last lane on
      for (int i = n - 1; i >= 0; --i) x[i] = scalar::Convert<T>(reinterpret_cast<float*>(temp)[i]);
    } else if (type == TapeType::kF64 && !std::is_same_v<T, double>) {
      for (int i = 0; i < n; ++i) {
        double v;
        std::memcpy(&v, temp + i * 8, 8);
        const T c = scalar::Convert<T>(v);
        std::memcpy(temp + i * static_cast<int>(sizeof(T)), &c, sizeof(T));
      }
    } else if (type == TapeType::kI64 && !scalar::kIsInt<T>) {
      for (int i = 0; i < n; ++i) {
        int64_t v;
        std::memcpy(&v, temp + i * 8, 8);
        const T c = scalar::Convert<T>(v);
        std::memcpy(temp + i * static_cast<int>(sizeof(T)), &c, sizeof(T));
      }
    }
    PoolStep<T>(part.combine, x, mask, n, acc, count);
  }
  if (part.combine != Combine::kMean) return;
  for (int i = 0; i < n; ++i)
    acc[i] = count[i] > 0 ? static_cast<T>(acc[i] / static_cast<T>(count[i])) : T(0);
}

}  // namespace

void RunAccumulate(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const AccumulatePart& part = static_cast<const AccumulatePart&>(base);
  const Nest& nest = part.nest;
  const int64_t rows = nest.points[1], tiles = part.tiling.tiles;
  TapeFrame step, frame;
  step.worker = frame.worker = &w;
  frame.acc = w.scratch + part.acc_at;
  frame.acc_stride = part.acc_stride;
  frame.acc_size = part.acc_type == TapeType::kF32 ? 4 : 8;
  BeginTape(part.step, w);
  BeginTape(part.epilogue, w);
  int64_t pos[kMaxNest] = {};
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    Decode(nest, nest.first[1], nest.first[2], task / tiles % rows, pos);
    Decode(nest, 0, nest.first[1], task / tiles / rows, pos);
    for (int d = nest.first[3]; d < nest.first[4]; ++d) pos[d] = 0;
    if (!part.pool) {
      for (int j = 0; j < part.num_rhs; ++j) {
        std::memset(w.scratch + part.acc_at + j * part.acc_stride, 0,
                    static_cast<size_t>(part.step.slot_bytes));
      }
      for (int64_t k = 0; k < nest.points[3] && !Stopped(w); ++k) {
        RunTape(part.step, step, pos, n);
        Advance(nest, nest.first[3], nest.first[4], pos);
      }
    } else {
      switch (part.acc_type) {
        case TapeType::kF32: Pool<float>(part, w, pos, n); break;
        case TapeType::kF64: Pool<double>(part, w, pos, n); break;
        case TapeType::kI64: Pool<int64_t>(part, w, pos, n); break;
      }
    }
    RunTape(part.epilogue, frame, pos, n);
  }
}

}  // namespace rondo::host::RONDO_ISA
