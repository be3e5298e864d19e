// The speed of the host driver's skeletons: `host_kernels_bench --benchmark_filter=Product`. Arguments of
// matmuls: rows, columns, depth, layout (0: rhs [k, n], 1: rhs [n, k]), dtype of the rhs, threads. The
// counters have GFLOPS and bytes of the rhs per second.
#include <benchmark/benchmark.h>

#include "tests/host/driver_case.h"
#include "tests/host/kernel_zoo.h"

namespace rondo::test {
namespace {

// Launches a kernel over and over; `copies` sets of parameters in turn, so that caches are cold if wanted.
class Runner {
 public:
  Runner(PartMaker& maker, uint32_t threads, int copies) {
    HostOptions options;
    options.threads = threads;
    driver_ = CreateHostDriver(options).Take();
    device_ = driver_->Open(0).Take();
    stream_ = device_->CreateStream().Take();
    kernel_ = maker.Make();
    PlanData plan;
    plan.kernels = Span<const Kernel>(&kernel_, 1);
    module_ = device_->LoadModule(plan).Take();
    Random random(1);
    memory_.resize(static_cast<size_t>(copies));
    if (device_->BeginRecord(stream_).ok()) {
      for (Memory& m : memory_) {
        m.Randomise(maker, random);
        std::vector<DeviceAddress> addresses;
        for (auto& p : m.params) addresses.push_back(reinterpret_cast<DeviceAddress>(p.data()));
        if (!device_->Launch(module_, 0, Span<const DeviceAddress>(addresses), stream_, 0).ok()) std::abort();
      }
    }
    graph_ = device_->EndRecord(stream_).Take();
  }
  ~Runner() {
    device_->DestroyGraph(graph_);
    device_->DestroyModule(module_);
    device_->DestroyStream(stream_);
    DestroyHostDriver(driver_);
  }
  void Run() {
    if (!device_->LaunchGraph(graph_, stream_).ok()) std::abort();
  }

 private:
  Driver* driver_;
  Device* device_;
  Stream* stream_;
  Module* module_;
  Graph* graph_;
  Kernel kernel_;
  std::vector<Memory> memory_;
};

void Loop(benchmark::State& state, PartMaker& maker, uint32_t threads, int copies, double flops,
          double bytes) {
  Runner runner(maker, threads, copies);
  runner.Run();
  for (auto _ : state) runner.Run();
  const double runs = static_cast<double>(state.iterations()) * copies;
  state.counters["GFLOPS"] = benchmark::Counter(runs * flops * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(runs * bytes * 1e-9, benchmark::Counter::kIsRate);
  state.counters["each"] =
      benchmark::Counter(runs, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Product(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const DType type = static_cast<DType>(state.range(4));
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {m, n, k};
  maker.part.skeleton = Skeleton::kMatMul;
  maker.part.m = maker.part.n = maker.part.reduced = 1;
  maker.part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 2});
  std::vector<int> order = {2, 1};
  if (state.range(3) != 0) order = {1, 2};
  maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(type, Mode::kRead, order)});
  maker.StoreAccumulators(maker.Operand(DType::kF32, Mode::kWrite, {0, 1}));
  const double rhs = static_cast<double>(n * k * ByteSize(type));
  const int copies = rhs < 1e6 ? 16 : 1;
  Loop(state, maker, static_cast<uint32_t>(state.range(5)), copies, 2.0 * static_cast<double>(m * n * k),
       rhs);
}
BENCHMARK(Product)
    ->Args({1, 192, 192, 0, 0, 1})
    ->Args({1, 512, 192, 0, 0, 1})
    ->Args({1, 192, 512, 0, 0, 1})
    ->Args({1, 512, 192, 1, 0, 1})
    ->Args({1, 192, 512, 1, 0, 1})
    ->Args({1, 4096, 4096, 0, 0, 1})
    ->Args({1, 4096, 4096, 1, 0, 1})
    ->Args({1, 4096, 4096, 0, 2, 1})
    ->Args({1, 4096, 4096, 1, 2, 1})
    ->Args({1, 4096, 4096, 1, 1, 1})
    ->Args({4, 4096, 4096, 0, 0, 1})
    ->Args({8, 4096, 4096, 1, 0, 1})
    ->Args({64, 512, 192, 0, 0, 1})
    ->Args({256, 1024, 1024, 0, 0, 1})
    ->Args({256, 1024, 1024, 1, 0, 1})
    ->Args({512, 2048, 2048, 0, 0, 1})
    ->Args({512, 2048, 2048, 0, 2, 1})
    ->Args({1024, 1024, 1024, 0, 0, 2});

void Convolution(benchmark::State& state) {
  const int64_t c = state.range(0), o = state.range(1), size = state.range(2), kernel = state.range(3);
  const bool depthwise = state.range(4) != 0;
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {1, depthwise ? c : 1, depthwise ? 1 : o, size, size, depthwise ? 1 : c, kernel, kernel};
  Part& part = maker.part;
  part.skeleton = Skeleton::kConvolution;
  part.outer = 1;
  part.m = 2;
  part.n = 2;
  part.reduced = 3;
  part.lhs = maker.Operand(DType::kF32, Mode::kRead, {});
  const int64_t plane = size * size;
  maker.operands[0].strides = arena.Copy(std::vector<int64_t>{0, plane, 0, 0, 0, plane, 0, 0});
  maker.sizes[0] = plane * c;
  const int64_t pad = kernel / 2;
  maker.operands[0].guards = arena.Copy(
      std::vector<Guard>{{size, -pad, size, arena.Copy(std::vector<int64_t>{0, 0, 0, 1, 0, 0, 1, 0})},
                         {1, -pad, size, arena.Copy(std::vector<int64_t>{0, 0, 0, 0, 1, 0, 0, 1})}});
  part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, {1, 2, 5, 6, 7})});
  maker.StoreAccumulators(maker.Operand(DType::kF32, Mode::kWrite, {1, 2, 3, 4}));
  const double products = static_cast<double>(plane * (depthwise ? c : c * o) * kernel * kernel);
  Loop(state, maker, 1, 1, 2 * products, 0);
}
BENCHMARK(Convolution)
    ->Args({64, 64, 56, 3, 0})
    ->Args({256, 64, 56, 1, 0})
    ->Args({3, 64, 112, 7, 0})
    ->Args({128, 128, 56, 3, 1});

void Attention(benchmark::State& state) {
  const int64_t heads = state.range(0), queries = state.range(1), keys = state.range(2),
                width = state.range(3);
  Arena arena;
  PartMaker maker = MakeAttention(arena, heads, queries, keys, width);
  maker.part.scale = 0.1f;
  Loop(state, maker, 1, 1, 4.0 * static_cast<double>(heads * queries * keys * width),
       8.0 * static_cast<double>(heads * keys * width));
}
BENCHMARK(Attention)->Args({6, 1, 128, 32})->Args({6, 1, 1024, 32})->Args({12, 256, 256, 64});

void Pointwise(benchmark::State& state) {
  const int64_t n = state.range(0);
  const TapeOp op = static_cast<TapeOp>(state.range(1));
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {n};
  const uint16_t a = maker.Operand(DType::kF32, Mode::kRead, {0}),
                 b = maker.Operand(DType::kF32, Mode::kRead, {0});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0});
  TapeMaker tape;
  tape.Store(out, DType::kF32,
             tape.Unary(op, tape.Binary(TapeOp::kMul, tape.Load(a, DType::kF32), tape.Load(b, DType::kF32))));
  maker.part.body = maker.Keep(tape);
  Loop(state, maker, 1, 1, static_cast<double>(n), 12.0 * static_cast<double>(n));
}
BENCHMARK(Pointwise)
    ->Args({16, static_cast<int>(TapeOp::kNeg)})
    ->Args({192, static_cast<int>(TapeOp::kNeg)})
    ->Args({8192, static_cast<int>(TapeOp::kNeg)})
    ->Args({8192, static_cast<int>(TapeOp::kExp)})
    ->Args({8192, static_cast<int>(TapeOp::kErf)})
    ->Args({8192, static_cast<int>(TapeOp::kSin)});

void Transpose(benchmark::State& state) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {state.range(0), state.range(1)};
  const uint16_t a = maker.Operand(DType::kF32, Mode::kRead, {1, 0});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1});
  TapeMaker tape;
  tape.Store(out, DType::kF32, tape.Load(a, DType::kF32));
  maker.part.body = maker.Keep(tape);
  Loop(state, maker, 1, 1, 0, 8.0 * static_cast<double>(state.range(0) * state.range(1)));
}
BENCHMARK(Transpose)->Args({1000, 1000})->Args({3, 50000});

}  // namespace
}  // namespace rondo::test

BENCHMARK_MAIN();
