// The points of a convolution's kernel (taps), prepared.
#pragma once

#include <cstdint>

namespace rondo::host {

struct Taps {
  int64_t count = 0;
  const int64_t* at = nullptr;          // elements from the input of tap 0
  const int64_t* weight = nullptr;      // elements from the weight of tap 0
  const int64_t* coordinate = nullptr;  // [guard][tap]: from the coordinate of tap 0
};

}  // namespace rondo::host
