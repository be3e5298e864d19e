// Objects may be destroyed in any order that core/driver.h allows, and leave nothing behind.
#include <algorithm>

#include "tests/conformance/conformance.h"

namespace rondo::test {
namespace {

class Lifetimes : public Conformance {
 protected:
  Lifetimes() : kernels_(kElements) {}
  SimpleKernels kernels_;
};
CONFORMANCE_SUITE(Lifetimes);

enum class Object { kModule, kGraph, kStream, kEvent, kBlock };

// The objects of one partition of a session, made by hand.
struct Objects {
  Device* device;
  Module* module = nullptr;
  Graph* graph = nullptr;
  Stream* stream = nullptr;
  Event* event = nullptr;
  DeviceAddress block = 0;
  uint64_t bytes = 0;

  void Destroy(Object object) {
    switch (object) {
      case Object::kModule: return device->DestroyModule(module);
      case Object::kGraph: return device->DestroyGraph(graph);
      case Object::kStream: return device->DestroyStream(stream);
      case Object::kEvent: return device->DestroyEvent(event);
      case Object::kBlock: return device->Free(block, bytes);
    }
  }
};

TEST_P(Lifetimes, EndInAnyOrder) {
  const std::shared_ptr<void> code = GetParam()->AddCode(&kernels_.plan.data);
  const std::string held = Held();
  std::vector<Object> order = {Object::kModule, Object::kGraph, Object::kStream, Object::kEvent,
                               Object::kBlock};
  do {
    Objects o{device_};
    o.bytes = kBytes;
    o.module = device_->LoadModule(kernels_.plan.data).Take();
    o.stream = device_->CreateStream().Take();
    o.event = device_->CreateEvent().Take();
    o.block = device_->Allocate(kBytes, 256).Take();
    const Floats ones(kElements, 1);
    ExpectOk(device_->CopyIn(o.block, ones.data(), kBytes, o.stream));
    ExpectOk(device_->BeginRecord(o.stream));
    Launch(o.module, SimpleKernels::kAdd, {o.block, o.block, o.block}, 0, o.stream);
    ExpectOk(device_->Record(o.event, o.stream));
    o.graph = device_->EndRecord(o.stream).Take();
    Replay(o.graph, o.stream);
    ExpectOk(device_->Record(o.event, o.stream));
    EXPECT_EQ(Get(o.block, kElements, o.stream), Floats(kElements, 2));
    for (Object object : order) o.Destroy(object);
    ASSERT_EQ(Held(), held);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(Lifetimes, OfARecordingEndWithItsStream) {
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  const DeviceAddress x = Put(Counting(1));
  const std::string held = Held();
  Stream* stream = device_->CreateStream().Take();
  Event* event = device_->CreateEvent().Take();
  ExpectOk(device_->BeginRecord(stream));
  Launch(module, SimpleKernels::kAdd, {x, x, x}, 0, stream);
  ExpectOk(device_->Record(event, stream));
  device_->DestroyStream(stream);
  device_->DestroyEvent(event);
  EXPECT_EQ(Held(), held);
  EXPECT_EQ(Get(x), Counting(1)) << "it was never run";
}

TEST_P(Lifetimes, OfDriversFollowOneAnother) {
  for (int round = 0; round < 3; ++round) {
    Result<Driver*> driver = GetParam()->Make(1, nullptr);
    ASSERT_TRUE(driver.ok()) << driver.status().message();
    Result<Device*> device = (*driver)->Open(0);
    ASSERT_TRUE(device.ok()) << device.status().message();
    const DeviceAddress block = (*device)->Allocate(kBytes, 256).Take();
    (*device)->Free(block, kBytes);
    GetParam()->Destroy(*driver);
  }
  EXPECT_EQ(Get(Put(Counting(1))), Counting(1)) << "the first one lives";
}

}  // namespace
}  // namespace rondo::test
