// SimtMachine: runs kernels of translated libraries on the calling thread, cluster after cluster. Each thread
// of a kernel is a fiber.
//
// Order chooses among the orders that CUDA allows: which warps run first, and when asynchronous copies and
// matrix instructions happen. A correct kernel gives the same results in each. A visible fault (threads that
// wait for ever, lanes that meet at different instructions, access beyond the launch's shared memory, to
// addresses without memory or to misaligned vectors) ends the launch with a sentence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/cuda/emulated/ptx.h"
#include "tests/cuda/emulated/threads.h"

namespace rondo::emulated {

// The first bit of the block's rank in its cluster within a shared address.
inline constexpr uint32_t kBlockShift = 24;

enum class Order {
  kEarly,  // the first warps run first; asynchronous operations complete at once
  kLate,   // the last warps run first; asynchronous operations complete when no thread can continue otherwise
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

  // Returns "" or the fault. `params`: the addresses of the kernel's parameters.
  std::string Run(const simt::Library& library, const simt::KernelEntry& kernel, const LaunchShape& launch,
                  void* const* params);

  // Overrides of simt::Machine.
  void SyncThreads() override;
  bool SyncThreadsOr(bool predicate) override;
  uint64_t Together(simt::WarpOp op, uint32_t mask, uint64_t value, uint32_t lane) override;
  size_t SharedAddress(const void* p) override;
  void Ptx(const char* text, std::initializer_list<simt::Operand> operands) override;

  // For instructions (ptx_*.cc), all on behalf of the running thread.
  Thread& current() { return *current_; }
  Cluster& cluster() { return cluster_; }
  bool late() const { return order_ == Order::kLate; }
  // The address of `bytes` of shared memory at an address of the cluster. Never null: for memory that does
  // not exist it is a place that nothing reads, and the launch fails.
  char* Shared(uint32_t address, size_t bytes);
  // Fails the launch.
  void Fail(const std::string& why);
  void WaitFor(const Wait& wait);
  // Returns whether this thread was the last of `mask`'s lanes to reach `what`. The other lanes return once
  // the last has called Part.
  bool Meet(const void* what, const char* name, uint32_t mask);
  void Part(uint32_t mask);
  void Barrier(uint32_t number, uint32_t count);
  void ArriveAtBarrier(uint32_t number, uint32_t count);  // without waiting for the others
  void ArriveAtCluster();
  void WaitForCluster();
  // Starts a TMA copy, which happens now or later, by the order.
  void Begin(std::function<void()> copy);

 private:
  static void RunThread(void* thread);
  static void OnFault(void* machine, int signal, const void* address);
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
  Block* entered_ = nullptr;  // the block whose static shared memory is in the library's section
  Thread* current_ = nullptr;
  std::string failure_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::unordered_map<const char*, std::vector<PtxStatement>> statements_;
  std::vector<char> nowhere_ = std::vector<char>(1 << 18);
};

}  // namespace rondo::emulated
