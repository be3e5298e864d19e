#include "formats/plan/verifier.h"

#include <cinttypes>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "formats/plan/format.h"
#include "formats/plan/verify_internal.h"

namespace rondo {
namespace plan {

Status VerifyNames(Span<std::string_view> names, const char* what, Arena&) {
  auto compare = [](const void* a, const void* b) {
    return static_cast<const std::string_view*>(a)->compare(*static_cast<const std::string_view*>(b));
  };
  if (!names.empty()) std::qsort(names.data(), names.size(), sizeof(std::string_view), compare);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) return RONDO_BROKEN("one of the %s has no name", what);
    if (i > 0 && names[i] == names[i - 1]) {
      return RONDO_BROKEN("two of the %s are named \"%.*s\"", what, static_cast<int>(names[i].size()),
                          names[i].data());
    }
  }
  return Status::Ok();
}

Status AtStep(const Status& status, const PlanData& plan, const Program& program, uint32_t step) {
  if (status.ok()) return status;
  std::string_view source;
  if (uint32_t i = program.steps[step].source; i < plan.sources.size()) source = plan.sources[i];
  const int name = static_cast<int>(program.name.size());
  if (source.empty()) return status.At("program \"%.*s\": step %u", name, program.name.data(), step);
  return status
      .At("program \"%.*s\": step %u (%.*s)", name, program.name.data(), step,
          static_cast<int>(source.size()), source.data())
      .FromNode(source);
}

namespace {

Status VerifyRequirements(const PlanData& plan) {
  const auto& devices = plan.requirements.devices;
  if (devices.empty() || devices.size() > kMaxDevices) {
    return RONDO_BROKEN("requirements: %zu devices, which must be 1 to %u", devices.size(), kMaxDevices);
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    const DeviceBytes& bytes = devices[d];
    for (uint64_t value : {bytes.weights, bytes.arena, bytes.state, bytes.workspace, bytes.communicator}) {
      if (value > kMaxRegionBytes) {
        return RONDO_BROKEN("requirements: %" PRIu64 " bytes on device %zu exceed %" PRIu64, value, d,
                            kMaxRegionBytes);
      }
    }
    if (bytes.workspace > bytes.arena) {
      return RONDO_BROKEN("requirements: device %zu: a workspace of %" PRIu64
                          " bytes in an arena of %" PRIu64,
                          d, bytes.workspace, bytes.arena);
    }
  }
  if (plan.weights_bytes > kMaxRegionBytes) {
    return RONDO_BROKEN("%" PRIu64 " bytes of weights exceed %" PRIu64, plan.weights_bytes, kMaxRegionBytes);
  }
  if (!plan.weights_file.empty() && !IsBaseName(plan.weights_file)) {
    return RONDO_BROKEN("the weights file \"%.*s\" is not the plain name of a file",
                        static_cast<int>(plan.weights_file.size()), plan.weights_file.data());
  }
  return Status::Ok();
}

// Machine code cannot be verified here; the check is that every kernel has its entry.
Status VerifyModules(const PlanData& plan) {
  constexpr uint32_t kMostThreads = 1024;
  constexpr uint32_t kMostShared = 227 << 10;  // of a block, on any known GPU
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    const CodeModule& module = plan.modules[m];
    if (module.architecture.empty()) return RONDO_BROKEN("module %zu names no architecture", m);
    for (size_t c = 0; c < module.codes.size(); ++c) {
      if (module.codes[c].empty()) return RONDO_BROKEN("module %zu: code %zu is empty", m, c);
    }
    if (module.block == 0 || module.block > kMostThreads) {
      return RONDO_BROKEN("module %zu: %u threads a block are not within 1 to %u", m, module.block,
                          kMostThreads);
    }
    if (module.binaries.size() != plan.kernels.size()) {
      return RONDO_BROKEN("module %zu has %zu binaries for %zu kernels", m, module.binaries.size(),
                          plan.kernels.size());
    }
    for (size_t i = 0; i < NumBinaries(module); ++i) {
      const KernelBinary& binary = BinaryAt(module, i);
      const size_t k = KernelOfBinary(module, i);
      if (k >= plan.kernels.size())
        return RONDO_BROKEN("module %zu: an alternative of kernel %zu of %zu", m, k, plan.kernels.size());
      const bool function = binary.kind == BinaryKind::kFunction;
      if (binary.entry.empty() == function) {
        return RONDO_BROKEN("module %zu: the binary of kernel %zu has %s entry", m, k,
                            function ? "no" : "no need of an");
      }
      if (function && binary.code >= module.codes.size()) {
        return RONDO_BROKEN("module %zu: kernel %zu is in code %u of %zu", m, k, binary.code,
                            module.codes.size());
      }
      if (binary.grid == 0 || binary.grid > 0x7fffffffu) {
        return RONDO_BROKEN("module %zu: kernel %zu is launched with %u blocks", m, k, binary.grid);
      }
      if (binary.shared > kMostShared) {
        return RONDO_BROKEN("module %zu: kernel %zu takes %u bytes of shared memory; the limit is %u", m, k,
                            binary.shared, kMostShared);
      }
    }
  }
  return Status::Ok();
}

Status VerifyShape(const Buffer& buffer) {
  if (buffer.shape.rank < 0 || buffer.shape.rank > kMaxRank) {
    return RONDO_BROKEN("rank %d is not within 0 to %d", buffer.shape.rank, kMaxRank);
  }
  uint64_t bytes = static_cast<uint64_t>(ByteSize(buffer.dtype));
  bool zero = false;
  for (int64_t dim : buffer.shape) {
    if (dim < 0) return RONDO_BROKEN("extent %" PRId64 " of its shape is negative", dim);
    zero |= dim == 0;
    if (dim != 0 &&
        (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes) || bytes > kMaxRegionBytes)) {
      return RONDO_BROKEN("its shape has more than %" PRIu64 " bytes", kMaxRegionBytes);
    }
  }
  if (zero) bytes = 0;
  const bool informative = buffer.kind == BufferKind::kTemporary || buffer.kind == BufferKind::kWorkspace;
  if (!informative && bytes != buffer.bytes) {
    return RONDO_BROKEN("%" PRIu64 " bytes, but its shape needs %" PRIu64, buffer.bytes, bytes);
  }
  return Status::Ok();
}

Status VerifyConstant(const PlanData& plan, const Buffer& buffer) {
  if (buffer.weight > WeightSource::kSynthetic) {
    return RONDO_BROKEN("source %d of its weight is unknown", static_cast<int>(buffer.weight));
  }
  if (buffer.weight == WeightSource::kSynthetic) {
    return std::isfinite(buffer.synthetic_scale) ? Status::Ok()
                                                 : RONDO_BROKEN("its synthetic scale is not finite");
  }
  if (buffer.file_offset > plan.weights_bytes || buffer.bytes > plan.weights_bytes - buffer.file_offset) {
    return RONDO_BROKEN("bytes [%" PRIu64 ", +%" PRIu64 ") of the weights are outside their %" PRIu64,
                        buffer.file_offset, buffer.bytes, plan.weights_bytes);
  }
  if (buffer.file_offset % buffer.alignment != 0) {
    return RONDO_BROKEN("its place in the weights, %" PRIu64 ", is not a multiple of its alignment, %u",
                        buffer.file_offset, buffer.alignment);
  }
  return Status::Ok();
}

bool IsShared(const Buffer& buffer) {
  return buffer.kind == BufferKind::kConstant || buffer.kind == BufferKind::kState;
}

Status VerifyPlace(const PlanData& plan, const Buffer& buffer) {
  const uint32_t alignment = buffer.alignment;
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > (1u << 30)) {
    return RONDO_BROKEN("alignment %u is not a power of two up to 2^30", alignment);
  }
  if (alignment % ByteSize(buffer.dtype) != 0) {
    return RONDO_BROKEN("alignment %u is less than an element's %d bytes", alignment,
                        static_cast<int>(ByteSize(buffer.dtype)));
  }
  if (buffer.offset % alignment != 0) {
    return RONDO_BROKEN("offset %" PRIu64 " is not a multiple of its alignment, %u", buffer.offset,
                        alignment);
  }
  const DeviceBytes& device = plan.requirements.devices[buffer.device];
  uint64_t region = device.arena;
  if (buffer.kind == BufferKind::kConstant) region = device.weights;
  if (buffer.kind == BufferKind::kState) region = device.state;
  if (!IsShared(buffer) && plan.programs[buffer.program].arena_bytes < region) {
    region = plan.programs[buffer.program].arena_bytes;
  }
  if (buffer.offset > region || buffer.bytes > region - buffer.offset) {
    return RONDO_BROKEN("bytes [%" PRIu64 ", +%" PRIu64 ") are outside the %" PRIu64 " bytes of its region",
                        buffer.offset, buffer.bytes, region);
  }
  if (buffer.kind == BufferKind::kWorkspace && buffer.bytes > device.workspace) {
    return RONDO_BROKEN("%" PRIu64 " bytes exceed the device's workspace of %" PRIu64, buffer.bytes,
                        device.workspace);
  }
  return Status::Ok();
}

Status VerifyLifetime(const PlanData& plan, const Buffer& buffer) {
  if (IsShared(buffer) || buffer.first_step > buffer.last_step) return Status::Ok();
  const size_t steps = plan.programs[buffer.program].steps.size();
  if (buffer.last_step >= steps && buffer.last_step != 0) {
    return RONDO_BROKEN("its last step is %u of %zu", buffer.last_step, steps);
  }
  return Status::Ok();
}

Status VerifyAlias(const PlanData& plan, uint32_t index) {
  const Buffer& buffer = plan.buffers[index];
  if (buffer.aliases == kNone) return Status::Ok();
  if (buffer.aliases >= plan.buffers.size() || buffer.aliases == index) {
    return RONDO_BROKEN("it aliases buffer %u of %zu", buffer.aliases, plan.buffers.size());
  }
  const Buffer& other = plan.buffers[buffer.aliases];
  const bool same_region = IsShared(buffer) ? buffer.kind == other.kind : !IsShared(other);
  if (!same_region || buffer.kind == BufferKind::kConstant || buffer.device != other.device ||
      buffer.program != other.program) {
    return RONDO_BROKEN("it aliases buffer %u, which is not in its region of memory", buffer.aliases);
  }
  return Status::Ok();
}

Status VerifyBuffer(const PlanData& plan, uint32_t index) {
  const Buffer& buffer = plan.buffers[index];
  if (buffer.kind > BufferKind::kUpdatedInput)
    return RONDO_BROKEN("kind %d is unknown", static_cast<int>(buffer.kind));
  if (static_cast<int>(buffer.dtype) >= kNumDTypes)
    return RONDO_BROKEN("dtype %d is unknown", static_cast<int>(buffer.dtype));
  if (buffer.device >= plan.requirements.devices.size()) {
    return RONDO_BROKEN("device %u of %zu", buffer.device, plan.requirements.devices.size());
  }
  if (buffer.bytes > kMaxRegionBytes)
    return RONDO_BROKEN("%" PRIu64 " bytes exceed %" PRIu64, buffer.bytes, kMaxRegionBytes);
  if (IsShared(buffer) ? buffer.program != kNone : buffer.program >= plan.programs.size()) {
    return RONDO_BROKEN("a buffer of kind %s cannot belong to program %u of %zu", Name(buffer.kind),
                        buffer.program, plan.programs.size());
  }
  if (buffer.source != kNone && buffer.source >= plan.sources.size()) {
    return RONDO_BROKEN("source %u of %zu", buffer.source, plan.sources.size());
  }
  RONDO_RETURN_IF_ERROR(VerifyShape(buffer));
  RONDO_RETURN_IF_ERROR(VerifyPlace(plan, buffer));
  if (buffer.kind == BufferKind::kConstant) RONDO_RETURN_IF_ERROR(VerifyConstant(plan, buffer));
  RONDO_RETURN_IF_ERROR(VerifyLifetime(plan, buffer));
  return VerifyAlias(plan, index);
}

// Checks that no chain of aliases is a cycle.
Status VerifyAliasChains(const PlanData& plan, Arena& scratch) {
  enum : uint8_t { kNew, kOpen, kDone };
  Span<uint8_t> state = scratch.New<uint8_t>(plan.buffers.size());
  if (state.data() == nullptr) return OutOfMemory("the buffers");
  for (uint32_t start = 0; start < plan.buffers.size(); ++start) {
    uint32_t at = start;
    for (; at != kNone && state[at] == kNew; at = plan.buffers[at].aliases) state[at] = kOpen;
    if (at != kNone && state[at] == kOpen) return RONDO_BROKEN("buffer %u aliases itself through others", at);
    for (at = start; at != kNone && state[at] == kOpen; at = plan.buffers[at].aliases) state[at] = kDone;
  }
  return Status::Ok();
}

Status VerifyBuffers(const PlanData& plan, Arena& scratch) {
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    Status status = VerifyBuffer(plan, i);
    if (status.ok()) continue;
    const Buffer& buffer = plan.buffers[i];
    if (buffer.source < plan.sources.size()) status = status.FromNode(plan.sources[buffer.source]);
    return status.At("buffer %u \"%.*s\"", i, static_cast<int>(buffer.name.size()), buffer.name.data());
  }
  return VerifyAliasChains(plan, scratch);
}

// Records the node of the first step that launches the kernel.
Status FromKernel(const Status& status, const PlanData& plan, uint32_t kernel) {
  const std::string_view name = plan.kernels[kernel].name;
  Status at = status.At("kernel %u \"%.*s\"", kernel, static_cast<int>(name.size()), name.data());
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kLaunch || step.kernel != kernel || step.source >= plan.sources.size())
        continue;
      const std::string_view source = plan.sources[step.source];
      return at.At("%.*s", static_cast<int>(source.size()), source.data()).FromNode(source);
    }
  }
  return at;
}

// A workspace parameter is given exactly if the workspace has bytes, and no operand uses it.
Status WorkspaceRange(const Kernel& kernel, Span<ByteRange> ranges) {
  constexpr uint32_t kAlignment = 16;  // required by libraries
  const uint64_t bytes = kernel.workspace_bytes;
  if (kernel.workspace_param == kNoOperand && bytes == 0) return Status::Ok();
  if (kernel.workspace_param >= ranges.size() || bytes == 0 || bytes > kMaxRegionBytes) {
    return RONDO_BROKEN("a workspace of %" PRIu64 " bytes in parameter %u of %zu", bytes,
                        kernel.workspace_param, ranges.size());
  }
  ByteRange& range = ranges[kernel.workspace_param];
  if (range.element != 0)
    return RONDO_BROKEN("an operand uses parameter %u, which is its workspace", kernel.workspace_param);
  range = {0, static_cast<int64_t>(bytes), kAlignment};
  return Status::Ok();
}

// Checks that `value`, a `what`, is within the format's limit and within the plan's stated value, if there is
// one.
Status VerifyNeed(const char* what, double value, double most, uint64_t stated) {
  if (stated != 0 && static_cast<double>(stated) < most) most = static_cast<double>(stated);
  if (value <= most) return Status::Ok();
  return RONDO_BROKEN("it may need %.17g %s; the limit is %.17g", value, what, most);
}

// The bytes that each parameter of `kernel` may touch.
Status ParameterRanges(const Kernel& kernel, Span<ByteRange> ranges) {
  for (const Part& part : kernel.parts) {
    for (const Operand& operand : part.operands) {
      ElementRange elements;
      if (!Reach(part, operand, &elements)) return RONDO_BROKEN("an address reaches too far");
      const int64_t size = ByteSize(operand.dtype);
      ByteRange& range = ranges[operand.param];
      if (size > range.element) range.element = static_cast<uint32_t>(size);
      if (elements.empty()) continue;
      const bool first = range.first == range.end;
      if (first || elements.first * size < range.first) range.first = elements.first * size;
      if (first || elements.end * size > range.end) range.end = elements.end * size;
    }
  }
  RONDO_RETURN_IF_ERROR(WorkspaceRange(kernel, ranges));
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].element == 0) return RONDO_BROKEN("no operand uses parameter %zu", i);
  }
  return Status::Ok();
}

Status VerifyKernels(const PlanData& plan, Work& work, Arena& scratch, KernelRanges* out) {
  Span<std::string_view> names = scratch.New<std::string_view>(plan.kernels.size());
  Span<uint32_t> first = scratch.New<uint32_t>(plan.kernels.size());
  Span<Need> needs = scratch.New<Need>(plan.kernels.size());
  Span<KernelRanges::Apart> apart = scratch.New<KernelRanges::Apart>(plan.kernels.size());
  if (names.data() == nullptr || first.data() == nullptr || needs.data() == nullptr ||
      apart.data() == nullptr)
    return OutOfMemory("the kernels");
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    names[i] = kernel.name;
    first[i] = count;
    size_t operands = 0;
    for (const Part& part : kernel.parts) operands += part.operands.size();
    if (kernel.num_params > operands + 1) {
      return FromKernel(RONDO_BROKEN("%u parameters for %zu operands", kernel.num_params, operands), plan, i);
    }
    count += kernel.num_params;
    Status status = VerifyKernel(kernel, work);
    if (status.ok()) {
      needs[i] = NeedOf(kernel);
      status =
          VerifyNeed("bytes of scratch a thread", needs[i].scratch, kMostScratch, plan.requirements.scratch);
    }
    if (!status.ok()) return FromKernel(status, plan, i);
  }
  Span<ByteRange> ranges = scratch.New<ByteRange>(count);
  if (ranges.data() == nullptr) return OutOfMemory("the kernels");
  for (uint32_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel& kernel = plan.kernels[i];
    Status status = ParameterRanges(kernel, ranges.subspan(first[i], kernel.num_params));
    if (!status.ok()) return FromKernel(status, plan, i);
  }
  *out = {first, ranges, needs, apart};
  return VerifyNames(names, "kernels", scratch);
}

Status VerifyPrograms(const PlanData& plan, const KernelRanges& ranges, Arena& scratch) {
  if (plan.programs.empty()) return RONDO_BROKEN("the plan has no programs");
  Span<std::string_view> names = scratch.New<std::string_view>(plan.programs.size());
  Span<bool> named = scratch.New<bool>(plan.buffers.size());
  if (names.data() == nullptr || named.data() == nullptr) return OutOfMemory("the programs");
  for (uint32_t i = 0; i < plan.programs.size(); ++i) {
    names[i] = plan.programs[i].name;
    RONDO_RETURN_IF_ERROR(VerifyProgram(plan, i, ranges, named, scratch));
    const uint32_t of = plan.programs[i].variant_of;
    if (of == kNone ? i > 0 && plan.programs[i - 1].variant_of != kNone
                    : of >= i || plan.programs[of].variant_of != kNone) {
      return RONDO_BROKEN("program %u, a variant of %u, is out of order", i, of);
    }
    Status status =
        VerifyNeed("steps a run", WorkOf(plan.programs[i], ranges.needs), kMostWork, plan.requirements.work);
    if (!status.ok()) return status.At("program %u", i);
  }
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (named[i] || (!IsInput(buffer.kind) && !IsOutput(buffer.kind))) continue;
    // No port would ever fill the buffer, or read it.
    return RONDO_BROKEN("buffer %u \"%.*s\" is an %s that no port of its program names", i,
                        static_cast<int>(buffer.name.size()), buffer.name.data(), Name(buffer.kind));
  }
  return VerifyNames(names, "programs", scratch);
}

}  // namespace
}  // namespace plan

Status VerifyPlan(const PlanData& plan, const HostAllocator& allocator) {
  constexpr size_t kMost = size_t{1} << 28;
  if (plan.buffers.size() > kMost || plan.kernels.size() > kMost || plan.programs.size() > kMost ||
      plan.custom_ops.size() > kMost) {
    return Status::Error(Code::kCorrupt, "the plan has more than %zu objects of one sort", kMost);
  }
  Arena scratch(allocator);
  Work work(plan);
  plan::KernelRanges ranges;
  RONDO_RETURN_IF_ERROR(plan::VerifyRequirements(plan));
  RONDO_RETURN_IF_ERROR(plan::VerifyModules(plan));
  RONDO_RETURN_IF_ERROR(plan::VerifyBuffers(plan, scratch));
  RONDO_RETURN_IF_ERROR(plan::VerifyKernels(plan, work, scratch, &ranges));
  RONDO_RETURN_IF_ERROR(plan::VerifyMatmuls(plan, ranges, work));
  RONDO_RETURN_IF_ERROR(plan::VerifyBinaries(plan, ranges));
  RONDO_RETURN_IF_ERROR(plan::VerifyCustomOps(plan));
  return plan::VerifyPrograms(plan, ranges, scratch);
}

}  // namespace rondo
