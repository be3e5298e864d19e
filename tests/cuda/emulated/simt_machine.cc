#include "tests/cuda/emulated/simt_machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/cuda/emulated/caught_faults.h"
#include "tests/cuda/emulated/mbarrier.h"

namespace rondo::emulated {
namespace {

// As on Hopper, the system reserves the first kilobyte of a block's shared memory.
constexpr uint32_t kFirstShared = 1024;
constexpr size_t kPage = 4096;
constexpr int kUnwritten = 0xcd;  // the byte in unwritten shared memory

size_t Pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Memory that ends right before an inaccessible page.
char* AllocateShared(size_t bytes) {
  const size_t rounded = (bytes + 127) / 128 * 128, pages = Pages(rounded);
  void* memory = mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* end = static_cast<char*>(memory) + pages;
  mprotect(end, kPage, PROT_NONE);
  std::memset(end - rounded, kUnwritten, rounded);
  return end - rounded;
}
void FreeShared(char* memory, size_t bytes) {
  const size_t rounded = (bytes + 127) / 128 * 128, pages = Pages(rounded);
  munmap(memory + rounded - pages, pages + kPage);
}

}  // namespace

SimtMachine::~SimtMachine() = default;

std::string SimtMachine::Run(const simt::Library& library, const simt::KernelEntry& kernel,
                             const LaunchShape& launch, void* const* params) {
  library_ = &library;
  kernel_ = &kernel;
  params_ = params;
  shared_bytes_ = launch.shared_bytes;
  failure_.clear();
  statements_.clear();
  *library.machine = this;
  const CaughtFaults faults(&SimtMachine::OnFault, this);
  const uint32_t blocks = launch.grid[0] * launch.grid[1] * launch.grid[2];
  if (blocks % launch.cluster != 0) return "the grid is no whole number of clusters";
  for (uint32_t first = 0; first < blocks && failure_.empty(); first += launch.cluster) {
    Prepare(launch, first);
    Schedule();
    for (const std::unique_ptr<Block>& block : cluster_.blocks) {
      for (Thread& thread : block->threads) thread.fiber->Drop();
      FreeShared(block->dynamic_shared, shared_bytes_);
    }
  }
  cluster_ = {};
  entered_ = nullptr;
  *library.machine = nullptr;
  return failure_;
}

void SimtMachine::Prepare(const LaunchShape& launch, uint32_t first_block) {
  cluster_ = {};
  entered_ = nullptr;
  const uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  size_t fiber = 0;
  for (uint32_t rank = 0; rank < launch.cluster; ++rank) {
    auto block = std::make_unique<Block>();
    const uint32_t number = first_block + rank;
    block->rank = rank;
    block->live = threads;
    block->dynamic_shared = AllocateShared(shared_bytes_);
    block->static_shared.assign(library_->shared_bytes(), static_cast<char>(kUnwritten));
    block->threads = std::vector<Thread>(threads);
    block->warps.resize((threads + 31) / 32);
    block->groups.resize((threads + 127) / 128);
    for (uint32_t t = 0; t < threads; ++t) {
      Thread& thread = block->threads[t];
      thread.view.thread = {t % launch.block[0], t / launch.block[0] % launch.block[1],
                            t / (launch.block[0] * launch.block[1])};
      thread.view.block = {number % launch.grid[0], number / launch.grid[0] % launch.grid[1],
                           number / (launch.grid[0] * launch.grid[1])};
      thread.view.block_size = {launch.block[0], launch.block[1], launch.block[2]};
      thread.view.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
      thread.view.dynamic_shared = block->dynamic_shared;
      thread.block = block.get();
      thread.warp = &block->warps[t / 32];
      thread.lane = t % 32;
      if (thread.lane == 0) thread.warp->threads = &thread;
      ++thread.warp->lanes;
      if (fiber == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>());
      thread.fiber = fibers_[fiber++].get();
      thread.fiber->Start(&SimtMachine::RunThread, this);
    }
    cluster_.live += threads;
    cluster_.blocks.push_back(std::move(block));
  }
}

void SimtMachine::RunThread(void* machine) {
  auto* self = static_cast<SimtMachine*>(machine);
  Thread* thread = self->current_;
  self->kernel_->call(self->params_);
  self->Exit(thread);
}

// Runs threads until none can continue, then completes pending operations one after another.
void SimtMachine::Schedule() {
  while (cluster_.live > 0 && failure_.empty()) {
    bool ran = false;
    for (size_t k = 0; k < cluster_.blocks.size() && failure_.empty(); ++k) {
      Block* block = cluster_.blocks[late() ? cluster_.blocks.size() - 1 - k : k].get();
      EnterBlock(block);
      while (RunBlock(block)) ran = true;
    }
    if (ran || !failure_.empty()) continue;
    if (cluster_.copies.empty()) {
      Fail(Standstill());
    } else {
      const std::function<void()> copy = std::move(cluster_.copies.front());
      cluster_.copies.pop_front();
      copy();
    }
  }
}

bool SimtMachine::RunBlock(Block* block) {
  bool ran = false;
  const size_t warps = block->warps.size();
  for (size_t w = 0; w < warps && failure_.empty(); ++w) {
    Warp& warp = block->warps[late() ? warps - 1 - w : w];
    for (uint32_t lane = 0; lane < warp.lanes && failure_.empty(); ++lane) {
      Thread& thread = warp.threads[lane];
      if (thread.done || !IsReady(thread)) continue;
      Resume(&thread);
      ran = true;
    }
  }
  return ran;
}

bool SimtMachine::IsReady(const Thread& thread) {
  if (!thread.waits) return true;
  const Wait& wait = thread.wait;
  if (wait.counter != nullptr) return *wait.counter != wait.was;
  return IsComplete(*reinterpret_cast<const Mbarrier*>(Shared(wait.barrier, sizeof(Mbarrier))), wait.parity);
}

void SimtMachine::Resume(Thread* thread) {
  thread->waits = false;
  current_ = thread;
  *library_->thread = &thread->view;
  thread->fiber->Resume();
  current_ = nullptr;
}

void SimtMachine::Exit(Thread* thread) {
  thread->done = true;
  for (const Thread::CopyGroups* groups : {&thread->copies, &thread->stores}) {
    for (const auto& copies : groups->committed) {
      for (const auto& copy : copies) copy();
    }
    for (const auto& copy : groups->open) copy();
  }
  --thread->block->live;
  --cluster_.live;
  PassBarrier(thread->block, 0);
  PassCluster();
}

// Copies the block's static shared memory into the library's section.
void SimtMachine::EnterBlock(Block* block) {
  if (entered_ == block) return;
  const size_t bytes = static_cast<size_t>(library_->shared_end - library_->shared());
  if (entered_ != nullptr) std::memcpy(entered_->static_shared.data(), library_->shared(), bytes);
  std::memcpy(library_->shared(), block->static_shared.data(), bytes);
  entered_ = block;
}

char* SimtMachine::Shared(uint32_t address, size_t bytes) {
  const uint32_t rank = address >> kBlockShift, at = address & ((1u << kBlockShift) - 1);
  const size_t fixed = library_->shared_bytes();
  if (rank < cluster_.blocks.size() && at >= kFirstShared) {
    Block* block = cluster_.blocks[rank].get();
    const size_t offset = at - kFirstShared;
    if (offset + bytes <= fixed)
      return (block == entered_ ? library_->shared() : block->static_shared.data()) + offset;
    if (offset >= fixed && offset - fixed + bytes <= shared_bytes_)
      return block->dynamic_shared + (offset - fixed);
  }
  Fail("shared memory of " + std::to_string(bytes) + " bytes at byte " + std::to_string(at) + " of block " +
       std::to_string(rank) + " of the cluster is not the launch's: " + std::to_string(fixed) +
       " static and " + std::to_string(shared_bytes_) + " dynamic bytes from byte " +
       std::to_string(kFirstShared) + " on");
  return nowhere_.data();
}

size_t SimtMachine::SharedAddress(const void* p) {
  const auto* at = static_cast<const char*>(p);
  const Block& block = *current_->block;
  const uint32_t rank = block.rank << kBlockShift;
  if (at >= library_->shared() && at < library_->shared_end)
    return rank + kFirstShared + static_cast<size_t>(at - library_->shared());
  if (at >= block.dynamic_shared && at <= block.dynamic_shared + shared_bytes_)
    return rank + kFirstShared + library_->shared_bytes() + static_cast<size_t>(at - block.dynamic_shared);
  Fail("a shared address was asked for of memory that is not shared");
  return 0;
}

void SimtMachine::Fail(const std::string& why) {
  if (!failure_.empty()) return;
  failure_ = "kernel " + std::string(kernel_->name);
  if (current_ != nullptr)
    failure_ += ", block " + std::to_string(current_->view.block.x) + ", thread " +
                std::to_string(current_->view.thread.x);
  failure_ += ": " + why;
}

// A thread of a kernel that faults fails the launch and never continues.
void SimtMachine::OnFault(void* machine, int signal, const void* address) {
  auto* self = static_cast<SimtMachine*>(machine);
  if (self->current_ == nullptr) return;
  char text[80] = "a vector is at an address that is not a multiple of its size";
  if (signal != SIGILL) std::snprintf(text, sizeof(text), "there is no memory at address %p", address);
  self->Fail(text);
  self->current_->fiber->Suspend();
}

void SimtMachine::WaitFor(const Wait& wait) {
  Thread* thread = current_;
  thread->wait = wait;
  thread->waits = true;
  thread->fiber->Suspend();
}

// Lists what the threads wait for.
std::string SimtMachine::Standstill() const {
  std::string text = "no thread can go on:";
  for (const std::unique_ptr<Block>& block : cluster_.blocks) {
    for (size_t w = 0; w < block->warps.size(); ++w) {
      const Warp& warp = block->warps[w];
      uint32_t done = 0;
      std::vector<std::pair<std::string, uint32_t>> waits;
      for (uint32_t lane = 0; lane < warp.lanes; ++lane) {
        const Thread& thread = warp.threads[lane];
        if (thread.done) {
          ++done;
          continue;
        }
        const std::string what = thread.wait.what;
        if (waits.empty() || waits.back().first != what) waits.emplace_back(what, 0);
        ++waits.back().second;
      }
      if (done == warp.lanes) continue;
      text += "\n  block " + std::to_string(block->rank) + " of the cluster, warp " + std::to_string(w) + ":";
      for (const auto& [what, lanes] : waits) text += " " + std::to_string(lanes) + " lanes at " + what + ";";
      if (done > 0) text += " " + std::to_string(done) + " are done";
    }
  }
  return text;
}

}  // namespace rondo::emulated
