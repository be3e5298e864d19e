// The same targets for libFuzzer. RONDO_FUZZ_TARGET names the target of this binary.
#include <algorithm>

#include "tests/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

rondo::fuzz::Target& TheTarget() {
  static const std::unique_ptr<rondo::fuzz::Target> target = rondo::fuzz::MakeTarget(RONDO_FUZZ_TARGET);
  return *target;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TheTarget().Run({data, size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  rondo::fuzz::Random random(seed);
  if (random.OneIn(8)) return LLVMFuzzerMutate(data, size, max_size);
  const rondo::fuzz::Bytes bytes = TheTarget().Mutate({data, size}, random);
  if (bytes.empty() || bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
