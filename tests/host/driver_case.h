// Runs a kernel on the host driver and by the reference, and compares every byte, also those that it must not
// write.
#pragma once

#include <memory>
#include <string>

#include "drivers/host/host_driver.h"
#include "tests/host/difference.h"
#include "tests/host/kernel_maker.h"
#include "tests/how_many.h"

namespace rondo::test {

// A driver with one device and one stream. Its memory is filled with NaN.
class HostFixture {
 public:
  explicit HostFixture(HostOptions options = {});
  ~HostFixture();
  // Fails the test if the module cannot be loaded (then null).
  Module* Load(const Kernel& kernel);
  Status Launch(Module* module, Memory* memory);

  Driver* driver = nullptr;
  Device* device = nullptr;
  Stream* stream = nullptr;
};

// Runs the kernel with every instruction set, on one and on several threads, and compares with the reference.
// Results of several threads must equal those of one thread bit by bit. `what` names the case.
void ExpectMatchesReference(PartMaker& maker, const Memory& memory, const std::string& what,
                            const Tolerance& tolerance = {});

// The number of seeds that a test takes of `all`: half, and all in the long tests.
inline uint32_t Seeds(uint32_t all) { return all / static_cast<uint32_t>(HowMany("RONDO_SEEDS_OF", 2)); }

}  // namespace rondo::test
