#include "compiler/fusion/part_emitter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/ir/builder.h"
#include "core/scalar.h"

namespace rondo::fusion {

namespace {

bool IsComparison(TapeOp op) { return GivesTruth(ClassOf(op)); }

// Whether every value of `from` is a value of `to`, so that a cast needs no rounding.
bool Widens(DType from, DType to) {
  if (from == to) return true;
  if (NaturalType(from) != NaturalType(to)) return false;
  if (IsFloat(from)) return to == DType::kF32;
  return to == DType::kI64 || to == DType::kU64 || from == DType::kBool;
}

TapeInst Inst(TapeOp op, TapeType type, int arg = 0, int a = 0, int b = 0, int c = 0, int64_t imm = 0) {
  TapeInst inst;
  inst.op = op;
  inst.type = type;
  inst.arg = static_cast<uint16_t>(arg);
  inst.a = static_cast<uint16_t>(a);
  inst.b = static_cast<uint16_t>(b);
  inst.c = static_cast<uint16_t>(c);
  inst.imm.i = imm;
  return inst;
}

}  // namespace

std::string PartEmitter::Key(char kind, NodeId id, const View& view) const {
  std::string key = {kind, 0};  // different from the names that emitters give to operands
  const auto add = [&](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  add(domain_map_);
  add(id);
  for (const ir::ViewStep& step : view.steps) {
    add(step.shape.rank);
    add(step.offset);
    for (int d = 0; d < step.shape.rank; ++d) {
      add(step.shape[d]);
      add(step.strides[d]);
    }
  }
  return key;
}

int PartEmitter::AddMap(const View& view, NodeId reader, int slot) {
  int map = space_.AddMap(view, 0, DomainStrides());
  blame_[map] = {reader, slot};
  return map;
}

int PartEmitter::AddOperand(NodeId base, Mode mode, int map, const std::string& key) {
  OperandRecord record;
  record.value = HomeOf(&c_, base).value;
  record.dtype = c_.node(base).dtype;
  record.mode = mode;
  record.map = map;
  operands_.push_back(std::move(record));
  int index = static_cast<int>(operands_.size()) - 1;
  operand_keys_[key] = index;
  return index;
}

void PartEmitter::SetGuards(int operand, std::vector<Guard> guards, std::vector<std::vector<int64_t>> strides,
                            double absent) {
  operands_[operand].guards = std::move(guards);
  operands_[operand].guard_strides = std::move(strides);
  operands_[operand].absent = absent;
}

Obstacle PartEmitter::ObstacleOf(int map) const {
  Obstacle obstacle;
  obstacle.found = true;
  auto it = blame_.find(map);
  if (it != blame_.end()) {
    obstacle.reader = it->second.first;
    obstacle.slot = it->second.second;
  }
  return obstacle;
}

bool PartEmitter::Moves(int operand, int loop) const {
  const OperandRecord& record = operands_[operand];
  return space_.Strides(record.map)[loop] != 0 ||
         std::any_of(record.indices.begin(), record.indices.end(),
                     [&](const IndexUse& use) { return Moves(use.operand, loop); });
}

bool PartEmitter::Counts(int loop) const {  // map_keys_: only counters have maps without operands
  return std::any_of(map_keys_.begin(), map_keys_.end(),
                     [&](const auto& entry) { return space_.Strides(entry.second)[loop] != 0; });
}

int PartEmitter::WrittenMap() const {
  for (const OperandRecord& record : operands_) {
    if (record.mode == Mode::kWrite) return record.map;
  }
  return LargestMap();
}

int PartEmitter::LargestMap() const {
  int largest = domain_map_;
  int64_t most = 0;
  for (const OperandRecord& record : operands_) {
    int64_t touched = 1;
    for (int l = 0; l < space_.loops(); ++l)
      touched *= space_.Strides(record.map)[l] == 0 ? 1 : space_.extent(l);
    if (touched <= most) continue;
    most = touched;
    largest = record.map;
  }
  return largest;
}

// The operand that reads `base` through `view` (over the domain, into base's dense index space).
int PartEmitter::Read(NodeId base, const View& view, NodeId reader, int slot) {
  std::string key = Key('r', base, view);
  auto it = operand_keys_.find(key);
  if (it != operand_keys_.end()) return it->second;
  int map = AddMap(ir::Compose(HomeOf(&c_, base).placement, view), reader, slot);
  return AddOperand(base, Mode::kRead, map, key);
}

int PartEmitter::Load(TapeWriter* tape, NodeId base, const View& view, NodeId reader, int slot) {
  int operand = Read(base, view, reader, slot);
  return tape->Add(Inst(TapeOp::kLoad, NaturalType(c_.node(base).dtype), operand));
}

std::optional<int> PartEmitter::SmallConstant(TapeWriter* tape, NodeId id) {
  const Node& node = c_.node(id);
  if (node.op != Op::kConstant || node.shape.elements() != 1) return std::nullopt;
  const ir::ConstantData& data = *node.As<ir::ConstantAttrs>().data;
  if (data.synthetic || data.bytes.size() != static_cast<size_t>(ByteSize(data.dtype))) return std::nullopt;
  TapeInst inst = Inst(TapeOp::kConst, NaturalType(data.dtype));
  if (inst.type == TapeType::kI64) {
    inst.imm.i = scalar::Load<int64_t>(data.dtype, data.bytes.data(), 0);
  } else {
    inst.imm.f = scalar::Load<double>(data.dtype, data.bytes.data(), 0);
  }
  return tape->Add(inst);
}

int PartEmitter::Value(TapeWriter* tape, NodeId id, const View& view) {
  const Node& node = c_.node(id);
  if (node.op == Op::kView)
    return Value(tape, node.inputs[0], ir::Compose(node.As<ir::ViewAttrs>().view, view));
  std::string key = Key('v', id, view);
  auto it = tape->memo.find(key);
  if (it != tape->memo.end()) return it->second;
  int reg = -1;
  if (intercept_) {
    if (std::optional<int> special = intercept_(tape, id, view)) reg = *special;
  }
  if (reg < 0) {
    if (std::optional<int> constant = SmallConstant(tape, id)) {
      reg = *constant;
    } else if (c_.InGroup(id, group_) && node.op == Op::kPointwise) {
      reg = Pointwise(tape, id, view);
    } else if (c_.InGroup(id, group_) && node.op == Op::kIndexedRead) {
      reg = LoadIndexed(tape, id, view);
    } else if (node.op == Op::kIota && (c_.group_of[id] < 0 || c_.InGroup(id, group_))) {
      reg = Iota(tape, id, view);
    } else {
      reg = Load(tape, id, view, reader_, slot_);
    }
  }
  tape->memo[key] = reg;
  return reg;
}

int PartEmitter::InputValue(TapeWriter* tape, NodeId reader, int slot, const View& view) {
  NodeId outer_reader = reader_;
  int outer_slot = slot_;
  reader_ = reader;
  slot_ = slot;
  int reg = Value(tape, c_.node(reader).inputs[static_cast<size_t>(slot)], view);
  reader_ = outer_reader;
  slot_ = outer_slot;
  return reg;
}

namespace {

// Whether a register holds integers (or NaN).
bool IsWhole(const TapeWriter& tape, int reg, int depth = 0) {
  const TapeInst& inst = tape.insts()[static_cast<size_t>(reg)];
  constexpr int kMostDepth = 4;
  switch (inst.op) {
    case TapeOp::kRound:
    case TapeOp::kFloor:
    case TapeOp::kCeil:
    case TapeOp::kTrunc: return true;
    case TapeOp::kConst: return inst.imm.f == std::trunc(inst.imm.f);
    case TapeOp::kCast: return tape.type(inst.a) == TapeType::kI64;
    case TapeOp::kAdd:
    case TapeOp::kMin:
    case TapeOp::kMax:
      return depth < kMostDepth && IsWhole(tape, inst.a, depth + 1) && IsWhole(tape, inst.b, depth + 1);
    default: return false;
  }
}

// The float in register `reg` before it was cast to a narrow integer, if the cast changed nothing: rounded
// and clamped to the type's range, as in quantisation. -1: none.
int BeforeNarrowing(const TapeWriter& tape, int reg) {
  const TapeInst& cast = tape.insts()[static_cast<size_t>(reg)];
  if (cast.op != TapeOp::kCast || tape.type(cast.a) != TapeType::kF32) return -1;
  double low = 0, high = 0;
  switch (static_cast<DType>(cast.imm.i)) {
    case DType::kI8: low = -128, high = 127; break;
    case DType::kU8: low = 0, high = 255; break;
    case DType::kI16: low = -32768, high = 32767; break;
    case DType::kU16: low = 0, high = 65535; break;
    default: return -1;
  }
  // Whether it is `op` of a value and a constant of at least (kMax), or at most (kMin), `limit`.
  const auto clamps = [&](const TapeInst& inst, TapeOp op, double limit) {
    const TapeInst& other = tape.insts()[inst.b];
    if (inst.op != op || other.op != TapeOp::kConst) return false;
    return op == TapeOp::kMin ? other.imm.f <= limit : other.imm.f >= limit;
  };
  const TapeInst& least = tape.insts()[cast.a];
  if (!clamps(least, TapeOp::kMin, high)) return -1;
  if (!clamps(tape.insts()[least.a], TapeOp::kMax, low) || tape.insts()[least.b].imm.f < low) return -1;
  return IsWhole(tape, cast.a) ? cast.a : -1;
}

}  // namespace

int PartEmitter::Pointwise(TapeWriter* tape, NodeId id, const View& view) {
  const Node& node = c_.node(id);
  const ir::PointwiseAttrs& attrs = node.As<ir::PointwiseAttrs>();
  int regs[3] = {};
  for (size_t k = 0; k < node.inputs.size() && k < 3; ++k)
    regs[k] = InputValue(tape, id, static_cast<int>(k), view);
  TapeType type = IsComparison(attrs.op) ? TapeType::kI64 : NaturalType(node.dtype);
  if (attrs.op == TapeOp::kCast) {
    DType from = c_.node(node.inputs[0]).dtype;
    if (Widens(from, node.dtype)) return regs[0];
    const int before = node.dtype == DType::kF32 ? BeforeNarrowing(*tape, regs[0]) : -1;
    if (before >= 0) return before;
    return tape->Add(Inst(TapeOp::kCast, type, 0, regs[0], 0, 0, static_cast<int64_t>(node.dtype)));
  }
  if (attrs.op == TapeOp::kAssertFinite) {
    const bool rounds = ByteSize(node.dtype) < 4;  // to memory, where a large number becomes infinity
    const int seen =
        rounds ? tape->Add(Inst(TapeOp::kCast, type, 0, regs[0], 0, 0, static_cast<int64_t>(node.dtype)))
               : regs[0];
    tape->Add(Inst(attrs.op, type, 0, seen, 0, 0, attrs.immediate));
    return regs[0];
  }
  int reg = tape->Add(Inst(attrs.op, type, 0, regs[0], regs[1], regs[2], attrs.immediate));
  bool wraps = type == TapeType::kI64 && node.dtype != DType::kI64 && node.dtype != DType::kU64 &&
               node.dtype != DType::kBool && attrs.op != TapeOp::kSelect && attrs.op != TapeOp::kMin &&
               attrs.op != TapeOp::kMax;
  if (!wraps) return reg;
  return tape->Add(Inst(TapeOp::kCast, type, 0, reg, 0, 0, static_cast<int64_t>(node.dtype)));
}

// The coordinate along an axis is the element index of a one-dimensional counting tensor.
int PartEmitter::Iota(TapeWriter* tape, NodeId id, const View& view) {
  const Node& node = c_.node(id);
  int axis = node.As<ir::IotaAttrs>().axis;
  View count;
  ir::ViewStep step;
  step.shape = node.shape;
  step.strides[axis] = 1;
  count.steps.push_back(step);
  std::string key = Key('i', id, view);
  if (collecting_) {
    if (map_keys_.count(key) == 0) map_keys_[key] = AddMap(ir::Compose(count, view), reader_, slot_);
    return tape->Add(Inst(TapeOp::kConst, TapeType::kI64));
  }
  int map = map_keys_.at(key);
  int sum = tape->Add(Inst(TapeOp::kConst, TapeType::kI64, 0, 0, 0, 0, space_.Offset(map)));
  for (int l = 0; l < space_.loops(); ++l) {
    int64_t stride = space_.Strides(map)[l];
    if (stride == 0) continue;
    int term = tape->Add(Inst(TapeOp::kIndex, TapeType::kI64, l));
    if (stride != 1) {
      int factor = tape->Add(Inst(TapeOp::kConst, TapeType::kI64, 0, 0, 0, 0, stride));
      term = tape->Add(Inst(TapeOp::kMul, TapeType::kI64, 0, term, factor));
    }
    sum = tape->Add(Inst(TapeOp::kAdd, TapeType::kI64, 0, sum, term));
  }
  return sum;
}

// `view` shows the indices' shape over the domain. The data-dependent coordinates move through data's dense
// index space, which `data_view` maps into its home.
int PartEmitter::IndexedOperand(NodeId id, NodeId home_of, const View& data_view, const View& view, Mode mode,
                                const ir::IndexedAttrs& attrs, size_t first_index, const std::string& key) {
  auto it = operand_keys_.find(key);
  if (it != operand_keys_.end()) return it->second;
  const Node& node = c_.node(id);
  std::vector<IndexUse> uses;
  std::vector<int64_t> extents, strides;
  for (size_t k = 0; k < attrs.dims.size(); ++k) {
    NodeId index = node.inputs[first_index + k];
    int slot = static_cast<int>(first_index + k);
    int operand = Read(c_.base(index), ir::Compose(c_.graph.ViewOf(index), view), id, slot);
    const ir::IndexedDim& dim = attrs.dims[k];
    const bool inside =
        ir::Builder(&c_.graph).AlwaysInside(c_.base(index), {dim.stride, dim.extent, /*wrap=*/false});
    uses.push_back({operand, dim.extent, dim.wrap && !inside, dim.fault && !inside});
    extents.push_back(attrs.dims[k].extent);
    strides.push_back(attrs.dims[k].stride);
  }
  View storage = ir::Compose(HomeOf(&c_, home_of).placement, data_view);
  int map = AddMap(ir::Compose(attrs.map, view), id, -1);
  bool dense = ir::IsDense(storage, storage.shape().elements());
  if (!space_.Resolve()) {
    obstacle_ = ObstacleOf(space_.failed());
    return AddOperand(home_of, mode, map, key);
  }
  std::vector<int64_t> walk = space_.Strides(map);
  int64_t offset = space_.Offset(map);
  // Without a storage view of its own, the coordinates move plainly.
  View below = dense ? View{} : storage;
  if (dense) {
    ir::ViewStep flat;
    flat.shape = Shape{storage.shape().elements()};
    flat.strides[0] = 1;
    below.steps.push_back(flat);
  }
  int final_map = space_.AddMap(below, offset, walk, extents, strides);
  blame_[final_map] = {id, mode == Mode::kRead ? 0 : -1};
  int operand = AddOperand(home_of, mode, final_map, key);
  operands_[operand].indices = std::move(uses);
  return operand;
}

int PartEmitter::LoadIndexed(TapeWriter* tape, NodeId id, const View& view) {
  const Node& node = c_.node(id);
  NodeId data = node.inputs[0];
  int operand = IndexedOperand(id, c_.base(data), c_.graph.ViewOf(data), view, Mode::kRead,
                               node.As<ir::IndexedAttrs>(), 1, Key('g', id, view));
  return tape->Add(Inst(TapeOp::kLoad, NaturalType(node.dtype), operand));
}

void PartEmitter::Store(TapeWriter* tape, NodeId id, const View& view, int reg) {
  std::string key = Key('s', id, view);
  auto it = operand_keys_.find(key);
  int operand;
  if (it != operand_keys_.end()) {
    operand = it->second;
  } else {
    int map = AddMap(ir::Compose(HomeOf(&c_, id).placement, view), id, -1);
    operand = AddOperand(id, Mode::kWrite, map, key);
  }
  tape->Add(Inst(TapeOp::kStore, tape->type(reg), operand, reg));
}

void PartEmitter::StoreIndexed(TapeWriter* tape, NodeId id, const View& view, int reg) {
  const Node& node = c_.node(id);
  const ir::IndexedAttrs& attrs = node.As<ir::IndexedAttrs>();
  Mode mode = attrs.combine == ir::ScatterCombine::kNone ? Mode::kWrite : Mode::kReadWrite;
  int operand = IndexedOperand(id, id, ir::DenseView(node.shape), view, mode, attrs, 2, Key('w', id, view));
  if (c_.options.target.atomics && ir::CombinesIntoOne(node)) {
    const bool max = attrs.combine == ir::ScatterCombine::kMax;
    tape->Add(Inst(max ? TapeOp::kCombineMax : TapeOp::kCombineMin, TapeType::kF32, operand, reg));
    return;
  }
  if (mode == Mode::kReadWrite) {
    TapeOp ops[] = {TapeOp::kAdd, TapeOp::kAdd, TapeOp::kMul, TapeOp::kMax, TapeOp::kMin};
    int old = tape->Add(Inst(TapeOp::kLoad, NaturalType(node.dtype), operand));
    reg = tape->Add(Inst(ops[static_cast<int>(attrs.combine)], NaturalType(node.dtype), 0, old, reg));
  }
  tape->Add(Inst(TapeOp::kStore, tape->type(reg), operand, reg));
}

Operand PartEmitter::Bound(const OperandRecord& record, Span<const int64_t> loops, LoweredOp* op) {
  Arena& arena = *c_.program.arena;
  Operand operand;
  operand.dtype = record.dtype;
  operand.mode = record.mode;
  operand.absent = record.absent;
  int64_t offset = space_.Offset(record.map), low = offset;
  const std::vector<int64_t>& strides = space_.Strides(record.map);
  for (size_t l = 0; l < loops.size(); ++l) low += std::min<int64_t>(0, strides[l] * (loops[l] - 1));
  std::vector<Indirect> indirects;
  for (size_t k = 0; k < record.indices.size(); ++k) {
    const IndexUse& use = record.indices[k];
    Indirect indirect;
    indirect.operand = static_cast<uint16_t>(use.operand);
    indirect.wrap = use.wrap;
    indirect.fault = use.fault;
    indirect.stride = space_.ExtraStrides(record.map)[k];
    indirect.extent = use.extent;
    low += std::min<int64_t>(0, indirect.stride * (use.extent - 1));
    indirects.push_back(indirect);
  }
  std::vector<Guard> guards = record.guards;
  for (size_t g = 0; g < guards.size(); ++g) {
    guards[g].strides = arena.Copy(record.guard_strides[g]);
    low += std::min<int64_t>(0, guards[g].stride * (guards[g].extent - 1));
  }
  operand.offset = offset - low;
  operand.strides = arena.Copy(strides);
  operand.indirects = arena.Copy(indirects);
  operand.guards = arena.Copy(guards);
  uint64_t bytes = static_cast<uint64_t>(low * ByteSize(record.dtype));
  auto same = [&](const LoweredBinding& b) { return b.value == record.value && b.byte_offset == bytes; };
  auto it = std::find_if(op->params.begin(), op->params.end(), same);
  if (it == op->params.end()) {
    op->params.push_back({record.value, bytes, record.mode});
    it = op->params.end() - 1;
  } else if (it->mode != record.mode) {
    it->mode = Mode::kReadWrite;
  }
  operand.param = static_cast<uint16_t>(it - op->params.begin());
  return operand;
}

Status PartEmitter::Finish(Part part, LoweredOp* op) {
  Arena& arena = *c_.program.arena;
  std::vector<int64_t> loops;
  for (int l = 0; l < space_.loops(); ++l) loops.push_back(space_.extent(l));
  if (loops.size() > static_cast<size_t>(kMaxLoops)) {
    return Status::Error(Code::kUnsupported, "a kernel would need %zu nested loops; the limit is %d",
                         loops.size(), kMaxLoops);
  }
  std::vector<Operand> operands;
  for (const OperandRecord& record : operands_) operands.push_back(Bound(record, loops, op));
  part.loops = arena.Copy(loops);
  part.operands = arena.Copy(operands);
  part.outer = static_cast<uint8_t>(space_.CountOf(Role::kOuter));
  part.m = static_cast<uint8_t>(space_.CountOf(Role::kM));
  part.n = static_cast<uint8_t>(space_.CountOf(Role::kN));
  part.reduced = static_cast<uint8_t>(space_.CountOf(Role::kReduced));
  part.features = static_cast<uint8_t>(space_.CountOf(Role::kFeature));
  op->kernel.num_params = static_cast<uint16_t>(op->params.size());
  std::vector<Part> parts = {part};
  op->kernel.parts = arena.Copy(parts);
  return Status::Ok();
}

}  // namespace rondo::fusion
