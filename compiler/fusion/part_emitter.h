// PartEmitter: collects the operands and tapes of one part, then lays them out in an Arena.
//
// Used in two passes over the same expressions: the first (collecting) finds every operand and the index maps
// for which loops must become affine; the second, after the loops are fixed, writes the tapes. Internal to
// compiler/fusion.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/fusion/context.h"
#include "compiler/fusion/iteration_space.h"

namespace rondo::fusion {

class TapeWriter {
 public:
  int Add(TapeInst inst) {
    insts_.push_back(inst);
    return static_cast<int>(insts_.size()) - 1;
  }
  const std::vector<TapeInst>& insts() const { return insts_; }
  TapeType type(int reg) const { return insts_[reg].type; }
  std::unordered_map<std::string, int> memo;  // registers by their contents

 private:
  std::vector<TapeInst> insts_;
};

class PartEmitter {
 public:
  // `context` and `space` must outlive the builder.
  PartEmitter(Context* context, int group, IterationSpace* space)
      : c_(*context), group_(group), space_(*space) {}

  // The map whose logical strides walk the domain; new maps start from it. A part may have two domains, one
  // after the other (a matmul's epilogue and the prologue of its lhs).
  void SetDomain(int map) { domain_map_ = map; }
  int domain() const { return domain_map_; }
  void BeginEmitting() { collecting_ = false; }
  bool collecting() const { return collecting_; }
  const Obstacle& obstacle() const { return obstacle_; }

  // Provides the register of special nodes (accumulators, row scalars, kept values). No value: the usual way.
  using Intercept = std::function<std::optional<int>(TapeWriter*, NodeId, const ir::View&)>;
  void SetIntercept(Intercept intercept) { intercept_ = std::move(intercept); }

  // The register with the value of `id` at the domain point that `view` (over the domain) shows.
  int Value(TapeWriter* tape, NodeId id, const ir::View& view);
  // The same for input `slot` of `reader`, which obstacles then name.
  int InputValue(TapeWriter* tape, NodeId reader, int slot, const ir::View& view);
  // Stores `reg` as the value of `id`.
  void Store(TapeWriter* tape, NodeId id, const ir::View& view, int reg);
  // Stores the updates of a kIndexedWrite; `view` shows its updates' shape over the domain.
  void StoreIndexed(TapeWriter* tape, NodeId id, const ir::View& view, int reg);

  // Operands outside of tapes. `reader` and `slot` name the read for obstacles. Returns the operand's index.
  int AddOperand(NodeId base, Mode mode, int map, const std::string& key);
  int OperandOf(const std::string& key) const { return operand_keys_.at(key); }
  // After IterationSpace::Resolve: whether the operand's address, or an index that it is read through, moves
  // with the loop; and whether a counter of this part does.
  bool Moves(int operand, int loop) const;
  bool Counts(int loop) const;
  int MapOf(int operand) const { return operands_[operand].map; }
  // After IterationSpace::Resolve: the map of the operand with the most elements; the domain's if there is
  // none.
  int LargestMap() const;
  // The same for the first operand that is written but not combined into.
  int WrittenMap() const;
  void SetGuards(int operand, std::vector<Guard> guards, std::vector<std::vector<int64_t>> strides,
                 double absent);
  // After IterationSpace::Resolve failed on map `map`: the read that caused it.
  Obstacle ObstacleOf(int map) const;
  void Blame(int map, NodeId reader, int slot) { blame_[map] = {reader, slot}; }

  // Lays the part out; fills the op's parameters. The loops must be final.
  Status Finish(Part part, LoweredOp* op);
  Tape CopyTape(const TapeWriter& tape) { return c_.program.arena->Copy(tape.insts()); }

 private:
  struct IndexUse {
    int operand = 0;
    int64_t extent = 0;
    bool wrap = false, fault = true;
  };
  struct OperandRecord {
    int value = 0;
    DType dtype = DType::kF32;
    Mode mode = Mode::kRead;
    int map = 0;
    double absent = 0;
    std::vector<IndexUse> indices;
    std::vector<Guard> guards;
    std::vector<std::vector<int64_t>> guard_strides;
  };
  // The operand of a record over loops of these extents, with its memory bound to a parameter of `op`.
  Operand Bound(const OperandRecord& record, Span<const int64_t> loops, LoweredOp* op);

  int Load(TapeWriter* tape, NodeId base, const ir::View& view, NodeId reader, int slot);
  int LoadIndexed(TapeWriter* tape, NodeId id, const ir::View& view);
  int Pointwise(TapeWriter* tape, NodeId id, const ir::View& view);
  int Iota(TapeWriter* tape, NodeId id, const ir::View& view);
  std::optional<int> SmallConstant(TapeWriter* tape, NodeId id);
  int Read(NodeId base, const ir::View& view, NodeId reader, int slot);
  int IndexedOperand(NodeId id, NodeId home_of, const ir::View& data_view, const ir::View& view, Mode mode,
                     const ir::IndexedAttrs& attrs, size_t first_index, const std::string& key);
  int AddMap(const ir::View& view, NodeId reader, int slot);
  std::string Key(char kind, NodeId id, const ir::View& view) const;
  const std::vector<int64_t>& DomainStrides() const { return space_.LogicalStrides(domain_map_); }

  Context& c_;
  int group_;
  IterationSpace& space_;
  int domain_map_ = 0;
  bool collecting_ = true;
  Intercept intercept_;
  Obstacle obstacle_;
  NodeId reader_ = ir::kNoNode;  // the node whose input is being evaluated
  int slot_ = 0;
  std::vector<OperandRecord> operands_;
  std::unordered_map<std::string, int> operand_keys_, map_keys_;
  std::map<int, std::pair<NodeId, int>> blame_;
};

}  // namespace rondo::fusion
