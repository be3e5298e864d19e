// Row reductions: pointwise–reduction–pointwise clusters become stages.
//
// A member's level is the number of reductions of the cluster before it. Elements of level s are computed in
// per-element stage s, whose end performs the reductions of level s; values computed per row from them (level
// s + 1) follow in a per-row stage. An element that a later stage needs again is recomputed, unless keeping
// the row costs less.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/fusion/emit_groups.h"

namespace rondo::fusion {

namespace {

class RowPart {
 public:
  RowPart(Context* context, const Group& group)
      : c_(*context), group_(group), builder_(context, group.id, &space_) {
    elements_.insert(group.elements.begin(), group.elements.end());
    rows_.insert(group.rows.begin(), group.rows.end());
    members_.assign(group.elements.begin(), group.elements.end());
    members_.insert(members_.end(), group.rows.begin(), group.rows.end());
    std::sort(members_.begin(), members_.end(),
              [&](NodeId a, NodeId b) { return c_.position[a] < c_.position[b]; });
  }

  Status Emit(LoweredOp* op, Obstacle* obstacle) {
    FindLevels();
    FindStages();
    GiveSlots();
    if (slots_of_.size() > kMaxSlots || kept_.size() > kMaxSlots) {
      *obstacle = {true, group_.nodes[0], -1, "too many row values"};
      return Status::Ok();
    }
    AddDomain(group_.domain, &space_, &builder_);
    for (int d = 0; d < group_.domain.rank; ++d) {
      bool reduced = group_.reduced[d] != group_.domain[d];
      space_.SetRole(d, reduced ? Role::kReduced : Role::kOuter);
    }
    element_view_ = ir::DenseView(group_.domain);
    row_view_ = ir::Expand(ir::DenseView(group_.reduced), group_.domain);
    builder_.SetIntercept(
        [this](TapeWriter* tape, NodeId id, const View& view) { return Special(tape, id, view); });
    WriteStages();
    if (builder_.obstacle().found || !space_.Resolve()) {
      *obstacle = builder_.obstacle().found ? builder_.obstacle() : builder_.ObstacleOf(space_.failed());
      return Status::Ok();
    }
    space_.Arrange(FollowsMemory() ? builder_.LargestMap() : 0, {Role::kOuter, Role::kReduced});
    builder_.BeginEmitting();
    Part part;
    part.skeleton = Skeleton::kReduction;
    part.stages = c_.program.arena->Copy(WriteStages());
    part.scalars = static_cast<uint8_t>(slots_of_.size());
    part.kept = static_cast<uint8_t>(kept_.size());
    return builder_.Finish(part, op);
  }

 private:
  bool IsReduce(NodeId id) const { return c_.node(id).op == Op::kReduce; }

  // Whether GPUs walk the elements in memory order: every reduction allows any order, except the first or
  // last position of an extreme.
  bool FollowsMemory() const {
    return c_.options.target.many_threads && std::none_of(members_.begin(), members_.end(), [&](NodeId id) {
             if (!IsReduce(id)) return false;
             const ir::ReduceKind kind = c_.node(id).As<ir::ReduceAttrs>().kind;
             return kind == ir::ReduceKind::kArgMax || kind == ir::ReduceKind::kArgMin;
           });
  }

  bool LeavesGroup(NodeId id) const {
    if (c_.stored[id]) return true;
    return std::any_of(c_.readers[id].begin(), c_.readers[id].end(),
                       [&](NodeId r) { return !c_.InGroup(r, group_.id); });
  }

  int LevelOf(NodeId id) const {
    auto it = level_.find(id);
    return it == level_.end() ? 0 : it->second;
  }

  void FindLevels() {
    for (NodeId id : members_) {
      int level = 0;
      for (NodeId input : c_.node(id).inputs) level = std::max(level, LevelOf(c_.base(input)));
      level_[id] = level + (IsReduce(id) ? 1 : 0);
      last_ = std::max(last_, level_[id]);
    }
  }

  static bool Dear(const Node& node) {
    switch (node.As<ir::PointwiseAttrs>().op) {
      case TapeOp::kExp:
      case TapeOp::kLog:
      case TapeOp::kPow:
      case TapeOp::kTanh:
      case TapeOp::kErf:
      case TapeOp::kSigmoid:
      case TapeOp::kSin:
      case TapeOp::kCos:
      case TapeOp::kDiv: return true;
      default: return false;
    }
  }

  int64_t RowElements() const { return group_.domain.elements() / group_.reduced.elements(); }
  // Whether one more value of each element can be kept on chip.
  bool IsKeptOnChip() const {
    const FuseOptions& options = c_.options;
    const bool shared = options.least_shared_row <= RowElements() &&
                        RowElements() <= options.most_shared_row &&
                        group_.reduced.elements() <= options.most_shared_rows;
    return RowElements() <= options.longest_kept_row || (shared && kept_.empty());
  }

  // For each element: the stages that compute it, the last that might, and whether it is kept.
  void FindStages() {
    std::map<NodeId, std::set<int>> needed;
    for (size_t i = members_.size(); i-- > 0;) {
      NodeId id = members_[i];
      const Node& node = c_.node(id);
      int& last = last_stage_[id];
      last = std::max(last, level_[id]);
      for (NodeId input : node.inputs) {
        int& of_input = last_stage_[c_.base(input)];
        if (elements_.count(c_.base(input)) > 0) of_input = std::max(of_input, last - (IsReduce(id) ? 1 : 0));
      }
      if (rows_.count(id) > 0) {
        if (IsReduce(id)) needed[c_.base(node.inputs[0])].insert(level_[id] - 1);
        continue;
      }
      std::set<int> stages = needed[id];
      if (LeavesGroup(id)) stages.insert(level_[id]);
      bool again = !stages.empty() && *stages.rbegin() > level_[id];
      if (again && Dear(node) && IsKeptOnChip()) {
        kept_.emplace(id, static_cast<int>(kept_.size()));
        stages = {level_[id]};
      }
      for (NodeId input : node.inputs) {
        NodeId base = c_.base(input);
        if (elements_.count(base) > 0) needed[base].insert(stages.begin(), stages.end());
      }
    }
  }

  // When a row value is computed and last read: 2 * level in a per-row stage, one more in the per-element
  // stage after it.
  int Made(NodeId id) const { return 2 * level_.at(id) - (IsReduce(id) ? 1 : 0); }
  int LastRead(NodeId id) const {
    int last = -1;
    for (NodeId reader : c_.readers[id]) {
      if (!c_.InGroup(reader, group_.id)) continue;
      const bool row = rows_.count(reader) > 0;
      if (row && level_.at(reader) == level_.at(id) && !IsReduce(id)) continue;
      const auto stage = last_stage_.find(reader);
      const int at =
          row ? 2 * level_.at(reader) : 2 * (stage == last_stage_.end() ? last_ : stage->second) + 1;
      last = std::max(last, at);
    }
    return last;
  }

  // Gives row values that elements or later rows read a scalar slot: one whose value is not read any more,
  // among those that are set in the same way. Values set per row are set after everything that the stage
  // reads.
  void GiveSlots() {
    std::vector<NodeId> values;
    for (NodeId id : members_) {
      if (rows_.count(id) > 0 && (IsReduce(id) || LastRead(id) >= 0)) values.push_back(id);
    }
    std::stable_sort(values.begin(), values.end(), [&](NodeId a, NodeId b) { return Made(a) < Made(b); });
    for (NodeId id : values) {
      const int made = Made(id), last = std::max(LastRead(id), made + 1);
      const auto free = std::find_if(slots_of_.begin(), slots_of_.end(), [&](const Slot& slot) {
        return IsMadeLike(slot.value, id) && (IsReduce(id) ? slot.last < made : slot.last <= made);
      });
      slots_.emplace(id, static_cast<int>(free - slots_of_.begin()));
      if (free == slots_of_.end()) {
        slots_of_.push_back({id, last});
      } else {
        *free = {id, last};
      }
    }
  }
  bool IsMadeLike(NodeId a, NodeId b) const {
    const Node &x = c_.node(a), &y = c_.node(b);
    if (IsReduce(a) != IsReduce(b) || NaturalType(x.dtype) != NaturalType(y.dtype)) return false;
    if (!IsReduce(a)) return true;
    const auto &p = x.As<ir::ReduceAttrs>(), &q = y.As<ir::ReduceAttrs>();
    const auto read = [&](const Node& n) { return NaturalType(c_.node(n.inputs[0]).dtype); };
    return p.kind == q.kind && p.last_index == q.last_index && read(x) == read(y);
  }

  std::optional<int> Special(TapeWriter* tape, NodeId id, const View& view) {
    TapeInst inst;
    inst.type = NaturalType(c_.node(id).dtype);
    if (rows_.count(id) > 0) {
      bool here = per_row_ && level_[id] == stage_ && !IsReduce(id);
      auto slot = slots_.find(id);
      if (here || slot == slots_.end()) return std::nullopt;
      inst.op = TapeOp::kScalar;
      inst.arg = static_cast<uint16_t>(slot->second);
      return tape->Add(inst);
    }
    auto kept = kept_.find(id);
    if (kept == kept_.end() || level_[id] >= stage_) return std::nullopt;
    // A kept value belongs to this point; another point's is recomputed.
    if (!ir::IsDense(view, group_.domain.elements())) return std::nullopt;
    inst.op = TapeOp::kKept;
    inst.arg = static_cast<uint16_t>(kept->second);
    return tape->Add(inst);
  }

  TapeInst Effect(TapeOp op, const TapeWriter& tape, int arg, int reg, int64_t imm = 0) const {
    TapeInst inst;
    inst.op = op;
    inst.type = tape.type(reg);
    inst.arg = static_cast<uint16_t>(arg);
    inst.a = static_cast<uint16_t>(reg);
    inst.imm.i = imm;
    return inst;
  }

  TapeWriter ElementStage() {
    TapeWriter tape;
    for (NodeId id : members_) {
      if (elements_.count(id) == 0 || level_[id] != stage_) continue;
      bool leaves = LeavesGroup(id);
      auto kept = kept_.find(id);
      if (!leaves && kept == kept_.end()) continue;
      if (kept != kept_.end())
        tape.Add(Effect(TapeOp::kKeep, tape, kept->second, builder_.Value(&tape, id, element_view_)));
      if (leaves) StoreResult(c_, id, element_view_, &builder_, &tape);
    }
    for (NodeId id : members_) {
      if (!IsReduce(id) || level_[id] != stage_ + 1) continue;
      const ir::ReduceAttrs& attrs = c_.node(id).As<ir::ReduceAttrs>();
      constexpr TapeOp kOps[] = {TapeOp::kReduceSum, TapeOp::kReduceProd,   TapeOp::kReduceMax,
                                 TapeOp::kReduceMin, TapeOp::kReduceArgMax, TapeOp::kReduceArgMin};
      int reg = builder_.InputValue(&tape, id, 0, element_view_);
      TapeInst inst = Effect(kOps[static_cast<int>(attrs.kind)], tape, slots_.at(id), reg, attrs.last_index);
      inst.type = NaturalType(c_.node(id).dtype);
      tape.Add(inst);
    }
    return tape;
  }

  TapeWriter RowStage() {
    TapeWriter tape;
    std::vector<std::pair<int, int>> sets;  // slot, register
    for (NodeId id : members_) {
      if (rows_.count(id) == 0 || level_[id] != stage_) continue;
      bool leaves = LeavesGroup(id);
      auto slot = slots_.find(id);
      bool set = slot != slots_.end() && !IsReduce(id);
      if (!leaves && !set) continue;
      if (set) sets.emplace_back(slot->second, builder_.Value(&tape, id, row_view_));
      if (leaves) StoreResult(c_, id, row_view_, &builder_, &tape);
    }
    for (const auto& [slot, reg] : sets) tape.Add(Effect(TapeOp::kSetScalar, tape, slot, reg));
    return tape;
  }

  std::vector<Stage> WriteStages() {
    std::vector<Stage> stages;
    auto add = [&](bool per_row, const TapeWriter& tape) {
      if (tape.insts().empty()) return;
      Stage stage;
      stage.per_row = per_row;
      if (!builder_.collecting()) stage.tape = builder_.CopyTape(tape);
      stages.push_back(stage);
    };
    for (stage_ = 0; stage_ <= last_; ++stage_) {
      per_row_ = true;
      add(true, RowStage());
      per_row_ = false;
      add(false, ElementStage());
    }
    return stages;
  }

  Context& c_;
  const Group& group_;
  IterationSpace space_;
  PartEmitter builder_;
  std::set<NodeId> elements_, rows_;
  std::vector<NodeId> members_;  // by position
  std::map<NodeId, int> level_, last_stage_, kept_, slots_;
  struct Slot {
    NodeId value;  // in this slot
    int last;      // last read of the value
  };
  std::vector<Slot> slots_of_;
  int last_ = 0;
  View element_view_, row_view_;
  int stage_ = 0;
  bool per_row_ = false;
};

}  // namespace

Status EmitReduction(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  return RowPart(context, group).Emit(op, obstacle);
}

}  // namespace rondo::fusion
