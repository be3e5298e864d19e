#include "compiler/codegen/store_panels.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/codegen/weight_table.h"
#include "core/walk_order.h"
#include "core/weight_panels.h"

namespace rondo {
namespace {

constexpr int64_t kRowsToStream = 8;  // with so few rows, a host reads B once, in place
constexpr int64_t kLeastDepth = 8;
constexpr int64_t kMostWeightBytes = 64 << 20;

// A loop, or one of the two that it is split into, along a weight: its extent, and the stride of the weight.
struct WalkedLoop {
  int loop = 0;
  bool inner = false;  // the lanes of a panel
  int64_t extent = 1, stride = 0;
};
// The loops that walk a weight, in the order in which they will lie in memory, outermost first.
using Walk = std::vector<WalkedLoop>;

// The loops of a part by their roles for B; N's last loop of several points becomes panels.
struct Roles {
  std::vector<int> outer, n, k;
  int64_t rows = 1;

  explicit Roles(const Part& part) {
    const int all = static_cast<int>(part.loops.size()), k_at = all - part.reduced;
    const bool convolution = part.skeleton == Skeleton::kConvolution;
    for (int d = 0; d < all; ++d) {
      if (d >= k_at) {
        k.push_back(d);
      } else if (convolution ? d == 2 : d >= part.outer + part.m) {
        n.push_back(d);
      } else if (convolution ? d == 1 : d < part.outer) {
        outer.push_back(d);
      } else {
        rows *= part.loops[static_cast<size_t>(d)];
      }
    }
    const auto single = [&](int d) { return part.loops[static_cast<size_t>(d)] == 1; };
    for (std::vector<int>* list : {&outer, &n, &k}) std::erase_if(*list, single);
    if (convolution) OrderForOperand(part.operands[part.lhs], k.data(), static_cast<int>(k.size()));
  }
};

bool CountsPoints(const Part& part) {
  bool counts = false;
  ForEachTape(part, [&](Tape tape) {
    for (const TapeInst& inst : tape) counts |= inst.op == TapeOp::kIndex;
  });
  return counts;
}

// Whether the loops walk each of `elements` once.
bool CoversAll(Walk walk, int64_t elements) {
  std::sort(walk.begin(), walk.end(),
            [](const WalkedLoop& a, const WalkedLoop& b) { return a.stride < b.stride; });
  int64_t run = 1;
  for (const WalkedLoop& loop : walk) {
    if (loop.stride != run) return false;
    run *= loop.extent;
  }
  return run == elements;
}

// How the part would walk the weight of this operand in panels; nothing if it cannot, or should not.
std::optional<Walk> PanelsFor(const Part& part, uint16_t index, int64_t elements) {
  const bool convolution = part.skeleton == Skeleton::kConvolution && part.combine == Combine::kProduct;
  const Operand& weight = part.operands[index];
  if ((part.skeleton != Skeleton::kMatMul && !convolution) || part.acc_type != TapeType::kF32 ||
      part.packed.type != PackedType::kNone || CountsPoints(part) ||
      std::find(part.rhs.begin(), part.rhs.end(), index) == part.rhs.end() || weight.dtype != DType::kF32 ||
      weight.offset != 0 || !weight.guards.empty() || !weight.indirects.empty()) {
    return std::nullopt;
  }
  const Roles roles(part);
  int64_t depth = 1;
  for (int d : roles.k) depth *= part.loops[static_cast<size_t>(d)];
  if (roles.rows <= kRowsToStream || depth < kLeastDepth || roles.n.empty()) return std::nullopt;
  const int last = roles.n.back();
  const int64_t columns = part.loops[static_cast<size_t>(last)];
  const bool splits = columns > kStoredColumns;
  if (columns % kStoredColumns != 0 || (splits && !convolution && part.loops.size() == kMaxLoops))
    return std::nullopt;
  if (convolution && (weight.strides[2] != 1 || (splits && part.loops[1] != 1))) return std::nullopt;
  Walk walk;
  const auto add = [&](const std::vector<int>& loops) {
    for (int d : loops) {
      const size_t at = static_cast<size_t>(d);
      if (d != last) walk.push_back({d, false, part.loops[at], weight.strides[at]});
    }
  };
  const int64_t step = weight.strides[static_cast<size_t>(last)];
  add(roles.outer);
  std::erase_if(walk, [](const WalkedLoop& loop) { return loop.stride == 0; });  // batches that share it
  add(roles.n);
  if (splits) walk.push_back({last, false, columns / kStoredColumns, step * kStoredColumns});
  add(roles.k);
  walk.push_back({last, true, kStoredColumns, step});
  return CoversAll(walk, elements) ? std::optional(walk) : std::nullopt;
}

// The dims of a walk, joined where two are one: walks of equal dims read the same order.
std::vector<ir::IndexDim> DimsOf(const Walk& walk) {
  std::vector<ir::IndexDim> dims;
  for (const WalkedLoop& loop : walk) {
    if (!dims.empty() && dims.back().stride == loop.stride * loop.extent) {
      dims.back() = {dims.back().extent * loop.extent, loop.stride};
    } else {
      dims.push_back({loop.extent, loop.stride});
    }
  }
  return dims;
}

// The elements in the order of `dims`.
std::shared_ptr<const ir::ConstantData> InOrder(const ir::ConstantData& data,
                                                const std::vector<ir::IndexDim>& dims) {
  std::vector<uint8_t> bytes(data.bytes.size());
  Shape shape;
  for (const ir::IndexDim& dim : dims) shape.dims[shape.rank++] = dim.extent;
  const ir::IndexDim lanes = dims.back();
  const auto* from = data.bytes.data();
  int64_t at = 0, index[kMaxRank] = {};
  for (size_t to = 0; to < bytes.size();) {
    for (int64_t i = 0; i < lanes.extent; ++i, to += 4)
      std::copy_n(from + (at + i * lanes.stride) * 4, 4, bytes.data() + to);
    for (int d = shape.rank - 2; d >= 0; --d) {
      const ir::IndexDim& dim = dims[static_cast<size_t>(d)];
      at += dim.stride;
      if (++index[d] < dim.extent) break;
      at -= dim.stride * dim.extent;
      index[d] = 0;
    }
  }
  auto ordered =
      std::make_shared<ir::ConstantData>(*ir::ConstantData::Own(data.dtype, shape, std::move(bytes)));
  ordered->name = data.name;
  return ordered;
}

// What the kernels of all programs want of a constant.
struct Wanted {
  bool agreed = true;
  std::vector<ir::IndexDim> dims;
  std::shared_ptr<const ir::ConstantData> ordered;

  void Meet(const std::optional<Walk>& walk) {
    if (!walk) {
      agreed = false;
      return;
    }
    const std::vector<ir::IndexDim> other = DimsOf(*walk);
    const auto same = [](const ir::IndexDim& a, const ir::IndexDim& b) {
      return a.extent == b.extent && a.stride == b.stride;
    };
    agreed =
        agreed && (dims.empty() || std::equal(dims.begin(), dims.end(), other.begin(), other.end(), same));
    dims = other;
  }
  bool Changes() const { return agreed && dims.size() > 1 && dims.size() <= kMaxRank; }
};

class Storing {
 public:
  explicit Storing(const std::vector<LoweredProgram*>& programs) : programs_(programs) {}

  std::string Run() {
    for (LoweredProgram* program : programs_) {
      for (const LoweredOp& op : program->ops) Ask(*program, op);
    }
    for (LoweredProgram* program : programs_) {
      for (LoweredOp& op : program->ops) Change(program, &op);
    }
    for (LoweredProgram* program : programs_) Replace(program);
    return std::to_string(weights_) + (weights_ == 1 ? " weight" : " weights") + " in panels";
  }

 private:
  static const LoweredValue& ValueOf(const LoweredProgram& program, const LoweredBinding& param) {
    return program.values[static_cast<size_t>(param.value)];
  }

  // What is wanted of a value; null: it is no constant that could change.
  Wanted* WantedOf(const LoweredValue& value) {
    if (value.constant == nullptr || value.kind != BufferKind::kConstant || value.dtype != DType::kF32)
      return nullptr;
    const ir::ConstantData& data = *value.constant;
    if (data.bytes.empty() || data.byte_size() > kMostWeightBytes) return nullptr;
    return &wanted_[table_.Add(value.constant)];
  }

  void Ask(const LoweredProgram& program, const LoweredOp& op) {
    for (size_t p = 0; p < op.params.size(); ++p) {
      const LoweredValue& value = ValueOf(program, op.params[p]);
      Wanted* wanted = WantedOf(value);
      if (wanted == nullptr) continue;
      const bool whole = op.params[p].byte_offset == 0 && op.params[p].stride == 0;
      wanted->agreed = wanted->agreed && whole && op.kind == LoweredKind::kKernel;
      const int64_t elements = value.constant->shape.elements();
      for (const Part& part : op.kernel.parts) {
        for (size_t o = 0; o < part.operands.size() && wanted->agreed; ++o) {
          if (part.operands[o].param == p) wanted->Meet(PanelsFor(part, static_cast<uint16_t>(o), elements));
        }
      }
    }
  }

  // Splits the loops of parts that read a weight in panels.
  void Change(LoweredProgram* program, LoweredOp* op) {
    if (op->kind != LoweredKind::kKernel) return;
    std::vector<Part> parts(op->kernel.parts.begin(), op->kernel.parts.end());
    bool changed = false;
    for (Part& part : parts) {
      std::map<size_t, Walk> walks;  // by operand
      for (uint16_t o : part.rhs) {
        const LoweredValue& value = ValueOf(*program, op->params[part.operands[o].param]);
        const Wanted* wanted = WantedOf(value);
        if (wanted == nullptr || !wanted->Changes()) continue;
        walks[o] = *PanelsFor(part, o, value.constant->shape.elements());
      }
      if (!walks.empty()) Split(program->arena.get(), walks, &part);
      changed |= !walks.empty();
    }
    if (changed) op->kernel.parts = program->arena->Copy(parts);
  }

  // Strides along the loops after loop `last` is split: its panels are a new loop, or the one before it.
  static Span<const int64_t> SplitStrides(Arena* arena, Span<const int64_t> strides, int last, bool inserts) {
    std::vector<int64_t> list(strides.begin(), strides.end());
    const size_t at = static_cast<size_t>(last);
    const int64_t outer = list[at] * kStoredColumns;
    if (inserts) {
      list.insert(list.begin() + last, outer);
    } else {
      list[at - 1] = outer;
    }
    return arena->Copy(list);
  }

  static void Split(Arena* arena, const std::map<size_t, Walk>& walks, Part* part) {
    const WalkedLoop lanes = walks.begin()->second.back();
    const int last = lanes.loop;
    const int64_t columns = part->loops[static_cast<size_t>(last)];
    const bool splits = columns > kStoredColumns, inserts = splits && part->skeleton == Skeleton::kMatMul;
    std::vector<Operand> operands(part->operands.begin(), part->operands.end());
    if (splits) {
      std::vector<int64_t> loops(part->loops.begin(), part->loops.end());
      if (inserts) loops.insert(loops.begin() + last, 1);
      const size_t inner = static_cast<size_t>(last + (inserts ? 1 : 0));
      loops[inner] = kStoredColumns;
      loops[inner - 1] = columns / kStoredColumns;
      part->loops = arena->Copy(loops);
      part->n = static_cast<uint8_t>(part->n + (inserts ? 1 : 0));
      for (Operand& operand : operands) {
        operand.strides = SplitStrides(arena, operand.strides, last, inserts);
        std::vector<Guard> guards(operand.guards.begin(), operand.guards.end());
        for (Guard& guard : guards) guard.strides = SplitStrides(arena, guard.strides, last, inserts);
        operand.guards = arena->Copy(guards);
      }
    }
    for (const auto& [o, walk] : walks) {
      std::vector<int64_t> strides(part->loops.size(), 0);
      int64_t run = 1;
      for (size_t i = walk.size(); i-- > 0; run *= walk[i].extent) {
        const WalkedLoop& w = walk[i];
        int loop = w.loop + (inserts && (w.loop > last || w.inner) ? 1 : 0);
        if (splits && !inserts && w.loop == last && !w.inner) loop = last - 1;
        strides[static_cast<size_t>(loop)] = run;
      }
      operands[o].strides = arena->Copy(strides);
    }
    part->operands = arena->Copy(operands);
  }

  void Replace(LoweredProgram* program) {
    for (LoweredValue& value : program->values) {
      Wanted* wanted = WantedOf(value);
      if (wanted == nullptr || !wanted->Changes()) continue;
      if (wanted->ordered == nullptr) {
        wanted->ordered = InOrder(*value.constant, wanted->dims);
        ++weights_;
      }
      replaced_.push_back(value.constant);
      value.constant = wanted->ordered;
      value.shape = wanted->ordered->shape;
    }
  }

  const std::vector<LoweredProgram*>& programs_;
  WeightTable table_;
  std::map<uint32_t, Wanted> wanted_;                              // by the constant's number
  std::vector<std::shared_ptr<const ir::ConstantData>> replaced_;  // the table knows their addresses
  int weights_ = 0;
};

}  // namespace

std::string StorePanels(const std::vector<LoweredProgram*>& programs) { return Storing(programs).Run(); }

}  // namespace rondo
