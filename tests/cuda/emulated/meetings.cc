// Operations of several threads: barriers, shuffles, and instructions of whole warps.
#include <algorithm>

#include "tests/cuda/emulated/simt_machine.h"

namespace rondo::emulated {
namespace {

const char* NameOf(simt::WarpOp op) {
  switch (op) {
    case simt::WarpOp::kSync: return "__syncwarp";
    case simt::WarpOp::kShuffleXor: return "__shfl_xor_sync";
    case simt::WarpOp::kShuffle: return "__shfl_sync";
    case simt::WarpOp::kBallot: return "__ballot_sync";
    case simt::WarpOp::kMatch: return "__match_any_sync";
    case simt::WarpOp::kReduceMax:
    case simt::WarpOp::kReduceMaxSigned: return "__reduce_max_sync";
    case simt::WarpOp::kReduceMin:
    case simt::WarpOp::kReduceMinSigned: return "__reduce_min_sync";
    case simt::WarpOp::kAny: return "__any_sync";
  }
  return "?";
}

uint64_t Reduced(simt::WarpOp op, uint64_t a, uint64_t b) {
  const auto x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
  const auto sx = static_cast<int32_t>(x), sy = static_cast<int32_t>(y);
  switch (op) {
    case simt::WarpOp::kReduceMax: return std::max(x, y);
    case simt::WarpOp::kReduceMin: return std::min(x, y);
    case simt::WarpOp::kReduceMaxSigned: return static_cast<uint32_t>(std::max(sx, sy));
    case simt::WarpOp::kReduceMinSigned: return static_cast<uint32_t>(std::min(sx, sy));
    default: return a | b;
  }
}

// Replaces the arrived lanes' values by each lane's result.
void Exchange(simt::WarpOp op, uint32_t mask, Warp* warp) {
  uint64_t from[32];
  std::copy(warp->values, warp->values + 32, from);
  if (op == simt::WarpOp::kSync) return;
  if (op == simt::WarpOp::kShuffleXor || op == simt::WarpOp::kShuffle) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const uint32_t other =
          (op == simt::WarpOp::kShuffle ? warp->others[lane] : lane ^ warp->others[lane]) % 32;
      warp->values[lane] = from[other];
    }
    return;
  }
  if (op == simt::WarpOp::kBallot || op == simt::WarpOp::kMatch) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      warp->values[lane] = 0;
      for (uint32_t other = 0; other < 32; ++other) {
        if ((mask >> other & 1) == 0) continue;
        const bool set = op == simt::WarpOp::kBallot ? from[other] != 0 : from[other] == from[lane];
        warp->values[lane] |= uint64_t{set} << other;
      }
    }
    return;
  }
  uint64_t result = 0;
  bool first = true;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    result = first ? from[lane] : Reduced(op, result, from[lane]);
    first = false;
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0) warp->values[lane] = result;
  }
}

}  // namespace

bool SimtMachine::Meet(const void* what, const char* name, uint32_t mask) {
  Thread& thread = *current_;
  Warp& warp = *thread.warp;
  if (warp.lanes < 32) mask &= (1u << warp.lanes) - 1;
  const uint32_t own = 1u << thread.lane;
  if ((mask & own) == 0) Fail(std::string(name) + " by a lane that its mask does not have");
  auto meeting = std::find_if(warp.meetings.begin(), warp.meetings.end(),
                              [&](const Meeting& m) { return (m.mask & mask) != 0; });
  if (meeting == warp.meetings.end()) meeting = warp.meetings.insert(meeting, {what, mask, 0});
  if (meeting->what != what || meeting->mask != mask)
    Fail(std::string(name) + " while other lanes of the warp are at another instruction");
  meeting->came |= own;
  if (meeting->came == mask) return true;
  WaitFor({name, &warp.met[thread.lane], warp.met[thread.lane], 0, false});
  return false;
}

void SimtMachine::Part(uint32_t mask) {
  Warp& warp = *current_->warp;
  if (warp.lanes < 32) mask &= (1u << warp.lanes) - 1;
  warp.meetings.erase(std::find_if(warp.meetings.begin(), warp.meetings.end(),
                                   [&](const Meeting& m) { return m.mask == mask; }));
  for (uint32_t lane = 0; lane < 32; ++lane) warp.met[lane] += mask >> lane & 1;
}

uint64_t SimtMachine::Together(simt::WarpOp op, uint32_t mask, uint64_t value, uint32_t other) {
  Thread& thread = *current_;
  thread.warp->values[thread.lane] = value;
  thread.warp->others[thread.lane] = other;
  if (Meet(NameOf(op), NameOf(op), mask)) {
    Exchange(op, mask, thread.warp);
    Part(mask);
  }
  return thread.warp->values[thread.lane];
}

void SimtMachine::SyncThreads() { Barrier(0, 0); }

bool SimtMachine::SyncThreadsOr(bool predicate) {
  Block* block = current_->block;
  block->barriers[0].any |= predicate;
  Barrier(0, 0);
  return block->barriers[0].result;
}

// The barrier waits for `count` threads; 0: all threads that have not ended.
void SimtMachine::Barrier(uint32_t number, uint32_t count) {
  Block* block = current_->block;
  NamedBarrier& barrier = block->barriers[number];
  const uint64_t passed = barrier.passed;
  ArriveAtBarrier(number, count);
  if (barrier.passed == passed)
    WaitFor({number == 0 ? "__syncthreads" : "bar.sync", &barrier.passed, passed, 0, false});
}

void SimtMachine::ArriveAtBarrier(uint32_t number, uint32_t count) {
  Block* block = current_->block;
  ++block->barriers[number].came;
  block->barriers[number].count = count;
  PassBarrier(block, number);
}

void SimtMachine::PassBarrier(Block* block, uint32_t number) {
  NamedBarrier& barrier = block->barriers[number];
  const uint32_t count = barrier.count != 0 ? barrier.count : block->live;
  if (barrier.came == 0 || barrier.came < count) return;
  barrier.came = 0;
  barrier.result = barrier.any;
  barrier.any = false;
  ++barrier.passed;
}

void SimtMachine::ArriveAtCluster() {
  current_->cluster_phase = cluster_.passed;
  ++cluster_.came;
  PassCluster();
}

void SimtMachine::WaitForCluster() {
  if (cluster_.passed == current_->cluster_phase)
    WaitFor({"barrier.cluster", &cluster_.passed, current_->cluster_phase, 0, false});
}

void SimtMachine::PassCluster() {
  if (cluster_.came == 0 || cluster_.came < cluster_.live) return;
  cluster_.came = 0;
  ++cluster_.passed;
}

void SimtMachine::Begin(std::function<void()> copy) {
  if (late())
    cluster_.copies.push_back(std::move(copy));
  else
    copy();
}

}  // namespace rondo::emulated
