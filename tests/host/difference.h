// Difference: compares a kernel's results in memory with the expected ones.
#pragma once

#include <string>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

struct Tolerance {
  double relative = 2e-5;
  double absolute = 2e-5;
};

// The first element that differs by more than the tolerance, as text; empty if none.
std::string Difference(const PartMaker& maker, const Memory& want, const Memory& got, const Tolerance& t);

}  // namespace rondo::test
