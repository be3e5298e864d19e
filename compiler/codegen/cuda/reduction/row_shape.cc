#include "compiler/codegen/cuda/reduction/row_shape.h"

#include <algorithm>

#include "compiler/codegen/cuda/batches.h"
#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

// Rounds whose memory loads are in flight together.
constexpr int kTogether = 4;
constexpr int64_t kWarp = 32;

// Whether every row operand that the tape loads is cached.
bool AllCached(const Part& part, const RowShape& shape, Tape tape) {
  const std::vector<size_t> read = Touched(tape, TapeOp::kLoad);
  return std::all_of(read.begin(), read.end(), [&](size_t index) {
    return !MovesAlong(part, part.operands[index], shape.along) ||
           std::find(shape.cached.begin(), shape.cached.end(), index) != shape.cached.end();
  });
}

// The number of vectors, and the first element of one.
std::string VectorsText(const RowShape& shape) {
  return shape.unaligned ? "vectors" : Text(shape.vectors) + "u";
}
std::string FirstText(const RowShape& shape, const std::string& vector) {
  return (shape.unaligned ? "head + " : "") + vector + " * " + Text(shape.lanes) + "u";
}

// Whether the operand's elements are accessed as the row's vectors.
bool IsVector(const PartContext& context, const RowShape& shape, size_t index) {
  return shape.unaligned ? shape.unaligned->vectors[index]
                         : FitsLanes(context, index, shape.along, shape.lanes);
}

// Whether the elements of rows are contiguous; if not, threads with one element each would read far apart.
bool AreContiguous(const Part& part, size_t along) {
  const std::vector<size_t> touched = RowOperands(part);
  return std::all_of(touched.begin(), touched.end(), [&](size_t index) {
    return !MovesAlong(part, part.operands[index], along) || part.operands[index].strides[along] == 1;
  });
}

// Opens a loop over this thread's vectors of the row (close it with two braces): `round`, `first` (the first
// element), and loop counters at it.
void OpenRounds(const PartContext& context, const RowShape& shape, int together, PartWriter* writer) {
  const Part& part = context.part;
  writer->Line(shape.in_shared      ? "#pragma unroll " + Text(together)
               : shape.in_registers ? "#pragma unroll"
                                    : "#pragma unroll 2");
  writer->Line("for (int round = 0; round < " + Text(shape.rounds) + "; ++round) {");
  writer->Line("const u32 vector = lane + round * " + Text(shape.width) + ";");
  const bool whole = !shape.unaligned && shape.vectors % shape.width == 0;
  writer->Line(whole ? "{" : "if (vector < " + VectorsText(shape) + ") {");
  writer->Line("const u32 first = " + FirstText(shape, "vector") + ";");
  writer->Decode("first", part.outer, part.loops.size());
}

int64_t BytesOf(TapeType type) { return type == TapeType::kF32 ? 4 : 8; }

int64_t WordsOf(const PartContext& context, const RowShape& shape, size_t operand) {
  return shape.lanes * ByteSize(context.part.operands[operand].dtype) / 4;
}

// The offsets of cached operands, and after them kept values, in shared memory, by their numbers in `shape`.
std::string SharedAt(const PartContext& context, const RowShape& shape, size_t cached, size_t kept) {
  int64_t bytes = 0;
  for (size_t k = 0; k < cached; ++k) bytes += 4 * WordsOf(context, shape, shape.cached[k]);
  const RowTypes types = RowTypesOf(context.part);
  for (size_t k = 0; k < kept; ++k) bytes += shape.lanes * BytesOf(types.kept[k]);
  return "shared_memory + " + Text(bytes * shape.rounds * kCudaBlock);
}

// Elements of its vectors whose kept values a thread has in registers. That of an edge comes after them.
int64_t KeptByThread(const RowShape& shape) { return shape.in_shared ? 0 : shape.rounds * shape.lanes; }

// Moves what the stage reads or keeps between shared memory and this thread's arrays, for one round.
void MoveKept(const PartContext& context, const RowShape& shape, Tape tape, TapeOp op, PartWriter* writer) {
  const RowTypes types = RowTypesOf(context.part);
  for (size_t index : Touched(tape, op)) {
    const std::string words = Text(shape.lanes * BytesOf(types.kept[index]) / 4), name = "kept" + Text(index);
    writer->Line((op == TapeOp::kKept ? "get_words<" : "put_words<") + words + ">(" +
                 SharedAt(context, shape, shape.cached.size(), index) + ", round, (u32*)" + name + ");");
  }
}

}  // namespace

void SetVectors(const PartContext& context, RowShape* shape) {
  const int64_t elements = context.Points(context.part.outer, context.part.loops.size());
  shape->along = context.part.loops.size() - 1;
  shape->lanes = LanesFor(context, RowOperands(context.part), shape->along);
  if (elements > GpuTableOf(context.target).row_warp_elements && AreContiguous(context.part, shape->along)) {
    shape->unaligned = UnalignedRowsOf(context);
    // What is not read as vectors takes longer than it did, unless it was hardly vectors before.
    const int least = shape->lanes * (shape->unaligned && shape->unaligned->all ? 2 : 4);
    if (shape->unaligned && shape->unaligned->lanes < least) shape->unaligned.reset();
    if (shape->unaligned) shape->lanes = shape->unaligned->lanes;
  }
  shape->vectors = elements / shape->lanes;
}

void DeclareRow(const PartContext& context, const RowShape& shape, PartWriter* writer) {
  if (shape.unaligned) DeclareVectors(context, *shape.unaligned, writer);
}

int64_t SharedBytesOf(const Part& part, const RowShape& shape) {
  return RegistersOf(part, shape) * 4 * kCudaBlock;
}

std::vector<size_t> RowOperands(const Part& part) {
  std::vector<size_t> touched;
  for (const Stage& stage : part.stages) {
    if (stage.per_row) continue;
    for (TapeOp op : {TapeOp::kLoad, TapeOp::kStore}) {
      for (size_t index : Touched(stage.tape, op)) touched.push_back(index);
    }
  }
  return touched;
}

std::vector<size_t> CachedOperands(const PartContext& context, const RowShape& shape, bool early) {
  const Part& part = context.part;
  std::vector<int> readers(part.operands.size(), 0);
  for (const Stage& stage : part.stages) {
    if (stage.per_row) continue;
    for (size_t index : Touched(stage.tape, TapeOp::kLoad)) ++readers[index];
  }
  std::vector<size_t> cached;
  for (size_t index = 0; index < readers.size(); ++index) {
    const Operand& operand = part.operands[index];
    const bool constant = context.params[operand.param].constant && operand.indirects.empty();
    if (readers[index] == 0 || (readers[index] == 1 && !(early && constant))) continue;
    if (!MovesAlong(part, operand, shape.along) || !IsVector(context, shape, index)) continue;
    if (operand.absent == 0 && !IsWritten(part, operand.param)) cached.push_back(index);
  }
  return cached;
}

bool FillsSectors(const Part& part) {
  constexpr int64_t kSector = 32;  // bytes
  const std::vector<size_t> touched = RowOperands(part);
  return std::none_of(touched.begin(), touched.end(), [&](size_t index) {
    const Operand& operand = part.operands[index];
    int64_t run = 1, elements = 1;
    for (size_t l = part.loops.size(); l-- > part.outer;) {
      if (part.loops[l] > 1 && operand.strides[l] == 0) return false;  // the same for many elements
      if (operand.strides[l] == run) run *= part.loops[l];
      elements *= part.loops[l];
    }
    return run < elements && run * ByteSize(operand.dtype) < kSector;
  });
}

int64_t RegistersOf(const Part& part, const RowShape& shape) {
  int64_t registers = 0;
  for (size_t index : shape.cached)
    registers += shape.rounds * shape.lanes * ByteSize(part.operands[index].dtype) / 4;
  for (TapeType type : RowTypesOf(part).kept)
    registers += shape.rounds * shape.lanes * (type == TapeType::kF32 ? 1 : 2);
  return registers;
}

void DeclareKept(const RowTypes& types, const RowShape& shape, PartWriter* writer) {
  const int64_t kept = KeptByThread(shape) + (shape.unaligned ? 1 : 0);
  for (size_t k = 0; k < types.kept.size() && kept > 0; ++k)
    writer->Line(std::string(TypeText(types.kept[k])) + " kept" + Text(k) + "[" + Text(kept) + "];");
}

void DeclareScalars(const RowTypes& types, PartWriter* writer) {
  for (size_t k = 0; k < types.scalars.size(); ++k)
    writer->Line(std::string(TypeText(types.scalars[k])) + " s" + Text(k) + " = 0;");
}

void CacheOperands(const PartContext& context, const RowShape& shape, bool constant, PartWriter* writer) {
  const Part& part = context.part;
  std::vector<size_t> chosen;
  for (size_t index : shape.cached) {
    const Operand& operand = part.operands[index];
    if ((context.params[operand.param].constant && operand.indirects.empty()) == constant)
      chosen.push_back(index);
  }
  if (chosen.empty()) return;
  for (size_t index : chosen) {
    if (shape.in_shared) break;
    writer->Line("u32 cache" + Text(index) + "[" + Text(shape.rounds) + "][" +
                 Text(shape.lanes * ByteSize(part.operands[index].dtype) / 4) + "];");
  }
  OpenRounds(context, shape, kTogether, writer);
  for (size_t k = 0; k < shape.cached.size(); ++k) {
    const size_t index = shape.cached[k];
    if (std::find(chosen.begin(), chosen.end(), index) == chosen.end()) continue;
    if (!shape.in_shared) {
      writer->LoadWords(index, shape.lanes, "cache" + Text(index) + "[round]");
      continue;
    }
    const std::string words = Text(WordsOf(context, shape, index)), name = "words" + Text(index);
    writer->Line("u32 " + name + "[" + words + "];");
    writer->LoadWords(index, shape.lanes, name);
    writer->Line("put_words<" + words + ">(" + SharedAt(context, shape, k, 0) + ", round, " + name + ");");
  }
  writer->Close(2);
}

namespace {

bool IsFloatSum(const TapeInst& inst, Tape tape) {
  return inst.op == TapeOp::kReduceSum && tape[inst.a].type != TapeType::kI64;
}

// A thread's sum is the sum of its vectors' sums. So blocks that share a row, with one vector for two threads
// (drivers/cuda/peer_collectives/norm.h), only exchange vector sums.
void OpenVectorSums(const Stage& stage, PartWriter* writer) {
  for (const TapeInst& inst : stage.tape) {
    if (!IsFloatSum(inst, stage.tape)) continue;
    const std::string slot = Text(inst.arg), type = TypeText(stage.tape[inst.a].type);
    writer->Line("const " + type + " before" + slot + " = v" + slot + "; v" + slot + " = 0;");
  }
}

void CloseVectorSums(const Stage& stage, PartWriter* writer) {
  for (const TapeInst& inst : stage.tape) {
    if (!IsFloatSum(inst, stage.tape)) continue;
    const std::string slot = Text(inst.arg);
    writer->Line("v" + slot + " = op_add(before" + slot + ", v" + slot + ");");
  }
}

// This round's share of the stage's inputs.
void OpenShared(const PartContext& context, const RowShape& shape, Tape tape, PartWriter* writer) {
  const std::vector<size_t> read = Touched(tape, TapeOp::kLoad);
  for (size_t k = 0; k < shape.cached.size(); ++k) {
    const size_t index = shape.cached[k];
    const std::string words = Text(WordsOf(context, shape, index)), name = "words" + Text(index);
    if (std::find(read.begin(), read.end(), index) == read.end()) continue;
    writer->Line("u32 " + name + "[" + words + "];");
    writer->Line("get_words<" + words + ">(" + SharedAt(context, shape, k, 0) + ", round, " + name + ");");
  }
  const RowTypes types = RowTypesOf(context.part);
  for (size_t k = 0; k < types.kept.size(); ++k)
    writer->Line(std::string(TypeText(types.kept[k])) + " kept" + Text(k) + "[" + Text(shape.lanes) + "];");
  MoveKept(context, shape, tape, TapeOp::kKept, writer);
}

// Operands of which each element of the row has an element of its own, read as vectors: a store at another
// element does not change it.
std::vector<size_t> OwnElements(const PartContext& context, const RowShape& shape, Tape tape) {
  const Part& part = context.part;
  return LoadsAhead(context, tape, [&](size_t index) {
    for (size_t l = part.outer; l < part.loops.size(); ++l)
      if (part.loops[l] > 1 && !MovesAlong(part, part.operands[index], l)) return false;
    return IsVector(context, shape, index);
  });
}

// The stage at vectors that neither registers nor shared memory keep. False, and nothing is written, if there
// is nothing to read ahead, or one thread takes the row.
bool WriteVectorBatches(const PartContext& context, const RowShape& shape, const Stage& stage,
                        const std::string& prefix, PartWriter* writer) {
  constexpr double kFewRows = 4;  // a multiprocessor: so few blocks need more loads in flight
  const Part& part = context.part;
  if (shape.in_shared || shape.in_registers || shape.lanes == 1 || shape.width < kWarp || !FillsSectors(part))
    return false;
  Batches batches;
  batches.operands = OwnElements(context, shape, stage.tape);
  if (batches.operands.empty()) return false;
  batches.numbers = VectorsText(shape);
  const auto rows = static_cast<double>(context.Points(0, part.outer));
  const bool few = rows * static_cast<double>(shape.cluster) < kFewRows * context.Processors();
  batches.size = std::min(BatchSize(part, batches.operands, shape.lanes, few ? 2 * kBytesAhead : kBytesAhead),
                          shape.rounds);
  batches.lanes = shape.lanes;
  batches.loop = "for (u32 start = lane; start < " + VectorsText(shape) +
                 "; start += " + Text(batches.size * shape.width) + "u)";
  batches.number = "start + r * " + Text(shape.width) + "u";
  WriteBatches(
      context, batches, "",
      [&] {
        writer->Line("const u32 first = " + FirstText(shape, "number") + ";");
        writer->Decode("first", part.outer, part.loops.size());
      },
      [&] {
        OpenVectorSums(stage, writer);
        writer->WriteLanes(stage.tape, prefix, shape.along, shape.lanes,
                           "const i64 position = (i64)first + e; (void)position;");
        CloseVectorSums(stage, writer);
      },
      writer);
  return true;
}

// The stage at an element of the row's edges.
void WriteEdge(const PartContext& context, const RowShape& shape, const Stage& stage,
               const std::string& prefix, PartWriter* writer) {
  OpenEdge(context, shape.lanes, writer);
  writer->scope.kept = Text(KeptByThread(shape));
  writer->scope.in_order = false;
  writer->Line("const i64 position = edge; (void)position;");
  writer->WriteTape(stage.tape, prefix);
  writer->scope.in_order = true;
  writer->scope.kept = "position";
  writer->Close(2);
}

void WriteVectors(const PartContext& context, const RowShape& shape, const Stage& stage,
                  const std::string& prefix, PartWriter* writer) {
  if (WriteVectorBatches(context, shape, stage, prefix, writer)) return;
  OpenRounds(context, shape, AllCached(context.part, shape, stage.tape) ? 1 : kTogether, writer);
  writer->scope.kept = "round * " + Text(shape.lanes) + (shape.lanes > 1 ? " + e" : "");
  if (shape.in_shared) writer->scope.kept = "e";
  if (shape.lanes == 1) {
    writer->Line("const i64 position = first; (void)position;");
    writer->WriteTape(stage.tape, prefix);
  } else {
    writer->scope.lanes.assign(context.part.operands.size(), "");
    if (shape.in_shared) OpenShared(context, shape, stage.tape, writer);
    for (size_t index : shape.cached)
      writer->scope.lanes[index] =
          shape.in_shared ? "words" + Text(index) : "cache" + Text(index) + "[round]";
    OpenVectorSums(stage, writer);
    writer->WriteLanes(stage.tape, prefix, shape.along, shape.lanes,
                       "const i64 position = (i64)first + e; (void)position;");
    CloseVectorSums(stage, writer);
    if (shape.in_shared) MoveKept(context, shape, stage.tape, TapeOp::kKeep, writer);
    writer->scope.lanes.clear();
  }
  writer->scope.kept = "position";
  writer->Close(2);
}

}  // namespace

void WriteElements(const PartContext& context, const RowShape& shape, const Stage& stage,
                   const std::string& prefix, PartWriter* writer) {
  if (shape.unaligned) writer->scope.vectors = shape.unaligned->vectors;
  WriteVectors(context, shape, stage, prefix, writer);
  writer->scope.vectors.clear();
  if (shape.unaligned) WriteEdge(context, shape, stage, prefix, writer);
}

namespace {

// Whether neighbouring rows read the same elements, and there are many rows. Then each thread of a warp takes
// a row alone, and computes from elements that its neighbours also read. It waits for one element after
// another, so that long rows need a larger number of rows.
bool ShareElements(const PartContext& context) {
  constexpr int64_t kLeastRows = 32;  // a multiprocessor
  constexpr int64_t kShort = 256;     // elements
  const Part& part = context.part;
  const size_t loops = part.loops.size();
  if (part.outer == 0 || part.kept != 0 || part.loops[part.outer - 1u] < 32) return false;
  const int64_t rows = context.Points(0, part.outer), elements = context.Points(part.outer, loops);
  const int64_t least = kLeastRows * std::max<int64_t>(1, elements / kShort);
  if (static_cast<double>(rows) < static_cast<double>(least) * context.Processors()) return false;
  bool shared = false;
  for (const Stage& stage : part.stages) {
    if (stage.per_row) continue;
    if (!Touched(stage.tape, TapeOp::kStore).empty()) return false;
    for (size_t index : Touched(stage.tape, TapeOp::kLoad)) {
      bool moves = false;
      for (size_t l = part.outer; l < loops; ++l) moves = moves || MovesAlong(part, part.operands[index], l);
      if (moves && MovesAlong(part, part.operands[index], part.outer - 1u)) return false;
      shared = shared || moves;
    }
  }
  return shared;
}

constexpr double kManyThreads = 1024;  // of a multiprocessor: enough

// Whether the rows that a warp would take lie side by side in memory, so that threads with a row each read
// them together.
bool LieSideBySide(const Part& part) {
  if (part.outer == 0 || part.loops[part.outer - 1u] < kWarp) return false;
  const size_t along = part.outer - 1u;
  const std::vector<size_t> read = RowOperands(part);
  return std::all_of(read.begin(), read.end(), [&](size_t index) {
    const Operand& operand = part.operands[index];
    return !MovesAlong(part, operand, along) || (operand.strides[along] == 1 && operand.indirects.empty());
  });
}

// Threads of a row: a block, a warp, or part of a warp. Where threads abound, each takes several elements of
// a short row: fewer blocks wait, and fewer threads exchange their sums.
int64_t WidthOf(const PartContext& context, const RowShape& shape) {
  const int64_t several = shape.lanes == 1 ? 8 : 1;
  const GpuTable& gpu = GpuTableOf(context.target);
  if (shape.vectors > (shape.lanes > 1 ? gpu.row_warp_vectors : gpu.row_warp_elements)) return kCudaBlock;
  const auto rows = static_cast<double>(context.Points(0, context.part.outer));
  int64_t width = 1;
  while (width < std::min<int64_t>(32, shape.vectors)) width *= 2;
  while (width > 1 && shape.vectors <= several * width / 2 &&
         rows * static_cast<double>(width / 2) >= kManyThreads * context.Processors())
    width /= 2;
  return width;
}

}  // namespace

int64_t WidthOfPlainRow(const PartContext& context) {
  RowShape shape;
  shape.vectors = context.Points(context.part.outer, context.part.loops.size());
  if (context.part.kept != 0) return std::max(WidthOf(context, shape), kWarp);  // a block keeps few rows
  const auto rows = static_cast<double>(context.Points(0, context.part.outer));
  const bool side_by_side = rows >= kManyThreads * context.Processors() && LieSideBySide(context.part);
  return side_by_side ? 1 : WidthOf(context, shape);
}

std::optional<RowShape> ShapeOfRow(const PartContext& context) {
  constexpr int64_t kMostRegisters = 96;  // of one thread, for what a row keeps
  constexpr int64_t kMostRounds = 16;
  const Part& part = context.part;
  RowShape shape;
  if (part.reduced == 0) return std::nullopt;
  SetVectors(context, &shape);
  if (ShareElements(context)) {
    shape.unaligned.reset();
    shape.lanes = LanesFor(context, RowOperands(part), shape.along);
    shape.vectors = context.Points(part.outer, part.loops.size()) / shape.lanes;
    shape.width = 1;
    shape.rounds = shape.vectors;
    shape.in_registers = false;
    return shape;
  }
  const GpuTable& gpu = GpuTableOf(context.target);
  if (shape.lanes == 1 && (shape.vectors > gpu.row_warp_elements || !AreContiguous(part, shape.along)))
    return std::nullopt;
  const auto fits = [&](int64_t width, bool early) {
    shape.width = width;
    shape.rounds = (shape.vectors + width - 1) / width;
    if (shape.lanes > 1) shape.cached = CachedOperands(context, shape, early);
    return shape.rounds <= kMostRounds && RegistersOf(part, shape) <= kMostRegisters;
  };
  const int64_t width = WidthOf(context, shape);
  if (fits(width, true)) return shape;
  // If its registers do not suffice, a warp reads constants where it needs them; else a block takes the row.
  if (width < kCudaBlock && shape.lanes > 1 && (fits(width, false) || fits(kCudaBlock, true))) return shape;
  // Longer rows are read anew by each stage, still as vectors, if they keep nothing.
  if (part.kept != 0 || shape.lanes == 1 || shape.width < kCudaBlock) return std::nullopt;
  shape.cached.clear();
  shape.in_registers = false;
  return shape;
}

void WriteRowStage(const PartContext& context, const RowShape& shape, const Stage& stage,
                   const std::string& prefix, PartWriter* writer) {
  if (stage.per_row) return WriteRowScalars(context.part, stage, prefix, writer);
  writer->Line("{");
  StartReductions(stage.tape, writer);
  WriteElements(context, shape, stage, prefix, writer);
  FinishReductions(stage.tape, shape.width, writer);
  writer->Line("}");
}

}  // namespace rondo::cuda
