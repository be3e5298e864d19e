// Fields: the members of each table and struct of plan.fbs, in one list for encoding and decoding.
//
// Fields(x) is a tuple of references to members of `x` in the order of the schema's fields; the schema may
// have more at the end (a step's strides). A new field needs an entry in the schema, one in the struct, and
// one here.
#pragma once

#include <tuple>
#include <type_traits>

#include "core/plan.h"

namespace rondo {

template <typename T, typename Record>
concept Is = std::is_same_v<std::remove_const_t<T>, Record>;

[[gnu::always_inline]] inline auto Fields(Is<TapeInst> auto& x) {
  return std::tie(x.op, x.type, x.arg, x.a, x.b, x.c, x.imm.i);
}
[[gnu::always_inline]] inline auto Fields(Is<Indirect> auto& x) {
  return std::tie(x.operand, x.wrap, x.fault, x.stride, x.extent);
}
[[gnu::always_inline]] inline auto Fields(Is<Binding> auto& x) { return std::tie(x.buffer, x.offset); }
[[gnu::always_inline]] inline auto Fields(Is<DeviceBytes> auto& x) {
  return std::tie(x.weights, x.arena, x.state, x.workspace, x.communicator);
}
[[gnu::always_inline]] inline auto Fields(Is<Loop> auto& x) {
  return std::tie(x.first_step, x.num_steps, x.trips);
}
[[gnu::always_inline]] inline auto Fields(Is<MatmulMatrix> auto& x) {
  return std::tie(x.param, x.offset, x.dtype, x.outer_stride, x.inner_stride, x.batch_stride);
}
[[gnu::always_inline]] inline auto Fields(Is<LibraryMatmul> auto& x) {
  return std::tie(x.lhs, x.rhs, x.out, x.addend, x.bias, x.batches, x.m, x.n, x.k, x.tf32, x.epilogue,
                  x.workspace_bytes, x.algorithm);
}
[[gnu::always_inline]] inline auto Fields(Is<Guard> auto& x) {
  return std::tie(x.stride, x.offset, x.extent, x.strides);
}
[[gnu::always_inline]] inline auto Fields(Is<Operand> auto& x) {
  return std::tie(x.param, x.dtype, x.mode, x.absent, x.offset, x.strides, x.indirects, x.guards);
}
[[gnu::always_inline]] inline auto Fields(Is<Stage> auto& x) { return std::tie(x.per_row, x.tape); }
[[gnu::always_inline]] inline auto Fields(Is<Part> auto& x) {
  return std::tie(x.skeleton, x.sequential, x.combine, x.nan_to_zero, x.outer, x.m, x.n, x.reduced,
                  x.features, x.lhs, x.keys, x.values, x.mask, x.limit, x.scale, x.softcap, x.acc_type,
                  x.loops, x.operands, x.rhs, x.prologue, x.body, x.stages, x.scalars, x.kept, x.epilogue,
                  x.tf32, x.packed.type, x.packed.dtype, x.packed.block, x.packed.zero, x.scales, x.zeros,
                  x.when);
}
[[gnu::always_inline]] inline auto Fields(Is<Kernel> auto& x) {
  return std::tie(x.name, x.label, x.num_params, x.parts, x.workspace_param, x.workspace_bytes);
}
[[gnu::always_inline]] inline auto Fields(Is<Buffer> auto& x) {
  return std::tie(x.name, x.kind, x.dtype, x.shape, x.bytes, x.device, x.program, x.offset, x.alignment,
                  x.first_step, x.last_step, x.aliases, x.source, x.weight, x.file_offset, x.synthetic_key,
                  x.synthetic_scale, x.synthetic_run, x.synthetic_step);
}
[[gnu::always_inline]] inline auto Fields(Is<Step> auto& x) {
  return std::tie(x.kind, x.device, x.stream, x.kernel, x.sync_point, x.bytes, x.bindings, x.waits, x.records,
                  x.after, x.source, x.custom);
}
[[gnu::always_inline]] inline auto Fields(Is<Partition> auto& x) {
  return std::tie(x.device, x.first_step, x.num_steps, x.reason, x.detail);
}
[[gnu::always_inline]] inline auto Fields(Is<SyncPoint> auto& x) {
  return std::tie(x.op, x.dtype, x.bytes, x.communicator, x.participants, x.source);
}
[[gnu::always_inline]] inline auto Fields(Is<Port> auto& x) {
  return std::tie(x.name, x.buffer, x.is_state, x.replicas);
}
[[gnu::always_inline]] inline auto Fields(Is<Program> auto& x) {
  return std::tie(x.name, x.inputs, x.outputs, x.steps, x.partitions, x.sync_points, x.certificates,
                  x.num_streams, x.num_events, x.arena_lower_bound, x.arena_bytes, x.loops, x.variant_of);
}
[[gnu::always_inline]] inline auto Fields(Is<KernelBinary> auto& x) {
  return std::tie(x.entry, x.grid, x.shared, x.waits, x.kind, x.matmul, x.code, x.block, x.tensor_maps,
                  x.assumes, x.choice, x.text_digest, x.digest);
}
[[gnu::always_inline]] inline auto Fields(Is<KernelAlternative> auto& x) {
  return std::tie(x.kernel, x.choice, x.binary);
}
[[gnu::always_inline]] inline auto Fields(Is<CodeModule> auto& x) {
  return std::tie(x.architecture, x.block, x.binaries, x.codes, x.alternatives, x.compiler);
}
[[gnu::always_inline]] inline auto Fields(Is<CustomAttribute> auto& x) {
  return std::tie(x.name, x.kind, x.ints, x.floats, x.texts, x.dtype, x.shape, x.data);
}
[[gnu::always_inline]] inline auto Fields(Is<CustomArgument> auto& x) {
  return std::tie(x.dtype, x.shape, x.mode, x.alias, x.absent);
}
[[gnu::always_inline]] inline auto Fields(Is<CustomOp> auto& x) {
  return std::tie(x.domain, x.name, x.version, x.library, x.graph_safe, x.reason, x.num_inputs, x.arguments,
                  x.attributes);
}
[[gnu::always_inline]] inline auto Fields(Is<PlanData> auto& x) {
  return std::tie(x.producer, x.requirements.devices, x.requirements.target,
                  x.requirements.least_driver_version, x.sources, x.buffers, x.kernels, x.programs,
                  x.weights_file, x.weights_bytes, x.modules, x.custom_ops, x.requirements.scratch,
                  x.requirements.work);
}

}  // namespace rondo
