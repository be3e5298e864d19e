// Matmuls with a short K (a point's coordinates, an image's colours, a layer on one channel): storing the
// results takes the time. A thread computes a block of them: neighbours along the loop by which results are
// contiguous, for several points of a second loop. What one of the loops does not move is read once. In f32,
// which no tensor core multiplies, a longer K pays as well if L1 holds a matrix (steps of Fourier
// transforms).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/tape_facts.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"elements", "vectors"};

struct ShortShape {
  size_t along = 0, across = 0;  // loops; equal if there is no second one
  int lanes = 1;                 // neighbours along the first
  int64_t rows = 1;              // points of the second
  size_t inner = 0;              // the loop of K that goes in steps of `deep`: vectors of factors that have
  int deep = 1;                  // the same element for all neighbours
};

// A, after its prologue, or one of the B.
struct Factor {
  std::string name;
  Tape tape;  // yields its element
  bool moves_along = false, moves_across = false;
};

bool AnyMoves(const Part& part, Tape tape, size_t loop) {
  return std::any_of(tape.begin(), tape.end(), [&](const TapeInst& inst) {
    return inst.op == TapeOp::kLoad    ? MovesAlong(part, part.operands[inst.arg], loop)
           : inst.op == TapeOp::kIndex ? inst.arg == loop
                                       : false;
  });
}

// A tape that yields the operand's element.
std::vector<TapeInst> LoadOf(const Part& part, uint16_t operand) {
  TapeInst load, yield;
  load.op = TapeOp::kLoad;
  load.type = NaturalType(part.operands[operand].dtype);
  load.arg = operand;
  yield.op = TapeOp::kYield;
  yield.type = load.type;
  return {load, yield};
}

// The factors of a part, which hold their tapes.
class Factors {
 public:
  Factors(const Part& part, const ShortShape& shape) {
    loads_.push_back(LoadOf(part, part.lhs));
    for (uint16_t index : part.rhs) loads_.push_back(LoadOf(part, index));
    for (size_t f = 0; f < loads_.size(); ++f) {
      const Tape load = {loads_[f].data(), loads_[f].size()};
      const Tape tape = f == 0 && !part.prologue.empty() ? part.prologue : load;
      all_.push_back(
          {"factor" + Text(f), tape, AnyMoves(part, tape, shape.along), AnyMoves(part, tape, shape.across)});
    }
  }
  const std::vector<Factor>& all() const { return all_; }

 private:
  std::vector<std::vector<TapeInst>> loads_;
  std::vector<Factor> all_;
};

// The vectors along K of factors that do not move with the neighbours; leaves the last loop if there are
// none.
void FindDeep(const PartContext& context, const Factors& factors, ShortShape* shape) {
  const Part& part = context.part;
  shape->inner = part.loops.size() - 1;
  const auto fits = [&](size_t loop, int deep) {
    bool any = false;
    for (const Factor& factor : factors.all()) {
      if (factor.moves_along) continue;
      for (size_t index : Touched(factor.tape, TapeOp::kLoad)) {
        if (!MovesAlong(part, part.operands[index], loop)) continue;
        any = true;
        if (!FitsLanes(context, index, loop, deep) || part.operands[index].absent != 0) return false;
      }
    }
    return any;
  };
  for (size_t l = static_cast<size_t>(EpilogueLoops(part)); l < part.loops.size(); ++l) {
    for (const int deep : {4, 2}) {
      if (deep <= shape->deep || !fits(l, deep)) continue;
      shape->inner = l;
      shape->deep = deep;
    }
  }
}

// The loops of a thread's block, with as many neighbours as results can be stored at once.
ShortShape LoopsOf(const PartContext& context) {
  const Part& part = context.part;
  const size_t first = static_cast<size_t>(EpilogueLoops(part));
  const std::vector<size_t> stored = Touched(part.epilogue, TapeOp::kStore);
  ShortShape shape;
  shape.along = ByStrideOfResult(part, first).back();
  for (size_t l = 0; l < first; ++l) {
    const int lanes = LanesFor(context, stored, l);
    if (lanes > shape.lanes) shape.along = l;
    shape.lanes = std::max(shape.lanes, lanes);
  }
  shape.across = shape.along;
  const Factors factors(part, shape);
  int64_t most = 1;
  for (size_t l = 0; l < first; ++l) {
    const bool shares = std::any_of(factors.all().begin(), factors.all().end(), [&](const Factor& factor) {
      return factor.moves_along && !AnyMoves(part, factor.tape, l);
    });
    if (l == shape.along || !shares || part.loops[l] <= most) continue;
    shape.across = l;
    most = part.loops[l];
  }
  FindDeep(context, factors, &shape);
  return shape;
}

// Whether a K beyond the short ones pays: in f32, where L1 holds what the neighbours of all threads read, and
// these store whole vectors (with pairs, a step of 18 columns and a K of 32 took 173 us instead of 64).
bool IsLongInF32(const PartContext& context, int64_t k) {
  constexpr int64_t kMostK = 32, kMostBytes = 32 << 10;
  constexpr int kVector = 4;
  const Part& part = context.part;
  const ShortShape shape = LoopsOf(context);
  return k <= kMostK && shape.lanes == kVector && part.skeleton == Skeleton::kMatMul && !part.tf32 &&
         part.prologue.empty() && part.operands[part.lhs].dtype == DType::kF32 &&
         part.operands[part.rhs[0]].dtype == DType::kF32 &&
         part.loops[shape.along] * k * ByteSize(DType::kF32) <= kMostBytes;
}

// Convolutions of groups read neighbouring pixels once by sliding windows (window_convolution.cc).
bool HasGroups(const Part& part) {
  constexpr size_t kGroups = 1;
  return part.skeleton == Skeleton::kConvolution && part.loops[kGroups] > 1;
}

bool Suits(const PartContext& context) {
  constexpr int64_t kMostK = 16;
  const Part& part = context.part;
  const size_t first = static_cast<size_t>(EpilogueLoops(part));
  if (part.acc_type != TapeType::kF32 || part.combine != Combine::kProduct || part.rhs.empty() ||
      part.rhs.size() > 2 || first == 0 || HasGroups(part))
    return false;
  const int64_t k = context.Points(first, part.loops.size());
  return k <= kMostK || IsLongInF32(context, k);
}

// Instructions of a tape for `lanes` neighbours: accesses as vectors where elements lie so.
double ShortInstructions(const PartContext& context, Tape tape, const ShortShape& shape, bool moves) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const double lanes = moves ? shape.lanes : 1;
  double instructions = 0;
  for (const TapeInst& inst : tape) {
    if (inst.op == TapeOp::kConst || inst.op == TapeOp::kAcc || inst.op == TapeOp::kYield) continue;
    if (inst.op != TapeOp::kLoad && inst.op != TapeOp::kStore) {
      const bool quick = HasQuickFunction(inst.op) && NeedsFewBits(context.part);
      instructions += lanes * (quick                                        ? gpu.quick_function
                               : AccuracyOf(inst.op) == Accuracy::kFunction ? gpu.element_function
                                                                            : 1);
    } else if (!MovesAlong(context.part, context.part.operands[inst.arg], shape.along)) {
      instructions += gpu.short_access / (moves ? 1 : shape.deep);
    } else if (FitsLanes(context, inst.arg, shape.along, shape.lanes)) {
      instructions += gpu.short_access + lanes;
    } else {
      const double guards = static_cast<double>(context.part.operands[inst.arg].guards.size());
      instructions += lanes * (gpu.short_access + guards * gpu.short_guard);
    }
  }
  return instructions;
}

// One loop as threads count it.
struct ThreadLoop {
  std::string name;
  int64_t extent = 1, each = 1;  // steps, and points of one
};

// Loops in the order in which neighbouring threads store neighbouring vectors, the last one fastest.
std::vector<ThreadLoop> ThreadLoops(const Part& part, const ShortShape& shape) {
  std::vector<size_t> order = ByStrideOfResult(part, static_cast<size_t>(EpilogueLoops(part)));
  order.erase(std::find(order.begin(), order.end(), shape.along));
  order.push_back(shape.along);
  std::vector<ThreadLoop> loops;
  for (size_t l : order) {
    const bool rows = l == shape.across && l != shape.along;
    const int64_t each = rows ? shape.rows : l == shape.along ? shape.lanes : 1;
    loops.push_back({rows ? "row" : Counter(l), (part.loops[l] + each - 1) / each, each});
  }
  return loops;
}

int64_t Threads(const Part& part, const ShortShape& shape) {
  int64_t threads = 1;
  for (const ThreadLoop& loop : ThreadLoops(part, shape)) threads *= loop.extent;
  return threads;
}

// The instructions of the threads, or what storing takes.
double Cycles(const PartContext& context, const ShortShape& shape) {
  constexpr double kWarp = 32, kIssued = 4;  // warps at once
  const Part& part = context.part;
  const GpuTable& gpu = GpuTableOf(context.target);
  const size_t first = static_cast<size_t>(EpilogueLoops(part));
  const double k = static_cast<double>(context.Points(first, part.loops.size())),
               rows = static_cast<double>(shape.rows), points = static_cast<double>(context.Points(0, first)),
               matrices = static_cast<double>(part.rhs.size());
  double bytes = 0, instructions = gpu.element_thread;
  const Factors factors(part, shape);
  for (const Factor& factor : factors.all())
    instructions += k * (factor.moves_across ? rows : 1) *
                    ShortInstructions(context, factor.tape, shape, factor.moves_along);
  for (size_t index : Touched(part.epilogue, TapeOp::kStore))
    bytes += points * static_cast<double>(ByteSize(part.operands[index].dtype));
  instructions +=
      rows * (shape.lanes * k * matrices + ShortInstructions(context, part.epilogue, shape, true));
  const double threads = static_cast<double>(Threads(part, shape));
  const double blocks = std::ceil(threads / kCudaBlock / context.Processors());
  const double issued = blocks * std::min<double>(threads, kCudaBlock) / kWarp * instructions / kIssued;
  return gpu.element_start + std::max(issued, bytes / gpu.memory_bytes);
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  constexpr int64_t kMostSums = 64;
  std::vector<KernelCandidate> candidates;
  if (!Suits(context)) return candidates;
  ShortShape shape = LoopsOf(context);
  const int64_t matrices = static_cast<int64_t>(context.part.rhs.size());
  for (int64_t rows : {8, 4, 2, 1}) {
    const bool fits = shape.across != shape.along && rows <= context.part.loops[shape.across] &&
                      rows * shape.lanes * matrices <= kMostSums;
    if (rows > 1 && !fits) continue;
    shape.rows = rows;
    KernelConfiguration configuration;
    configuration.variant = VariantId::kShort;
    configuration.m = rows;
    configuration.n = shape.lanes;
    candidates.push_back({configuration, AmongOthers(GpuTableOf(context.target), Cycles(context, shape))});
  }
  return candidates;
}

// Writes the counters of the thread's first result; that of the second loop is `row`.
void WriteUnits(const Part& part, const ShortShape& shape, PartWriter* writer) {
  const int64_t threads = Threads(part, shape);
  const std::string type = threads <= 0x7fffffff ? "u32" : "u64";
  writer->Line(type + " rest = (" + type + ")block * kBlockThreads + threadIdx.x;");
  writer->Line("if (rest >= " + Text(threads) + "ull) return;");
  const std::vector<ThreadLoop> loops = ThreadLoops(part, shape);
  for (size_t n = loops.size(); n-- > 0;) {
    const std::string &name = loops[n].name, extent = Text(loops[n].extent) + "u";
    writer->Line("const i64 " + name + " = (i64)(rest % " + extent + ") * " + Text(loops[n].each) +
                 "; rest /= " + extent + "; (void)" + name + ";");
  }
}

// Writes `factor` as an array of lanes or, if neighbours share it, of `deep` elements along K: `name`.
void WriteFactor(const Factor& factor, const ShortShape& shape, const std::string& name, PartWriter* writer) {
  const int lanes = factor.moves_along ? shape.lanes : shape.deep;
  writer->Line("{ float (&x)[" + Text(lanes) + "] = " + name + ";");
  if (lanes > 1)
    writer->WriteLanes(factor.tape, "q", factor.moves_along ? shape.along : shape.inner, lanes, "");
  else
    writer->Line("x[0] = (float)" + writer->WriteTape(factor.tape, "q") + ";");
  writer->Line("}");
}

// Opens the loop over the thread's rows, in which the counter is that of a row (close it with one brace).
void OpenRows(const Part& part, const ShortShape& shape, PartWriter* writer) {
  writer->Line("#pragma unroll");
  writer->Line("for (int t = 0; t < " + Text(shape.rows) + "; ++t) {");
  if (shape.across == shape.along) return;
  const std::string last = Text(part.loops[shape.across] - 1);
  const bool whole = part.loops[shape.across] % shape.rows == 0;
  writer->Line("const i64 " + Counter(shape.across) + " = " +
               (whole ? "row + t;" : "row + t < " + last + " ? row + t : " + last + ";"));
}

// sums[j][t][e]: accumulator j of row t and neighbour e.
void WriteSums(const Part& part, const ShortShape& shape, PartWriter* writer) {
  constexpr int64_t kUnrolled = 16;
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  const Factors factors(part, shape);
  const std::string rows = Text(shape.rows), lanes = Text(shape.lanes), deep = Text(shape.deep);
  writer->Line("float sums[" + Text(part.rhs.size()) + "][" + rows + "][" + lanes + "] = {};");
  int64_t k = 1;
  for (size_t l = first; l < all; ++l) k *= part.loops[l];
  const char* unroll = k <= kUnrolled ? "#pragma unroll" : "#pragma unroll 4";
  for (size_t l = first; l < all; ++l) {
    if (l == shape.inner) continue;
    writer->Line(unroll);
    writer->Open(l, l + 1);
  }
  const std::string inner = Counter(shape.inner);
  writer->Line(shape.deep == 1 ? unroll : k <= kUnrolled ? "#pragma unroll" : "#pragma unroll 2");
  writer->Line("for (i64 " + inner + " = 0; " + inner + " < " + IntText(part.loops[shape.inner]) + "; " +
               inner + " += " + deep + ") {");
  // First what neighbours share, of all rows.
  for (const Factor& factor : factors.all()) {
    if (factor.moves_along) continue;
    writer->Line("float " + factor.name + "[" + (factor.moves_across ? rows : "1") + "][" + deep + "];");
    if (factor.moves_across) OpenRows(part, shape, writer);
    WriteFactor(factor, shape, factor.name + (factor.moves_across ? "[t]" : "[0]"), writer);
    if (factor.moves_across) writer->Line("}");
  }
  writer->Line("const i64 inner = " + inner + ";");
  writer->Line("#pragma unroll");
  writer->Line("for (int d = 0; d < " + deep + "; ++d) {");
  writer->Line("const i64 " + inner + " = inner + d; (void)" + inner + ";");
  const auto write = [&](bool across) {
    for (const Factor& factor : factors.all()) {
      if (!factor.moves_along || factor.moves_across != across) continue;
      writer->Line("float " + factor.name + "[" + lanes + "];");
      WriteFactor(factor, shape, factor.name, writer);
    }
  };
  write(false);
  OpenRows(part, shape, writer);
  write(true);
  writer->Line("#pragma unroll");
  writer->Line("for (int e = 0; e < " + lanes + "; ++e) {");
  const auto element = [&](size_t f) {
    const Factor& factor = factors.all()[f];
    return factor.name + (factor.moves_along ? "[e]" : factor.moves_across ? "[t][d]" : "[0][d]");
  };
  for (size_t j = 0; j < part.rhs.size(); ++j) {
    const std::string sum = "sums[" + Text(j) + "][t][e]";
    writer->Line(sum + " = __fmaf_rn(" + element(0) + ", " + element(j + 1) + ", " + sum + ");");
  }
  writer->Line("} } }");
  writer->Close(all - first);
}

// Reads what the epilogue needs of each row before the first result is stored: loads behind a store wait for
// each other.
void FetchRows(const Part& part, const ShortShape& shape, PartWriter* writer) {
  writer->scope.fetched.resize(part.operands.size());
  for (size_t index : Touched(part.epilogue, TapeOp::kLoad)) {
    const Operand& operand = part.operands[index];
    if (!IsPlain(operand) || IsWritten(part, operand.param) || MovesAlong(part, operand, shape.along))
      continue;
    const std::string name = "of_row" + Text(index), type = WordType(operand.dtype);
    writer->Line(type + " " + name + "[" + Text(shape.rows) + "];");
    OpenRows(part, shape, writer);
    writer->Line(name + "[t] = *(const " + type + "*)(" + writer->AddressText(static_cast<uint16_t>(index)) +
                 "); }");
    writer->scope.fetched[index] = name + "[t]";
  }
}

Result<PartLaunch> WriteShort(const PartContext& context, const KernelConfiguration& configuration,
                              PartWriter* writer) {
  const Part& part = context.part;
  const size_t first = static_cast<size_t>(EpilogueLoops(part)), all = part.loops.size();
  ShortShape shape = LoopsOf(context);
  shape.rows = configuration.m;
  WriteUnits(part, shape, writer);
  writer->Line("wait_for_earlier();");
  WriteSums(part, shape, writer);
  writer->ZeroLoops(first, all);
  FetchRows(part, shape, writer);
  OpenRows(part, shape, writer);
  if (shape.across != shape.along && part.loops[shape.across] % shape.rows != 0)
    writer->Line("if (row + t >= " + Text(part.loops[shape.across]) + ") continue;");
  std::string accumulators;
  for (size_t j = 0; j < part.rhs.size(); ++j)
    accumulators += "const float " + Accumulator(j) + " = sums[" + Text(j) + "][t][" +
                    (shape.lanes > 1 ? "e" : "0") + "]; ";
  if (shape.lanes > 1) {
    writer->WriteLanes(part.epilogue, "r", shape.along, shape.lanes, accumulators);
  } else {
    writer->Line(accumulators);
    writer->WriteTape(part.epilogue, "r");
  }
  writer->Line("}");
  // Otherwise all loads of an unrolled K come first, and take the registers of a second block.
  PartLaunch launch;
  launch.resident = 2;
  return WithBlocks(launch, (Threads(part, shape) + kCudaBlock - 1) / kCudaBlock);
}

}  // namespace

constinit const KernelVariant kShortMatmul = {VariantId::kShort, kHeaders, Candidates, WriteShort};

}  // namespace rondo::cuda
