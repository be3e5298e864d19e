// A block of a small collective's kernel that also computes a norm (drivers/cuda/peer_collectives/norm.h), on
// one thread of the CPU.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "drivers/cuda/peer_collectives/norm.h"

namespace rondo::small {

// Sums like the threads of a warp.
inline void SumWarp(float* sums) {
  for (u32 d = 16; d > 0; d >>= 1) {
    float next[32];
    for (u32 t = 0; t < 32; ++t) next[t] = sums[t] + sums[t ^ d];
    std::copy(next, next + 32, sums);
  }
}

// The block's threads run one after another.
template <class Type, class Machine>
struct Block {
  using Thread = NormThread<Machine, Type, kMostRanks>;

  Block(Machine& machine, const Group& group, const Call& call, const Norm& norm, u32 block, u32 blocks) {
    for (u32 t = 0; t < kNormThreads; ++t)
      threads.push_back(std::make_unique<Thread>(machine, group, call, norm, block, blocks, t));
  }
  template <class F>
  void Each(F f) {
    for (u32 t = 0; t < kNormThreads; ++t) f(*threads[t], sums[t % kRowBlock]);
  }
  void SumOfRows(bool squares) {
    std::vector<float> vectors;
    for (u32 t = 0; t < kRowBlock; ++t) {
      Thread& second = *threads[kRowBlock + t];
      vectors.push_back(second.TellAndGather(second.AddUp(threads[t]->AddUp(0, squares), squares), squares));
    }
    const bool is_short = threads[0]->IsOfShortRow();
    for (u32 t = 0; t < kRowBlock; ++t)
      sums[t] = is_short ? threads[t]->SumOfWarps(vectors.data()) : vectors[t];
    for (u32 first = 0; first < kRowBlock; first += 32) SumWarp(sums.data() + first);
    if (is_short) return;
    float sum = sums[0];
    for (u32 warp = 32; warp < kRowBlock; warp += 32) sum += sums[warp];
    sums.assign(kRowBlock, sum);
  }

  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<float> sums = std::vector<float>(kRowBlock, 0);  // for each thread, the sum of its row
};

template <class Type, class Machine>
void RunBlock(Machine& machine, const Group& group, const Call& call, const Norm& norm, u32 epoch, u32 number,
              u32 blocks) {
  Block<Type, Machine> block(machine, group, call, norm, number, blocks);
  for (const auto& thread : block.threads) thread->ReadRows();
  for (const auto& thread : block.threads) thread->Read();
  for (const auto& thread : block.threads) thread->Send(epoch);
  for (const auto& thread : block.threads) thread->Reduce();
  NormRows(block, norm);
}

}  // namespace rondo::small
