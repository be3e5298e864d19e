// InShares: work on many equal items, spread over the processor's cores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace rondo::ir {

// Calls f(first, last) for disjoint runs of items that cover [0, count), each of at least `least` items, from
// up to as many threads as there are cores. f must neither throw nor allocate; runs are independent.
template <typename F>
void InShares(int64_t count, int64_t least, F f) {
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t shares = std::clamp<int64_t>(count / std::max<int64_t>(1, least), 1, cores);
  std::vector<std::thread> helpers;
  helpers.reserve(static_cast<size_t>(shares));
  const auto share = [&](int64_t s) { f(count * s / shares, count * (s + 1) / shares); };
  int64_t own = shares - 1;
  try {
    for (int64_t s = 0; s < own; ++s) helpers.emplace_back(share, s);
  } catch (const std::system_error&) {  // no more threads: the rest runs here
  }
  for (int64_t s = static_cast<int64_t>(helpers.size()); s <= own; ++s) share(s);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace rondo::ir
