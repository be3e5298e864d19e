#include "tests/plan/matmul_plan.h"

namespace rondo {
namespace {

constexpr int64_t kRows = 4, kColumns = 16, kDepth = 8;

Buffer Matrix(const char* name, BufferKind kind, Shape shape, uint64_t offset) {
  Buffer b;
  b.name = name;
  b.kind = kind;
  b.shape = shape;
  b.bytes = static_cast<uint64_t>(shape.elements()) * 4;
  b.offset = offset;
  b.program = kind == BufferKind::kConstant ? kNone : 0;
  return b;
}

Kernel Matmul(Arena& arena) {
  Part p;
  p.skeleton = Skeleton::kMatMul;
  p.m = p.n = p.reduced = 1;
  p.loops = List<int64_t>(arena, {kRows, kColumns, kDepth});
  p.operands = List<Operand>(
      arena, {Access(arena, 0, Mode::kRead, {kDepth, 0, 1}), Access(arena, 1, Mode::kRead, {0, kDepth, 1}),
              Access(arena, 2, Mode::kRead, {kColumns, 1, 0}), Access(arena, 3, Mode::kRead, {0, 1, 0}),
              Access(arena, 4, Mode::kWrite, {kColumns, 1, 0})});
  p.lhs = 0;
  p.rhs = List<uint16_t>(arena, {1});
  p.epilogue =
      List<TapeInst>(arena, {Slot(TapeOp::kAcc, 0), Load(2), Apply(TapeOp::kAdd, 0, 1), Load(3),
                             Apply(TapeOp::kAdd, 2, 3), Number(0), Apply(TapeOp::kMax, 4, 5), Store(6, 4)});
  Kernel kernel;
  kernel.name = "k0_matmul";
  kernel.num_params = 6;
  kernel.parts = List<Part>(arena, {p});
  kernel.workspace_param = 5;
  kernel.workspace_bytes = kProductScratchBytes;
  return kernel;
}

MatmulMatrix Of(uint16_t param, int64_t outer_stride) {
  MatmulMatrix m;
  m.param = param;
  m.dtype = DType::kF32;
  m.outer_stride = outer_stride;
  m.inner_stride = 1;
  return m;
}

}  // namespace

Sample MakeProductSample() {
  Sample s;
  s.data.producer = "rondo test";
  DeviceBytes device;
  device.weights = 576;
  device.arena = 5120;
  device.workspace = kProductScratchBytes;
  s.data.requirements.devices = List<DeviceBytes>(s.arena, {device});
  s.data.requirements.target = "cuda:sm_90a";
  s.data.sources = List<std::string_view>(s.arena, {"Gemm \"mm\""});
  s.data.buffers =
      List<Buffer>(s.arena, {Matrix("x", BufferKind::kInput, {kRows, kDepth}, 0),
                             Matrix("w", BufferKind::kConstant, {kColumns, kDepth}, 0),
                             Matrix("r", BufferKind::kInput, {kRows, kColumns}, 128),
                             Matrix("b", BufferKind::kConstant, {kColumns}, 512),
                             Matrix("y", BufferKind::kOutput, {kRows, kColumns}, 384),
                             Matrix("scratch", BufferKind::kWorkspace, {kProductScratchBytes / 4}, 640)});
  Edit(s.data.buffers, kProductB).file_offset = 512;
  s.data.weights_bytes = 576;
  s.data.kernels = List<Kernel>(s.arena, {Matmul(s.arena)});
  Step step;
  step.kernel = 0;
  step.bindings = List<Binding>(
      s.arena,
      {{kProductX, 0}, {kProductW, 0}, {kProductR, 0}, {kProductB, 0}, {kProductY, 0}, {kProductScratch, 0}});
  step.source = 0;
  Partition all;
  all.num_steps = 1;
  Program program;
  program.name = "main";
  program.inputs = List<Port>(s.arena, {{"x", kProductX, false}, {"r", kProductR, false}});
  program.outputs = List<Port>(s.arena, {{"y", kProductY, false}});
  program.steps = List<Step>(s.arena, {step});
  program.partitions = List<Partition>(s.arena, {all});
  program.arena_lower_bound = program.arena_bytes = 4736;
  s.data.programs = List<Program>(s.arena, {program});

  LibraryMatmul matmul;
  matmul.lhs = Of(0, kDepth);
  matmul.rhs = Of(1, kDepth);
  matmul.addend = Of(2, kColumns);
  matmul.bias = Of(3, 0);
  matmul.out = Of(4, kColumns);
  matmul.m = kRows;
  matmul.n = kColumns;
  matmul.k = kDepth;
  matmul.epilogue = MatmulEpilogue::kRelu;
  matmul.tf32 = true;
  matmul.workspace_bytes = kProductScratchBytes;
  matmul.algorithm = 2;
  KernelBinary binary;
  binary.kind = BinaryKind::kLibraryMatmul;
  binary.matmul = List<LibraryMatmul>(s.arena, {matmul}).data();
  CodeModule module;
  module.architecture = "sm_90a";
  module.codes = List<Span<const uint8_t>>(s.arena, {List<uint8_t>(s.arena, {1, 2, 3})});
  module.binaries = List<KernelBinary>(s.arena, {binary});
  s.data.modules = List<CodeModule>(s.arena, {module});
  return s;
}

Sample MakeSampleWithAlternatives() {
  Sample s = MakeProductSample();
  KernelAlternative generated;
  generated.choice = "mma 64x64x64 2x2x2 cluster 1";
  generated.binary.entry = "rondo_k0_a0";
  generated.binary.grid = 7;
  generated.binary.waits = true;
  generated.binary.choice = "mma 64x64x64";
  generated.binary.text_digest = 11;
  generated.binary.digest = 12;
  KernelAlternative library;
  library.choice = "library 3";
  library.binary = s.data.modules[0].binaries[0];
  Edit(s.data.modules, 0).compiler = "nvrtc 13.0";
  Edit(s.data.modules, 0).alternatives = List<KernelAlternative>(s.arena, {generated, library});
  return s;
}

Sample MakeMapSample() {
  Sample s = MakeProductSample();
  KernelBinary& binary = BinaryOf(s);
  binary.kind = BinaryKind::kFunction;
  binary.matmul = nullptr;
  binary.entry = "f";
  binary.block = 288;
  TensorMap x;
  x.dtype = DType::kF32;
  x.extents[0] = kDepth;
  x.extents[1] = kRows;
  x.strides[0] = kDepth * 4;
  x.box[0] = kDepth;
  x.box[1] = kRows;
  x.swizzle = 32;
  TensorMap w = x;
  w.param = 1;
  w.extents[1] = kColumns;
  w.box[1] = kColumns;
  binary.tensor_maps = List<TensorMap>(s.arena, {x, w});
  binary.assumes = List<uint32_t>(s.arena, {32, kAssumesConstant | 64, 4, 4, 4, 16});
  return s;
}

}  // namespace rondo
