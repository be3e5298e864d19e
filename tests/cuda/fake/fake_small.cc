#include "tests/cuda/fake/fake_small.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "tests/cuda/fake/fake_cuda.h"
#include "tests/cuda/small_block.h"

namespace rondo {
namespace {

using namespace small;  // NOLINT: this file defines its kernels

constexpr u32 kThreads = 3;
constexpr const char* kNames[] = {"rondo_small_one_shot",       "rondo_small_two_shot",
                                  "rondo_small_reduce_scatter", "rondo_small_all_gather",
                                  "rondo_small_probe",          "rondo_small_note"};
constexpr const char* kNorms[] = {"rondo_small_norm_f32_", "rondo_small_norm_f16_", "rondo_small_norm_bf16_"};
constexpr const char* kRanks[] = {"2", "4", "8"};

std::atomic<uint64_t> ended{0}, norms{0};
std::atomic<bool> all_late{false};

// A kernel is retried from its beginning until everything that it waits for has arrived. Its sends are the
// same each time. Other writes are kept until it succeeds.
struct Machine {
  std::vector<std::pair<char*, u64>> written;
  bool missing = false;

  static Words Load(const Words* at) { return *at; }
  static void Store(Words* at, Words words) { *at = words; }
  static u64 ReadPack(const char* at) {
    u64 pack = 0;
    std::memcpy(&pack, at, sizeof(pack));
    return pack;
  }
  void WritePack(char* at, u64 pack) { written.emplace_back(at, pack); }
  static float HalfToFloat(u32 bits) { return F16ToFloat(static_cast<uint16_t>(bits)); }
  static u32 FloatsToHalves(float low, float high) { return FloatToF16(low) | u32{FloatToF16(high)} << 16; }
  static u32 FloatsToBHalves(float low, float high) {
    return FloatToBF16(low) | u32{FloatToBF16(high)} << 16;
  }
  static float Root(float value) { return std::sqrt(value); }
  bool GoOn(u32, u32) {
    missing = true;
    return false;
  }
};

template <typename T>
T Take(const std::vector<uint64_t>& words, size_t first) {
  T value;
  std::memcpy(&value, &words[first], sizeof(T));
  return value;
}

// `body(machine, group, call, epoch)` does the work of all threads.
template <typename Body>
int Run(const std::vector<uint64_t>& words, Body body) {
  const auto group = Take<Group>(words, 0);
  const auto call = Take<Call>(words, sizeof(Group) / 8);
  if (call.note != nullptr) __atomic_store_n(call.note, 1, __ATOMIC_RELAXED);
  State& state = *group.state;
  const bool aborted = __atomic_load_n(group.abort, __ATOMIC_ACQUIRE) != 0;
  if (state.dead != 0) return 0;
  if (aborted || all_late) {
    state.dead = 1;
    if (call.faults->taken == 0)
      *call.faults = {aborted ? kAbortFault : kLateFault, call.step, 1, group.limit_ns};
    return 0;
  }
  Machine machine;
  body(machine, group, call, static_cast<u32>(state.ticks / kTicks));
  if (machine.missing) return fake_cuda::kNotYet;
  for (const auto& [at, pack] : machine.written) std::memcpy(at, &pack, sizeof(pack));
  state.ticks += kTicks;
  ++ended;
  return 0;
}

int RunExchange(void (Exchange<Machine>::*body)(), const std::vector<uint64_t>& words) {
  return Run(words, [body](Machine& machine, const Group& group, const Call& call, u32 epoch) {
    for (u32 thread = 0; thread < kThreads; ++thread) {
      Exchange<Machine> exchange(machine, group, call, epoch, thread, kThreads);
      (exchange.*body)();
    }
  });
}

template <class Type>
int RunNorm(const std::vector<uint64_t>& words) {
  const auto norm = Take<Norm>(words, (sizeof(Group) + sizeof(Call)) / 8);
  const int error = Run(words, [&](Machine& machine, const Group& group, const Call& call, u32 epoch) {
    const auto blocks = static_cast<u32>(BlocksOf(norm, call.element));
    for (u32 block = 0; block < blocks; ++block)
      RunBlock<Type>(machine, group, call, norm, epoch, block, blocks);
  });
  norms += error == 0;
  return error;
}

int Probe(const std::vector<uint64_t>& words) {
  if (!fake_cuda::GetMachine().peers_arrive) return 0;
  auto* to = reinterpret_cast<Words*>(words[0]);
  for (u64 i = 0; i < words[2]; ++i) to[i] = {words[1] + i, ~(words[1] + i)};
  return 0;
}

}  // namespace

FakeSmall::FakeSmall() {
  using E = Exchange<Machine>;
  constexpr void (E::*kBodies[])() = {&E::AllReduceOneShot, &E::AllReduceTwoShot, &E::ReduceScatter,
                                      &E::AllGather};
  for (size_t i = 0; i < 4; ++i) {
    fake_cuda::SetKernel(kNames[i], {{sizeof(Group), sizeof(Call)}, [body = kBodies[i]](const auto& words) {
                                       return RunExchange(body, words);
                                     }});
  }
  constexpr int (*kOfTypes[])(const std::vector<uint64_t>&) = {RunNorm<F32>, RunNorm<F16>, RunNorm<BF16>};
  for (size_t i = 0; i < 3; ++i) {
    for (const char* ranks : kRanks) {
      fake_cuda::SetKernel(std::string(kNorms[i]) + ranks,
                           {{sizeof(Group), sizeof(Call), sizeof(Norm)}, kOfTypes[i]});
    }
  }
  fake_cuda::SetKernel(kNames[4], {{8, 8, 4}, Probe});
  fake_cuda::SetKernel(kNames[5], {{8}, [](const auto& words) {
                                     __atomic_store_n(reinterpret_cast<uint32_t*>(words[0]), 1,
                                                      __ATOMIC_RELAXED);
                                     return 0;
                                   }});
}

FakeSmall::~FakeSmall() {
  for (const char* name : kNames) fake_cuda::RemoveKernel(name);
  for (const char* name : kNorms) {
    for (const char* ranks : kRanks) fake_cuda::RemoveKernel(std::string(name) + ranks);
  }
}

uint64_t CountSmallCollectives() { return ended; }

uint64_t CountSmallNorms() { return norms; }

void SetSmallLate(bool late) { all_late = late; }

}  // namespace rondo
