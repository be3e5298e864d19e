#include "tools/bench/gpu_table/bench_kernels.h"

#include <memory>
#include <utility>

#include "compiler/codegen/cuda/kernel_configuration.h"
#include "compiler/codegen/cuda/matmul/library_matmul.h"

namespace rondo::bench {

namespace {

constexpr uint32_t kAlignment = 256;

TapeInst Instruction(TapeOp op, uint16_t arg, uint16_t a = 0) {
  TapeInst inst;
  inst.op = op;
  inst.arg = arg;
  inst.a = a;
  return inst;
}

}  // namespace

BenchKernel::BenchKernel(const MatmulSize& size, std::string configuration)
    : configuration_(std::move(configuration)) {
  emitted_.arena = std::make_shared<Arena>();
  Arena& arena = *emitted_.arena;
  Part part;
  part.skeleton = Skeleton::kMatMul;
  part.m = part.n = part.reduced = 1;
  part.tf32 = size.tf32;
  part.loops = arena.Copy(std::vector<int64_t>{size.m, size.n, size.k});
  part.lhs = AddOperand(size.type, Mode::kRead, {size.k, 0, 1}, size.m * size.k);
  part.rhs =
      arena.Copy(std::vector<uint16_t>{AddOperand(size.type, Mode::kRead, {0, size.k, 1}, size.n * size.k)});
  const uint16_t out = AddOperand(size.type, Mode::kWrite, {size.n, 1, 0}, size.m * size.n);
  part.epilogue =
      arena.Copy(std::vector<TapeInst>{Instruction(TapeOp::kAcc, 0), Instruction(TapeOp::kStore, out)});
  Contain(part);
  if (ParseKernelConfiguration(configuration_).value_or(KernelConfiguration()).variant == VariantId::kLibrary)
    LeaveToLibrary();
  Finish();
}

BenchKernel::BenchKernel(int64_t elements) {
  emitted_.arena = std::make_shared<Arena>();
  Arena& arena = *emitted_.arena;
  Part part;
  part.skeleton = Skeleton::kMap;
  part.outer = 1;
  part.loops = arena.Copy(std::vector<int64_t>{elements});
  const uint16_t from = AddOperand(DType::kF16, Mode::kRead, {1}, elements),
                 to = AddOperand(DType::kF16, Mode::kWrite, {1}, elements);
  part.body =
      arena.Copy(std::vector<TapeInst>{Instruction(TapeOp::kLoad, from), Instruction(TapeOp::kStore, to)});
  Contain(part);
  Finish();
}

// Operands that are read are state, because KernelTimer fills state with numbers. Zeros would draw less power
// and so run at a higher clock.
uint16_t BenchKernel::AddOperand(DType type, Mode mode, const std::vector<int64_t>& strides,
                                 int64_t elements) {
  Operand operand;
  operand.param = static_cast<uint16_t>(operands_.size());
  operand.dtype = type;
  operand.mode = mode;
  operand.strides = emitted_.arena->Copy(strides);
  operands_.push_back(operand);
  AddBuffer(mode == Mode::kRead ? BufferKind::kState : BufferKind::kTemporary, type,
            static_cast<uint64_t>(elements * ByteSize(type)));
  return operand.param;
}

void BenchKernel::AddBuffer(BufferKind kind, DType type, uint64_t bytes) {
  Buffer buffer;
  buffer.kind = kind;
  buffer.dtype = type;
  buffer.alignment = kAlignment;
  buffer.bytes = bytes;
  uint64_t& end = kind == BufferKind::kState ? bytes_.state : bytes_.arena;
  buffer.offset = end;
  end += (buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
  buffers_.push_back(buffer);
}

void BenchKernel::Contain(Part part) {
  Arena& arena = *emitted_.arena;
  part.operands = arena.Copy(operands_);
  kernel_.name = "bench";
  kernel_.num_params = static_cast<uint16_t>(operands_.size());
  kernel_.parts = arena.Copy(std::vector<Part>{part});
}

// Makes the matmul a library call, with the scratch memory that ChooseLibraries would give it. Does nothing
// if the library has no such matmul.
void BenchKernel::LeaveToLibrary() {
  const std::optional<LibraryMatmul> matmul = LibraryMatmulOf(kernel_);
  if (!matmul) return;
  constexpr int kMostScratch = 90;  // the architecture that needs the most scratch
  kernel_.workspace_param = kernel_.num_params++;
  kernel_.workspace_bytes = MostWorkspace(*matmul, kMostScratch) + kWorkspaceSlack;
  AddBuffer(BufferKind::kWorkspace, DType::kU8, kernel_.workspace_bytes);
  emitted_.library = {LibraryMatmul().algorithm};
}

void BenchKernel::Finish() {
  Arena& arena = *emitted_.arena;
  std::vector<Binding> bindings;
  for (uint32_t b = 0; b < buffers_.size(); ++b) bindings.push_back({b, 0});
  step_.kernel = 0;
  step_.bindings = arena.Copy(bindings);
  program_.steps = Span<const Step>(&step_, 1);
  PlanData& plan = emitted_.plan;
  plan.kernels = Span<const Kernel>(&kernel_, 1);
  plan.buffers = buffers_;
  plan.programs = Span<const Program>(&program_, 1);
  plan.requirements.devices = Span<const DeviceBytes>(&bytes_, 1);
}

}  // namespace rondo::bench
