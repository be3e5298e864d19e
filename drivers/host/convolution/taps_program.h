// The points of a convolution's kernel (taps), prepared.
#pragma once

#include <cstdint>

namespace rondo::host {

struct Taps {
  int64_t count = 0;
  const int64_t* at = nullptr;          // elements, relative to tap 0 of the input
  const int64_t* weight = nullptr;      // elements, relative to tap 0 of the weight
  const int64_t* coordinate = nullptr;  // [guard][tap]: relative to the coordinate of tap 0
};

}  // namespace rondo::host
