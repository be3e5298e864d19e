// Instructions of tensor cores: ldmatrix, stmatrix, mma.sync of a warp, wgmma of four. Fragments are as in
// PTX's manual: of lane l, g = l / 4 and t = l % 4. Products are exact; an instruction adds them in double
// and rounds once to f32.
#include <cmath>

#include "tests/cuda/emulated/ptx_thread.h"
#include "tests/cuda/fake/tensor_map.h"

namespace rondo::emulated {
namespace {

enum class Type { kF16, kBf16, kTf32, kS8, kU8, kE4M3, kE5M2 };

// Element `k` of a register that holds several.
double Element(uint64_t word, int k, Type type) {
  const auto bits = static_cast<uint32_t>(word);
  switch (type) {
    case Type::kF16:
    case Type::kBf16: return WidenHalf(static_cast<uint16_t>(bits >> (16 * k)), type == Type::kBf16);
    case Type::kS8: return static_cast<int8_t>(bits >> (8 * k));
    case Type::kU8: return static_cast<uint8_t>(bits >> (8 * k));
    case Type::kE4M3: return WidenFp8(static_cast<uint8_t>(bits >> (8 * k)), false);
    case Type::kE5M2: return WidenFp8(static_cast<uint8_t>(bits >> (8 * k)), true);
    case Type::kTf32: break;
  }
  const uint32_t kept = bits & ~0x1fffu;  // tensor cores ignore the other bits
  float value;
  std::memcpy(&value, &kept, sizeof value);
  return value;
}

// The accumulator's value: d and c are the same operand.
float FloatAt(const simt::Operand& operand) {
  float value;
  std::memcpy(&value, operand.to, sizeof value);
  return value;
}

// ---- ldmatrix: four 8 x 8 matrices of 16 bits; lane l gives the address of row l.
void LoadMatrices(PtxThread& t, const PtxStatement& s) {
  SimtMachine& machine = t.machine;
  Warp& warp = *machine.current().warp;
  const uint32_t own = machine.current().lane;
  warp.operands[own] = t.operands;
  if (!machine.Meet(t.text, "ldmatrix", ~0u)) return;
  const std::vector<PtxArgument>& to = s.arguments[0].inside;
  const PtxArgument& address = s.arguments[1].inside[0];
  uint16_t rows[32][8];
  for (uint32_t row = 0; row < 8 * to.size(); ++row) {
    const auto at = static_cast<uint32_t>(t.Of(row, address).value);
    if (at % 16 != 0) return machine.Fail("ldmatrix from a shared address that is no multiple of 16");
    std::memcpy(rows[row], machine.Shared(at, 16), 16);
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, two = lane % 4 * 2;
    for (uint32_t m = 0; m < to.size(); ++m) {
      const uint32_t low = s.Has("trans") ? rows[8 * m + two][g] : rows[8 * m + g][two];
      const uint32_t high = s.Has("trans") ? rows[8 * m + two + 1][g] : rows[8 * m + g][two + 1];
      Write(t.Of(lane, to[m]), high << 16 | low);
    }
  }
  machine.Part(~0u);
}

// ---- stmatrix: the other way round.
void StoreMatrices(PtxThread& t, const PtxStatement& s) {
  SimtMachine& machine = t.machine;
  machine.current().warp->operands[machine.current().lane] = t.operands;
  if (!machine.Meet(t.text, "stmatrix", ~0u)) return;
  const PtxArgument& address = s.arguments[0].inside[0];
  const std::vector<PtxArgument>& from = s.arguments[1].inside;
  for (uint32_t row = 0; row < 8 * from.size(); ++row) {
    const auto at = static_cast<uint32_t>(t.Of(row, address).value);
    if (at % 16 != 0) return machine.Fail("stmatrix to a shared address that is no multiple of 16");
    uint32_t words[4];
    for (uint32_t two = 0; two < 4; ++two)
      words[two] = static_cast<uint32_t>(t.Of(row % 8 * 4 + two, from[row / 8]).value);
    std::memcpy(machine.Shared(at, 16), words, 16);
  }
  machine.Part(~0u);
}

// ---- mma.sync: d (16 x 8) = a (16 x K) * b (K x 8) + d.
struct Shape {
  Type a, b;
  int k;     // extent
  int each;  // elements of a register
};

Shape ShapeOf(const PtxStatement& s) {
  if (s.Has("m16n8k8")) return {Type::kTf32, Type::kTf32, 8, 1};
  if (s.Has("m16n8k16")) {
    const Type type = s.Has("bf16") ? Type::kBf16 : Type::kF16;
    return {type, type, 16, 2};
  }
  if (s.Has("e4m3") || s.Has("e5m2")) {  // ".f32.e4m3.e5m2.f32"
    const size_t at = s.op.find(".f32.") + 6;
    auto fp8 = [&](size_t from) { return s.op[from] == '4' ? Type::kE4M3 : Type::kE5M2; };
    return {fp8(at), fp8(at + 5), 32, 4};
  }
  // ".s32.s8.u8.s32": the types of A and B.
  const size_t at = s.op.find(".s32.") + 5;
  auto type = [&](size_t from) { return s.op[from] == 's' ? Type::kS8 : Type::kU8; };
  return {type(at), type(at + 3), 32, 4};
}

void Mma(PtxThread& t, const PtxStatement& s) {
  SimtMachine& machine = t.machine;
  Warp& warp = *machine.current().warp;
  warp.operands[machine.current().lane] = t.operands;
  if (!machine.Meet(t.text, "mma.sync", ~0u)) return;
  const Shape shape = ShapeOf(s);
  const bool whole = shape.a == Type::kS8 || shape.a == Type::kU8;
  const std::vector<PtxArgument>&d = s.arguments[0].inside, &a = s.arguments[1].inside,
        &b = s.arguments[2].inside;
  double left[16][32], right[32][8];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const int g = static_cast<int>(lane / 4), quarter = static_cast<int>(lane % 4);
    for (int r = 0; r < 4; ++r) {  // rows g and g + 8, then the second half of K
      for (int e = 0; e < shape.each; ++e)
        left[g + r % 2 * 8][r / 2 * (shape.k / 2) + quarter * shape.each + e] =
            Element(t.Of(lane, a[r]).value, e, shape.a);
    }
    for (int r = 0; r < 2; ++r) {
      for (int e = 0; e < shape.each; ++e)
        right[r * (shape.k / 2) + quarter * shape.each + e][g] = Element(t.Of(lane, b[r]).value, e, shape.b);
    }
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < 4; ++r) {
      const int row = static_cast<int>(lane / 4) + r / 2 * 8, column = static_cast<int>(lane % 4) * 2 + r % 2;
      double sum = 0;
      for (int k = 0; k < shape.k; ++k) sum += left[row][k] * right[k][column];
      const simt::Operand& to = t.Of(lane, d[r]);
      if (whole) {
        int32_t c;
        std::memcpy(&c, to.to, sizeof c);
        Write(to, static_cast<uint32_t>(c + static_cast<int32_t>(sum)));
      } else {
        const auto result = static_cast<float>(sum + static_cast<double>(FloatAt(to)));
        uint32_t bits;
        std::memcpy(&bits, &result, sizeof bits);
        Write(to, bits);
      }
    }
  }
  machine.Part(~0u);
}

// ---- wgmma: d (64 x N) += a (64 x K) * b (K x N), by four warps. It may run at any time until a warp waits.
// K is 32 bytes: 16 numbers of 16 bits, or 32 of 8.

// A matrix in shared memory, as its descriptor states: its begin, the bytes between panels of 64 columns, the
// bytes between groups of eight lines. Lines have 128 bytes, swizzled.
struct Matrix {
  uint32_t begin, panel, group;
};
Matrix MatrixOf(uint64_t descriptor) {
  return {static_cast<uint32_t>(descriptor & 0x3fff) << 4,
          static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4,
          static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4};
}

bool IsWhole(Type type) { return type == Type::kS8 || type == Type::kU8; }
int BytesOf(Type type) { return IsWhole(type) || type == Type::kE4M3 || type == Type::kE5M2 ? 1 : 2; }

// Element (row, k) of a matrix whose lines run along K, or along its rows (`across`).
double At(SimtMachine& machine, const Matrix& matrix, uint32_t block, int row, int k, bool across,
          Type type) {
  const auto r = static_cast<uint32_t>(row), c = static_cast<uint32_t>(k),
             bytes = static_cast<uint32_t>(BytesOf(type));
  const uint32_t offset = across ? r / 64 * matrix.panel + c / 8 * matrix.group + c % 8 * 128 + r % 64 * 2
                                 : r / 8 * matrix.group + r % 8 * 128 + c * bytes;
  const uint32_t address = fake_cuda::Swizzled(matrix.begin + offset, 128) | block << kBlockShift;
  uint16_t bits = 0;
  std::memcpy(&bits, machine.Shared(address, bytes), bytes);
  return Element(bits, 0, type);
}

struct Wgmma {
  Type a, b;
  bool a_across, b_across, a_in_registers, adds;
  int n;
  uint32_t block;                                    // the block's rank in the cluster
  std::vector<std::vector<simt::Operand>> operands;  // of 128 threads
  PtxStatement statement;
};

// ".f32.bf16.bf16", ".s32.u8.s8": the types of A and B behind that of d.
void SetTypes(const PtxStatement& s, Wgmma* w) {
  w->a = w->b = s.Has("bf16") ? Type::kBf16 : Type::kF16;
  if (s.Has("e4m3") || s.Has("e5m2")) {
    const size_t first = s.op.find(".f32.") + 6;
    w->a = s.op[first] == '4' ? Type::kE4M3 : Type::kE5M2;
    w->b = s.op[first + 5] == '4' ? Type::kE4M3 : Type::kE5M2;
  }
  const size_t at = s.op.find(".s32.");
  if (at == std::string::npos) return;
  w->a = s.op[at + 5] == 's' ? Type::kS8 : Type::kU8;
  w->b = s.op[at + 8] == 's' ? Type::kS8 : Type::kU8;
}

// Adds `sum` to one element of d, or replaces it.
void AddTo(const simt::Operand& to, double sum, bool adds, bool whole) {
  if (whole) {
    int32_t before = 0;
    if (adds) std::memcpy(&before, to.to, sizeof before);
    const int32_t result = before + static_cast<int32_t>(sum);
    std::memcpy(to.to, &result, sizeof result);
  } else {
    const auto result = static_cast<float>(sum + (adds ? static_cast<double>(FloatAt(to)) : 0));
    std::memcpy(to.to, &result, sizeof result);
  }
}

void RunWgmma(SimtMachine& machine, const Wgmma& w) {
  const std::vector<PtxArgument>& d = w.statement.arguments[0].inside;
  const PtxArgument &a = w.statement.arguments[1], &b = w.statement.arguments[2];
  const int each = 4 / BytesOf(w.a), extent = 8 * each;  // elements of a register; of K
  const auto k_extent = static_cast<size_t>(extent);
  std::vector<float> left(64 * k_extent), right(k_extent * static_cast<size_t>(w.n));
  if (w.a_in_registers) {
    for (int thread = 0; thread < 128; ++thread) {
      const int g = thread % 32 / 4, t = thread % 4, first = thread / 32 * 16;
      for (int r = 0; r < 4; ++r) {
        const uint64_t word = w.operands[thread][a.inside[r].number].value;
        for (int e = 0; e < each; ++e)
          left[(first + g + r % 2 * 8) * k_extent + r / 2 * (extent / 2) + t * each + e] =
              static_cast<float>(Element(word, e, w.a));
      }
    }
  } else {
    const Matrix matrix = MatrixOf(w.operands[0][a.number].value);
    for (int row = 0; row < 64; ++row) {
      for (int k = 0; k < extent; ++k)
        left[row * k_extent + k] = static_cast<float>(At(machine, matrix, w.block, row, k, w.a_across, w.a));
    }
  }
  const Matrix matrix = MatrixOf(w.operands[0][b.number].value);
  for (int n = 0; n < w.n; ++n) {
    for (int k = 0; k < extent; ++k)
      right[static_cast<size_t>(k) * w.n + n] =
          static_cast<float>(At(machine, matrix, w.block, n, k, w.b_across, w.b));
  }
  std::vector<double> sums(w.n);
  for (int row = 0; row < 64; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int k = 0; k < extent; ++k) {
      const double x = left[row * k_extent + k];
      const float* from = &right[static_cast<size_t>(k) * w.n];
      for (int n = 0; n < w.n; ++n) sums[n] += x * static_cast<double>(from[n]);
    }
    const int first = row / 16 * 32 + row % 8 * 4, upper = row % 16 / 8 * 2;  // threads of the row; registers
    for (int n = 0; n < w.n; ++n)
      AddTo(w.operands[first + n % 8 / 2][d[n / 8 * 4 + upper + n % 2].number], sums[n], w.adds,
            IsWhole(w.a));
  }
}

void BeginWgmma(PtxThread& t, const PtxStatement& s) {
  SimtMachine& machine = t.machine;
  Thread& thread = machine.current();
  const uint32_t number = thread.view.thread.x, own = number % 128;
  Warpgroup& group = thread.block->groups[number / 128];
  if (group.came == 0) group.what = t.text;
  if (group.what != t.text)
    return machine.Fail("wgmma while other warps of the warpgroup are at another one");
  group.operands[own].assign(t.operands, t.operands + t.count);
  ++thread.wgmma_begun;
  if (++group.came < 128) {
    machine.WaitFor({"wgmma", &group.met, group.met, 0, false});
    return;
  }
  group.came = 0;
  ++group.met;
  Wgmma w;
  SetTypes(s, &w);
  w.a_in_registers = s.arguments[1].kind == PtxArgument::kList;
  w.n = static_cast<int>(s.arguments[0].inside.size()) * 2;
  w.block = thread.block->rank;
  // After the descriptors come: whether to add to d, signs, then which matrices are transposed.
  auto flag = [&](size_t k) { return k < s.arguments.size() && t.Get(s.arguments[k]) != 0; };
  w.a_across = !w.a_in_registers && flag(6);
  w.b_across = flag(w.a_in_registers ? 6 : 7);
  w.operands = group.operands;
  w.statement = s;
  w.adds = flag(3);
  auto run = [&machine, w = std::move(w)] { RunWgmma(machine, w); };
  if (machine.late()) {
    group.begun.push_back(std::move(run));
  } else {
    run();
    ++group.run;
  }
}
void CommitWgmma(PtxThread& t, const PtxStatement&) {
  Thread& thread = t.machine.current();
  thread.wgmma_groups.push_back(thread.wgmma_begun);
}
void WaitWgmma(PtxThread& t, const PtxStatement& s) {
  Thread& thread = t.machine.current();
  Warpgroup& group = thread.block->groups[thread.view.thread.x / 128];
  while (thread.wgmma_groups.size() > t.Word(s.arguments[0])) {
    while (group.run < thread.wgmma_groups.front()) {
      const std::function<void()> run = std::move(group.begun.front());
      group.begun.pop_front();
      ++group.run;
      run();
    }
    thread.wgmma_groups.pop_front();
  }
}
void Fence(PtxThread&, const PtxStatement&) {}

}  // namespace

const PtxRow kMatrixInstructions[] = {
    {"ldmatrix.sync.aligned.m8n8.x4", LoadMatrices},
    {"stmatrix.sync.aligned.m8n8.x4", StoreMatrices},
    {"mma.sync.aligned.m16n8k8", Mma},
    {"mma.sync.aligned.m16n8k16", Mma},
    {"mma.sync.aligned.m16n8k32", Mma},
    {"wgmma.fence", Fence},
    {"wgmma.mma_async", BeginWgmma},
    {"wgmma.commit_group", CommitWgmma},
    {"wgmma.wait_group", WaitWgmma},
    {nullptr, nullptr},
};

}  // namespace rondo::emulated
