// The kernel that fills synthetic weights, for fakes of libcuda: the cuda driver's own is PTX.
#pragma once

#include <cstring>

#include "core/synthetic.h"
#include "tests/cuda/fake/fake_cuda.h"

namespace rondo::fake_cuda {

inline constexpr char kFillKernel[] = "rondo_synthetic";

inline Kernel FillKernel() {
  return {{8, 8, 8, 4, 4}, [](const std::vector<uint64_t>& p) {
            float scale;
            std::memcpy(&scale, &p[3], 4);
            FillSyntheticRange(static_cast<DType>(p[4]), p[2], scale, 0, p[1], reinterpret_cast<void*>(p[0]));
            return 0;
          }};
}

}  // namespace rondo::fake_cuda
