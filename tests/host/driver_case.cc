#include "tests/host/driver_case.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/host/reference.h"

namespace rondo::test {
namespace {

// Allocates memory that is not zero: every float is NaN.
void* AllocateUsed(void*, size_t bytes, size_t alignment) {
  void* block = DefaultHostAllocator().allocate(DefaultHostAllocator().user, bytes, alignment);
  if (block != nullptr) std::memset(block, 0xff, bytes);
  return block;
}

}  // namespace

HostFixture::HostFixture(HostOptions options) {
  options.allocator.allocate = AllocateUsed;
  Result<Driver*> made = CreateHostDriver(options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  driver = *made;
  device = driver->Open(0).Take();
  stream = device->CreateStream().Take();
}

HostFixture::~HostFixture() {
  device->DestroyStream(stream);
  DestroyHostDriver(driver);
}

Module* HostFixture::Load(const Kernel& kernel) {
  PlanData plan;
  plan.kernels = Span<const Kernel>(&kernel, 1);
  Result<Module*> module = device->LoadModule(plan);
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module.ok() ? *module : nullptr;
}

Status HostFixture::Launch(Module* module, Memory* memory) {
  std::vector<DeviceAddress> addresses;
  for (auto& param : memory->params) addresses.push_back(reinterpret_cast<DeviceAddress>(param.data()));
  RONDO_RETURN_IF_ERROR(device->Launch(module, 0, Span<const DeviceAddress>(addresses), stream, 7));
  uint32_t step = 0;
  return device->Synchronize(stream, &step);
}

void ExpectMatchesReference(PartMaker& maker, const Memory& memory, const std::string& what,
                            const Tolerance& tolerance) {
  const Kernel kernel = maker.Make();
  Memory want = memory;
  const bool fault = RunReference(kernel, want.Spans());
  for (uint32_t isa = 0; isa < 3; ++isa) {
    Memory alone;
    for (uint32_t threads : {1u, 3u}) {
      HostOptions options;
      options.threads = threads;
      options.max_isa = isa;
      options.work_per_thread = 1;
      HostFixture host(options);
      Module* module = host.Load(kernel);
      ASSERT_NE(module, nullptr) << what;
      Memory got = memory;
      const Status status = host.Launch(module, &got);
      host.device->DestroyModule(module);
      EXPECT_EQ(!status.ok(), fault) << what << ": " << status.message();
      const std::string difference = Difference(maker, want, got, tolerance);
      ASSERT_EQ(difference, "") << what << ", instruction set " << isa << ", " << threads << " threads";
      if (threads == 1) alone = got;
      ASSERT_TRUE(alone.params == got.params) << what << ": several threads give other bits than one";
    }
  }
}

}  // namespace rondo::test
