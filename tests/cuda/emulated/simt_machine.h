// SimtMachine: runs kernels of translated libraries, cluster after cluster, each thread a fiber, on the
// calling thread.
//
// What CUDA leaves open is an order here (Order): which warps go first, and when copies and matrix
// instructions that were begun take place. A kernel that is right is so in each. What is wrong and can be
// seen (threads that wait for ever, lanes that meet at different instructions, shared memory beyond what the
// launch gave) ends the launch with a sentence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/cuda/emulated/ptx.h"
#include "tests/cuda/emulated/threads.h"

namespace rondo::emulated {

// Where a block's rank in its cluster begins in a shared address.
inline constexpr uint32_t kBlockShift = 24;

enum class Order {
  kEarly,  // warps from the first on; what is begun is done at once
  kLate,   // warps from the last on; what is begun is done when nobody can go on without it
};

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t shared_bytes = 0, cluster = 1;
};

// One launch at a time; not thread-safe.
class SimtMachine final : public simt::Machine {
 public:
  explicit SimtMachine(Order order) : order_(order) {}
  ~SimtMachine();
  SimtMachine(const SimtMachine&) = delete;
  SimtMachine& operator=(const SimtMachine&) = delete;

  // "" or what went wrong. `params`: the addresses of the kernel's parameters.
  std::string Run(const simt::Library& library, const simt::KernelEntry& kernel, const LaunchShape& launch,
                  void* const* params);

  // simt::Machine.
  void SyncThreads() override;
  bool SyncThreadsOr(bool predicate) override;
  uint64_t Together(simt::WarpOp op, uint32_t mask, uint64_t value, uint32_t lane) override;
  size_t SharedAddress(const void* p) override;
  void Ptx(const char* text, std::initializer_list<simt::Operand> operands) override;

  // For instructions (ptx_*.cc). All of the thread that runs.
  Thread& current() { return *current_; }
  Cluster& cluster() { return cluster_; }
  bool late() const { return order_ == Order::kLate; }
  // `bytes` of shared memory at an address of the cluster. Never null: of what is not there, a place that
  // nothing reads, and the launch fails.
  char* Shared(uint32_t address, size_t bytes);
  // Ends the launch.
  void Fail(const std::string& why);
  void WaitFor(const Wait& wait);
  // Whether this thread was the last of `mask`'s lanes to come to `what`. The others return once the last has
  // called Part.
  bool Meet(const void* what, const char* name, uint32_t mask);
  void Part(uint32_t mask);
  void Barrier(uint32_t number, uint32_t count);
  void ArriveAtBarrier(uint32_t number, uint32_t count);  // without waiting for the others
  void ArriveAtCluster();
  void WaitForCluster();
  // Copies of TMA: now, or later.
  void Begin(std::function<void()> copy);

 private:
  static void RunThread(void* thread);
  void Prepare(const LaunchShape& launch, uint32_t first_block);
  void Schedule();
  bool RunBlock(Block* block);
  bool IsReady(const Thread& thread);
  void Resume(Thread* thread);
  void Exit(Thread* thread);
  void EnterBlock(Block* block);
  void PassBarrier(Block* block, uint32_t number);
  void PassCluster();
  std::string Standstill() const;

  const Order order_;
  const simt::Library* library_ = nullptr;
  const simt::KernelEntry* kernel_ = nullptr;
  void* const* params_ = nullptr;
  uint32_t shared_bytes_ = 0;
  Cluster cluster_;
  Block* entered_ = nullptr;  // whose static shared memory is in the library's section
  Thread* current_ = nullptr;
  std::string failure_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::unordered_map<const char*, std::vector<PtxStatement>> statements_;
  std::vector<char> nowhere_ = std::vector<char>(1 << 18);
};

}  // namespace rondo::emulated
