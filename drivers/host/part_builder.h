// Turns one part of a kernel into a PartProgram: picks its path, builds accesses, compiles tapes.
#ifndef RONDO_DRIVERS_HOST_PART_BUILDER_H_
#define RONDO_DRIVERS_HOST_PART_BUILDER_H_

#include "core/arena.h"
#include "core/list.h"
#include "core/status.h"
#include "drivers/host/nest.h"
#include "drivers/host/program.h"
#include "drivers/host/sharing.h"

namespace rondo::host {

// The most scratch that a worker gets: what passes it is refused. Loops over scratch count in int.
inline constexpr int64_t kMaxScratchBytes = int64_t{1} << 32;

// The product of sizes that are not negative, at most twice kMaxScratchBytes.
template <typename... Sizes>
int64_t Bytes(Sizes... sizes) {
  int64_t product = 1;
  for (int64_t size : {static_cast<int64_t>(sizes)...}) {
    if (__builtin_mul_overflow(product, size, &product) || product > 2 * kMaxScratchBytes)
      product = 2 * kMaxScratchBytes;
  }
  return product;
}

inline bool Is8Bit(DType t) { return t == DType::kI8 || t == DType::kU8; }

// Used once. Everything it makes lives in `arena`. Errors name the kernel.
class PartBuilder {
 public:
  // `linear`: see MakeTiling.
  PartBuilder(const Kernel& kernel, const Part& part, const Engine& engine, const Sharing& sharing,
              Arena& arena, bool linear)
      : kernel_(kernel), part_(part), engine_(engine), sharing_(sharing), arena_(arena), linear_(linear) {}

  Status Build(PartProgram* out);
  // After a failed Build: the part can be built with `linear`.
  bool overflow() const { return overflow_; }

 private:
  Status Fail(const char* what) const;
  Status NoMemory() const;
  // Room in the scratch of a worker; `bytes` comes from Bytes, or is small.
  int64_t Take(int64_t bytes);

  // accesses
  // How registers hold an operand: as its natural type, or, of one without guards and indices, bytes as f32
  // or as they are.
  enum class As : uint8_t { kNatural, kFloat, kByte };
  Status BuildAccess(uint16_t operand, const Tiling& tiling, const Access** out, int depth = 0,
                     As as = As::kNatural);
  Status BuildGuards(const Operand& operand, const Tiling& tiling, Access* access);
  Status BuildIndices(const Operand& operand, const Tiling& tiling, Access* access, int depth);

  // tapes (tape_builder.cc)
  struct TapeUse {
    int pinned = 0;                       // registers kept free at the front
    GrowingList<uint16_t> keep;           // tape registers that stay valid to the end
    GrowingList<uint32_t>* at = nullptr;  // out: byte offset of every tape register
  };
  Status BuildTape(Tape tape, const Tiling& tiling, const TapeUse& use, Program* out);
  // `moves`: a load or store of bytes that are not computed with.
  Status BuildInst(const TapeInst& in, const GrowingList<TapeInst>& tape, const Tiling& tiling, Inst* out,
                   bool moves = false);
  bool IsPlainByte(uint16_t operand) const;
  bool IsPlainFloat(uint16_t operand) const;
  void LoadBytesAsFloats(GrowingList<TapeInst>& tape) const;
  void StoreFloatsAsBytes(GrowingList<TapeInst>& tape) const;
  void KeepBytesAsFloats(GrowingList<TapeInst>& tape) const;
  GrowingList<uint8_t> OnlyMovesBytes(const GrowingList<TapeInst>& tape) const;
  // Bytes that a tape makes of one byte.
  GrowingList<uint16_t> StepsFrom(Tape tape, size_t root, bool to_floats = false) const;
  Status TakeSteps(Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                   int64_t (&results)[kLanes]);
  Status MakeByteTable(Tape tape, size_t root, const GrowingList<uint16_t>& steps, DType dtype,
                       const uint8_t** table);
  bool IsByteAsFloat(const GrowingList<TapeInst>& tape, size_t cast) const;
  Status MakeFloatTables(GrowingList<TapeInst>* tape, GrowingList<const float*>* tables);
  bool IsOneNumber(uint16_t operand) const;
  bool IsSame(const TapeInst& inst) const;
  bool OneNumbersFirst(GrowingList<TapeInst>* tape, GrowingList<const float*>* tables) const;
  Status CheckInst(const TapeInst& in, size_t k, const GrowingList<TapeInst>& tape) const;
  Status Finish(const GrowingList<Inst>& once, const GrowingList<Inst>& body, Program* out);

  // paths
  Status BuildMap();
  void FindRunsOfMap();
  bool FindTurn(Tape tape, TurnProgram* turn) const;  // (turn_builder.cc)
  void PointsLast(TurnProgram* turn);
  Status BuildTurn(Tape tape, TurnProgram* turn, const TurnProgram** built);
  Status BuildReduction();
  Status BuildScalars();
  bool FindSoftmax(Span<StageProgram> stages, SoftmaxProgram* softmax) const;
  bool FitsOneRow() const;
  bool IsRun(const Access& access) const;
  bool IsOfInnermost(const Access& access) const;
  bool IsRuns(const Access& access, int64_t* step) const;
  uint32_t FindStraight(const Inst* body, uint32_t count, StageProgram* stage) const;
  bool FindQuantised(StageProgram* stage) const;
  void FindRange(StageProgram* stage) const;
  Status BuildOneRow(Span<StageProgram> stages);
  Status FindWritten();
  Status BuildProduct();
  int LanesOfTile(double work) const;
  // Rows of a block of a product or window operation of out_->work, in whole lines of points if `most` has
  // one.
  int64_t RowsOfLines(int64_t most) const;
  Status BuildAccumulate();
  Status BuildBlocked(bool convolution);
  Status BuildLeft();
  Status BuildPacked();
  bool FitsChannels() const;
  Status BuildChannels();
  bool FitsBytePool() const;
  bool StoresTheGreatest() const;
  Status MakePoolTable();
  Status BuildBytePool(bool* built);  // not where channels of the result do not lie side by side
  bool FitsPlanes() const;
  bool PlaneAxisOf(int s, PlaneAxis* axis) const;
  Status BuildPlanes(bool* built);  // not where a plane is too large, or walked in another way
  Status BuildPlaneTaps(PlanesProgram* planes);
  bool FitsDirect() const;
  Status BuildDirect(bool* built);  // not where no zeros can stand for what is absent
  int RunOfTaps(int64_t* zeros) const;
  Status BuildTaps(const Access& input, int run);  // but for loop `run` of k, if not -1
  bool FitsBytes() const;
  Status BuildBytes();
  Status BuildRuns(BytesProgram* bytes);
  bool FindInPlace(BytesProgram* bytes) const;
  void FindLines(BytesProgram* bytes) const;
  void BuildLines(BytesProgram* bytes);
  bool IsRowSum(size_t j) const;
  class SumsWay;
  GrowingList<uint8_t> DependOnColumns() const;
  Status BuildRequantisation(BytesProgram* bytes, bool whole, bool* built);
  Status BuildOfColumns(const GrowingList<uint8_t>& of_columns, Span<Requantisation> sums,
                        BytesProgram* bytes);
  Status BeginWithFloats(const GrowingList<uint16_t>& floats, bool* built);
  Status BuildSumsEpilogue(BytesProgram* bytes);
  bool IsMatrix(const Access& access) const;
  void FindTail(FloatTail* tail) const;
  bool FitsChannelBytes() const;
  Status BuildChannelBytes();
  Status BuildStrip(const Access& input, ChannelBytesProgram* strip);
  Status BuildEpilogue();
  Status BuildAttention();
  bool PreferColumns();
  bool Depends(const Operand& operand, int group, int depth = 0) const;
  bool TapeDepends(Tape tape, int group) const;
  // The lhs prologue as a tape that yields in the accumulator's type; not ok() when out of memory.
  GrowingList<TapeInst> LhsTape() const;

  // Leaves out guards that no point fails.
  Status DropGuards();
  // What the left and right sides of a product read: those of a convolution change places with its nest.
  uint16_t LeftOperand() const;
  uint16_t RightOperand(int j) const;

  const Kernel& kernel_;
  Part part_;
  const Engine& engine_;
  const Sharing& sharing_;
  Arena& arena_;
  const bool linear_;
  bool overflow_ = false;
  bool channels_ = false;  // see MakeNest
  PartProgram* out_ = nullptr;
};

// Whether a plain access walks the loops of the group as one, and by how much.
bool Linear(const Access& access, const Nest& nest, int group, int64_t* step);

// Floats from row to row of accumulators over a tile of n: whole vectors, of register blocks as well.
int64_t AccumulatorRow(const Tiling& tiling, const Engine& engine);

}  // namespace rondo::host

#endif  // RONDO_DRIVERS_HOST_PART_BUILDER_H_
