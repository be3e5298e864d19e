#include "tests/fuzz/plan_fields.h"

#include <algorithm>

namespace rondo::fuzz {
namespace {

// Collects fields. The source line that names a field is its group.
class Collector {
 public:
  explicit Collector(PlanData* plan) : plan_(*plan) {}

  std::vector<Field> Collect() {
    Text(plan_.producer, __LINE__);
    Text(plan_.weights_file, __LINE__);
    Number(plan_.weights_bytes, __LINE__);
    Of(plan_.requirements);
    List(plan_.sources, __LINE__);
    for (std::string_view& source : Entries(plan_.sources)) Text(source, __LINE__);
    List(plan_.buffers, __LINE__);
    for (Buffer& buffer : Entries(plan_.buffers)) Of(buffer);
    List(plan_.kernels, __LINE__);
    for (Kernel& kernel : Entries(plan_.kernels)) Of(kernel);
    List(plan_.modules, __LINE__);
    for (CodeModule& module : Entries(plan_.modules)) Of(module);
    List(plan_.custom_ops, __LINE__);
    for (CustomOp& op : Entries(plan_.custom_ops)) Of(op);
    List(plan_.programs, __LINE__);
    for (Program& program : Entries(plan_.programs)) Of(program);
    return std::move(fields_);
  }

 private:
  template <typename T>
  static Span<T> Entries(Span<const T> list) {
    return Span<T>(const_cast<T*>(list.data()), list.size());
  }
  void Add(FieldKind kind, void* at, size_t bytes, uint64_t range, int group) {
    fields_.push_back({kind, static_cast<uint8_t>(bytes), static_cast<uint32_t>(group), range, at, 0, 0});
  }
  template <typename T>
  void Index(T& at, uint64_t range, int group) {
    Add(FieldKind::kIndex, &at, sizeof(T), range, group);
  }
  template <typename T>
  void Number(T& at, int group) {
    Add(FieldKind::kNumber, &at, sizeof(T), 0, group);
  }
  template <typename T>
  void Enum(T& at, uint64_t range, int group) {
    Add(FieldKind::kEnum, &at, 1, range, group);
  }
  void Flag(bool& at, int group) { Add(FieldKind::kFlag, &at, 1, 2, group); }
  template <typename T>
  void Real(T& at, int group) {
    Add(FieldKind::kReal, &at, sizeof(T), 0, group);
  }
  void Text(std::string_view& at, int group) { Add(FieldKind::kText, &at, 0, 0, group); }
  template <typename T>
  void List(Span<const T>& at, int group) {
    Add(FieldKind::kList, &at, 0, 0, group);
    fields_.back().entry = sizeof(T);
    fields_.back().entries = at.size();
  }
  template <typename T>
  void Numbers(Span<const T>& list, int group) {
    List(list, group + 1000);
    for (T& entry : Entries(list)) Number(entry, group);
  }
  template <typename T>
  void Indices(Span<const T>& list, uint64_t range, int group) {
    List(list, group + 1000);
    for (T& entry : Entries(list)) Index(entry, range, group);
  }

  void Of(Requirements& r) {
    Text(r.target, __LINE__);
    Number(r.least_driver_version, __LINE__);
    Number(r.scratch, __LINE__);
    Number(r.work, __LINE__);
    List(r.devices, __LINE__);
    for (DeviceBytes& d : Entries(r.devices)) {
      Number(d.weights, __LINE__);
      Number(d.arena, __LINE__);
      Number(d.state, __LINE__);
      Number(d.workspace, __LINE__);
      Number(d.communicator, __LINE__);
    }
  }

  void Of(Buffer& b) {
    Text(b.name, __LINE__);
    Enum(b.kind, 6, __LINE__);
    Enum(b.dtype, kNumDTypes, __LINE__);
    Number(b.shape.rank, __LINE__);
    for (int i = 0; i < std::min(b.shape.rank, kMaxRank); ++i) Number(b.shape.dims[i], __LINE__);
    Number(b.bytes, __LINE__);
    Index(b.device, plan_.requirements.devices.size(), __LINE__);
    Index(b.program, plan_.programs.size(), __LINE__);
    Number(b.offset, __LINE__);
    Number(b.alignment, __LINE__);
    Number(b.first_step, __LINE__);
    Number(b.last_step, __LINE__);
    Index(b.aliases, plan_.buffers.size(), __LINE__);
    Index(b.source, plan_.sources.size(), __LINE__);
    Enum(b.weight, 2, __LINE__);
    Number(b.file_offset, __LINE__);
    Number(b.synthetic_key, __LINE__);
    Real(b.synthetic_scale, __LINE__);
    Number(b.synthetic_run, __LINE__);
    Number(b.synthetic_step, __LINE__);
  }

  void Of(Kernel& k) {
    Text(k.name, __LINE__);
    Text(k.label, __LINE__);
    Number(k.num_params, __LINE__);
    List(k.parts, __LINE__);
    for (Part& part : Entries(k.parts)) Of(part, k.num_params);
    Index(k.workspace_param, k.num_params, __LINE__);
    Number(k.workspace_bytes, __LINE__);
  }

  void Of(CodeModule& m) {
    Text(m.architecture, __LINE__);
    Number(m.block, __LINE__);
    Text(m.compiler, __LINE__);
    List(m.binaries, __LINE__);
    for (KernelBinary& binary : Entries(m.binaries)) Of(binary);
    List(m.alternatives, __LINE__);
    for (KernelAlternative& alternative : Entries(m.alternatives)) {
      Index(alternative.kernel, plan_.kernels.size(), __LINE__);
      Text(alternative.choice, __LINE__);
      Of(alternative.binary);
    }
  }

  void Of(KernelBinary& binary) {
    Text(binary.entry, __LINE__);
    Number(binary.grid, __LINE__);
    Number(binary.shared, __LINE__);
    Flag(binary.waits, __LINE__);
    Enum(binary.kind, 2, __LINE__);
    Index(binary.code, 4, __LINE__);
    if (binary.matmul != nullptr) Of(const_cast<LibraryMatmul&>(*binary.matmul));
    Number(binary.block, __LINE__);
    Text(binary.choice, __LINE__);
    Number(binary.text_digest, __LINE__);
    Number(binary.digest, __LINE__);
    List(binary.tensor_maps, __LINE__);
    for (TensorMap& map : Entries(binary.tensor_maps)) Of(map);
    List(binary.assumes, __LINE__);
    for (uint32_t& assumes : Entries(binary.assumes)) Number(assumes, __LINE__);
  }

  void Of(TensorMap& map) {
    Index(map.param, 8, __LINE__);
    Number(map.offset, __LINE__);
    Enum(map.dtype, kNumDTypes, __LINE__);
    Number(map.rank, __LINE__);
    for (uint64_t& extent : map.extents) Number(extent, __LINE__);
    for (uint64_t& stride : map.strides) Number(stride, __LINE__);
    for (uint32_t& box : map.box) Number(box, __LINE__);
    Number(map.swizzle, __LINE__);
  }

  void Of(LibraryMatmul& p) {
    for (MatmulMatrix* m : {&p.lhs, &p.rhs, &p.out, &p.addend, &p.bias}) {
      Index(m->param, 8, __LINE__);
      Number(m->offset, __LINE__);
      Enum(m->dtype, kNumDTypes, __LINE__);
      for (int64_t* stride : {&m->outer_stride, &m->inner_stride, &m->batch_stride})
        Number(*stride, __LINE__);
    }
    for (int64_t* extent : {&p.batches, &p.m, &p.n, &p.k}) Number(*extent, __LINE__);
    Flag(p.tf32, __LINE__);
    Enum(p.epilogue, 3, __LINE__);
    Number(p.workspace_bytes, __LINE__);
    Number(p.algorithm, __LINE__);
  }

  void Of(Part& p, uint64_t params) {
    const uint64_t operands = p.operands.size();
    Enum(p.skeleton, 5, __LINE__);
    Flag(p.sequential, __LINE__);
    Enum(p.combine, 4, __LINE__);
    Flag(p.nan_to_zero, __LINE__);
    Flag(p.tf32, __LINE__);
    for (uint8_t* count : {&p.outer, &p.m, &p.n, &p.reduced, &p.features}) Number(*count, __LINE__);
    for (uint16_t* role : {&p.lhs, &p.keys, &p.values, &p.mask, &p.limit}) Index(*role, operands, __LINE__);
    Real(p.scale, __LINE__);
    Real(p.softcap, __LINE__);
    Enum(p.acc_type, 3, __LINE__);
    Numbers(p.loops, __LINE__);
    List(p.operands, __LINE__);
    for (Operand& operand : Entries(p.operands)) Of(operand, params, operands);
    Indices(p.rhs, operands, __LINE__);
    Enum(p.packed.type, kNumPackedTypes, __LINE__);
    Enum(p.packed.dtype, kNumDTypes, __LINE__);
    Number(p.packed.block, __LINE__);
    Number(p.packed.zero, __LINE__);
    Indices(p.scales, operands, __LINE__);
    Indices(p.zeros, operands, __LINE__);
    Number(p.scalars, __LINE__);
    Number(p.kept, __LINE__);
    Of(p.prologue, operands);
    Of(p.body, operands);
    Of(p.epilogue, operands);
    List(p.stages, __LINE__);
    for (Stage& stage : Entries(p.stages)) {
      Flag(stage.per_row, __LINE__);
      Of(stage.tape, operands);
    }
  }

  void Of(Operand& o, uint64_t params, uint64_t operands) {
    Index(o.param, params, __LINE__);
    Enum(o.dtype, kNumDTypes, __LINE__);
    Enum(o.mode, 3, __LINE__);
    Real(o.absent, __LINE__);
    Number(o.offset, __LINE__);
    Numbers(o.strides, __LINE__);
    List(o.indirects, __LINE__);
    for (Indirect& i : Entries(o.indirects)) {
      Index(i.operand, operands, __LINE__);
      Flag(i.wrap, __LINE__);
      Flag(i.fault, __LINE__);
      Number(i.stride, __LINE__);
      Number(i.extent, __LINE__);
    }
    List(o.guards, __LINE__);
    for (Guard& g : Entries(o.guards)) {
      Number(g.stride, __LINE__);
      Number(g.offset, __LINE__);
      Number(g.extent, __LINE__);
      Numbers(g.strides, __LINE__);
    }
  }

  void Of(Tape& tape, uint64_t operands) {
    List(tape, __LINE__);
    for (size_t i = 0; i < tape.size(); ++i) {
      TapeInst& inst = const_cast<TapeInst&>(tape[i]);
      Enum(inst.op, 116, __LINE__);
      Enum(inst.type, 3, __LINE__);
      Index(inst.arg, operands, __LINE__);
      for (uint16_t* reg : {&inst.a, &inst.b, &inst.c}) Index(*reg, i, __LINE__);
      if (inst.op == TapeOp::kConst && inst.type != TapeType::kI64) Real(inst.imm.f, __LINE__);
      if (inst.op != TapeOp::kConst || inst.type == TapeType::kI64) Number(inst.imm.i, __LINE__);
    }
  }

  void Of(Shape& shape, int group) {
    Number(shape.rank, group);
    for (int i = 0; i < std::min(shape.rank, kMaxRank); ++i) Number(shape.dims[i], group + 2000);
  }

  void Of(CustomOp& op) {
    Text(op.domain, __LINE__);
    Text(op.name, __LINE__);
    Number(op.version, __LINE__);
    Text(op.library, __LINE__);
    Flag(op.graph_safe, __LINE__);
    Text(op.reason, __LINE__);
    Number(op.num_inputs, __LINE__);
    List(op.arguments, __LINE__);
    for (CustomArgument& a : Entries(op.arguments)) {
      Enum(a.dtype, kNumDTypes, __LINE__);
      Of(a.shape, __LINE__);
      Enum(a.mode, 3, __LINE__);
      Index(a.alias, op.num_inputs, __LINE__);
      Flag(a.absent, __LINE__);
    }
    List(op.attributes, __LINE__);
    for (CustomAttribute& a : Entries(op.attributes)) {
      Text(a.name, __LINE__);
      Enum(a.kind, 7, __LINE__);
      Numbers(a.ints, __LINE__);
      List(a.floats, __LINE__);
      for (float& value : Entries(a.floats)) Real(value, __LINE__);
      List(a.texts, __LINE__);
      for (std::string_view& text : Entries(a.texts)) Text(text, __LINE__);
      Enum(a.dtype, kNumDTypes, __LINE__);
      Of(a.shape, __LINE__);
      List(a.data, __LINE__);
    }
  }

  void Of(Program& p) {
    Text(p.name, __LINE__);
    for (Span<const Port>* ports : {&p.inputs, &p.outputs}) {
      List(*ports, __LINE__);
      for (Port& port : Entries(*ports)) {
        Text(port.name, __LINE__);
        Index(port.buffer, plan_.buffers.size(), __LINE__);
        Flag(port.is_state, __LINE__);
        List(port.replicas, __LINE__);
        for (uint32_t& replica : Entries(port.replicas)) Index(replica, plan_.buffers.size(), __LINE__);
      }
    }
    List(p.steps, __LINE__);
    for (Step& step : Entries(p.steps)) Of(step, p);
    List(p.partitions, __LINE__);
    for (Partition& partition : Entries(p.partitions)) {
      Index(partition.device, plan_.requirements.devices.size(), __LINE__);
      Number(partition.first_step, __LINE__);
      Number(partition.num_steps, __LINE__);
      Enum(partition.reason, 5, __LINE__);
      Text(partition.detail, __LINE__);
    }
    List(p.sync_points, __LINE__);
    for (SyncPoint& point : Entries(p.sync_points)) {
      Enum(point.op, 4, __LINE__);
      Enum(point.dtype, kNumDTypes, __LINE__);
      Number(point.bytes, __LINE__);
      Number(point.communicator, __LINE__);
      Indices(point.participants, plan_.requirements.devices.size(), __LINE__);
      Index(point.source, plan_.sources.size(), __LINE__);
    }
    Numbers(p.certificates, __LINE__);
    Number(p.num_streams, __LINE__);
    Number(p.num_events, __LINE__);
    Number(p.arena_lower_bound, __LINE__);
    Number(p.arena_bytes, __LINE__);
    List(p.loops, __LINE__);
    for (Loop& loop : Entries(p.loops)) {
      Index(loop.first_step, p.steps.size(), __LINE__);
      Number(loop.num_steps, __LINE__);
      Number(loop.trips, __LINE__);
    }
  }

  void Of(Step& s, const Program& p) {
    Enum(s.kind, 5, __LINE__);
    Index(s.device, plan_.requirements.devices.size(), __LINE__);
    Index(s.stream, p.num_streams, __LINE__);
    Index(s.kernel, plan_.kernels.size(), __LINE__);
    Index(s.sync_point, p.sync_points.size(), __LINE__);
    Index(s.custom, plan_.custom_ops.size(), __LINE__);
    Number(s.bytes, __LINE__);
    List(s.bindings, __LINE__);
    for (Binding& binding : Entries(s.bindings)) {
      Index(binding.buffer, plan_.buffers.size(), __LINE__);
      Number(binding.offset, __LINE__);
      Number(binding.stride, __LINE__);
    }
    Indices(s.waits, p.num_events, __LINE__);
    Index(s.records, p.num_events, __LINE__);
    Indices(s.after, p.steps.size(), __LINE__);
    Index(s.source, plan_.sources.size(), __LINE__);
  }

  PlanData& plan_;
  std::vector<Field> fields_;
};

}  // namespace

std::vector<Field> FieldsOf(PlanData* plan) { return Collector(plan).Collect(); }

}  // namespace rondo::fuzz
