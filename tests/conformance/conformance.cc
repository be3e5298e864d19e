#include "tests/conformance/conformance.h"

namespace rondo::test {
namespace {

PartMaker Binary(Arena& arena, TapeOp op, int64_t elements) {
  PartMaker maker(&arena);
  maker.loops = {elements};
  maker.part.outer = 1;
  const uint16_t a = maker.Operand(DType::kF32, Mode::kRead, {0}),
                 b = maker.Operand(DType::kF32, Mode::kRead, {0}),
                 out = maker.Operand(DType::kF32, Mode::kWrite, {0});
  TapeMaker tape;
  const uint16_t x = tape.Load(a, DType::kF32), y = tape.Load(b, DType::kF32);
  tape.Store(out, DType::kF32, tape.Binary(op, x, y));
  maker.part.body = maker.Keep(tape);
  return maker;
}

PartMaker Pick(Arena& arena) {
  PartMaker maker(&arena);
  maker.loops = {SimpleKernels::kPicks};
  maker.part.outer = 1;
  const uint16_t index = maker.Operand(DType::kI64, Mode::kRead, {0}),
                 table = maker.Operand(DType::kF32, Mode::kRead, {});
  maker.sizes[table] = SimpleKernels::kTable;
  Indirect by_index;
  by_index.operand = index;
  by_index.stride = 1;
  by_index.extent = SimpleKernels::kTable;
  maker.operands[table].indirects = arena.Copy(std::vector<Indirect>{by_index});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0});
  TapeMaker tape;
  tape.Store(out, DType::kF32, tape.Load(table, DType::kF32));
  maker.part.body = maker.Keep(tape);
  return maker;
}

}  // namespace

SimpleKernels::SimpleKernels(int64_t elements) {
  PartMaker makers[] = {Binary(plan.arena, TapeOp::kAdd, elements),
                        Binary(plan.arena, TapeOp::kMul, elements), Pick(plan.arena)};
  for (PartMaker& maker : makers) plan.Add(maker);
}

Floats Counting(float factor, size_t elements) {
  Floats values(elements);
  for (size_t i = 0; i < elements; ++i) values[i] = factor * static_cast<float>(i);
  return values;
}

std::vector<DriverUnderTest*> DriversOfOneDevice() {
  std::vector<DriverUnderTest*> drivers;
  for (DriverUnderTest* driver : DriversUnderTest()) {
    if (!driver->shares_device()) drivers.push_back(driver);
  }
  return drivers;
}

void Conformance::Open(uint32_t devices, const OpRegistry* ops) {
  Result<Driver*> made = GetParam()->Make(devices, ops);
  if (made.status().code() == Code::kUnsupported) GTEST_SKIP() << made.status().message();
  ASSERT_TRUE(made.ok()) << made.status().message();
  driver_ = *made;
  Result<Device*> device = driver_->Open(0);
  ASSERT_TRUE(device.ok()) << device.status().message();
  device_ = *device;
  stream_ = MakeStream();
}

void Conformance::TearDown() {
  if (driver_ == nullptr) return;
  for (Graph* graph : graphs_) device_->DestroyGraph(graph);
  for (Event* event : events_) device_->DestroyEvent(event);
  for (Module* module : modules_) device_->DestroyModule(module);
  for (Stream* stream : streams_) device_->DestroyStream(stream);
  for (const auto& [address, bytes] : blocks_) device_->Free(address, bytes);
  EXPECT_EQ(Held(), "") << "the driver is still there";
  GetParam()->Destroy(driver_);
  code_.clear();
  EXPECT_EQ(GetParam()->Held(nullptr), "");
}

DeviceAddress Conformance::Take(uint64_t bytes, uint64_t alignment) {
  Result<DeviceAddress> block = device_->Allocate(bytes, alignment);
  EXPECT_TRUE(block.ok()) << block.status().message();
  if (!block.ok()) return 0;
  blocks_.emplace_back(*block, bytes);
  return *block;
}

void Conformance::Sync(Stream* stream) {
  uint32_t step = kNone;
  const Status status = device_->Synchronize(stream == nullptr ? stream_ : stream, &step);
  EXPECT_TRUE(status.ok()) << "step " << step << ": " << status.message();
}

Module* Conformance::Load(KernelPlan& plan) {
  code_.push_back(GetParam()->AddCode(&plan.data));
  Result<Module*> module = device_->LoadModule(plan.data);
  EXPECT_TRUE(module.ok()) << module.status().message();
  if (!module.ok()) return nullptr;
  modules_.push_back(*module);
  return *module;
}

Graph* Conformance::Keep(Result<Graph*> graph) {
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return nullptr;
  graphs_.push_back(*graph);
  return *graph;
}

Stream* Conformance::MakeStream() {
  Result<Stream*> stream = device_->CreateStream();
  EXPECT_TRUE(stream.ok()) << stream.status().message();
  streams_.push_back(stream.Take());
  return streams_.back();
}

Event* Conformance::MakeEvent() {
  Result<Event*> event = device_->CreateEvent();
  EXPECT_TRUE(event.ok()) << event.status().message();
  events_.push_back(event.Take());
  return events_.back();
}

}  // namespace rondo::test
