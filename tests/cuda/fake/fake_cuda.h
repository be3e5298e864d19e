// A libcuda.so.1 without a GPU: the functions that drivers/cuda opens, over host memory, with failures on
// request. A kernel's fault ends every context of the process, as with NVIDIA's library. A program that links
// it has loaded it before the driver looks for the real one.
//
// Work runs as late as CUDA allows: enqueued work runs, in order, when a thread waits for it. Sources in
// page-locked memory are read only then; other sources are read at once, as in CUDA. Copies must stay within
// a block of their device, calls need their device's context, and captured streams refuse the calls that CUDA
// refuses.
//
// For programs of their own, an environment variable sets the machine: RONDO_FAKE_CUDA="devices=0",
// "version=11080", "init=100" (an error of cuInit), "capability=80", in one text separated by commas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#define RONDO_FAKE_API __attribute__((visibility("default")))

// Called when a function of a fake begins (1) and ends (0), if the program defines it: the library under test
// does not cause the calls and allocations in between.
extern "C" __attribute__((weak)) void rondo_fake_works(int begins);

namespace rondo::fake_cuda {

struct Working {
  Working() {
    if (rondo_fake_works != nullptr) rondo_fake_works(1);
  }
  ~Working() {
    if (rondo_fake_works != nullptr) rondo_fake_works(0);
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
};

struct Machine {
  int version = 13000;  // the result of cuDriverGetVersion
  int devices = 2;
  int init_error = 0;
  int major = 9, minor = 0;
  uint64_t device_bytes = 1 << 30;
  int block_shared = 227 << 10;                          // the most bytes of a block
  int function_threads = 1024, function_registers = 32;  // cuFuncGetAttribute's results for every function
  int processors = 132;
  // The number of hardware queues of a GPU. Work of streams that share a queue runs in the order in which it
  // was added, even if other work could go first. Streams, and each further branch of a graph, get queues in
  // turn. 0: each has its own queue.
  uint64_t queues = 0;
  // Whether GPUs report that they reach each other's memory, and whether their writes there arrive.
  bool peers = true, peers_arrive = true;
  // The free device memory that a loaded module and a node of an instantiated graph take, each kind rounded
  // up in steps.
  uint64_t module_bytes = 0, node_bytes = 0;
};
RONDO_FAKE_API void SetMachine(const Machine& machine);

// A kernel of any module: the bytes of each parameter, and the function that runs when its turn comes, with
// the words of all parameters. It returns the error that ends its context, 0 for none, or kNotYet.
struct Kernel {
  std::vector<size_t> params;
  std::function<int(const std::vector<uint64_t>& params)> run;
};
RONDO_FAKE_API void SetKernel(const std::string& name, Kernel kernel);
RONDO_FAKE_API void RemoveKernel(const std::string& name);
RONDO_FAKE_API Machine GetMachine();

// Images may also bring their own kernels: a launch calls one with the addresses of its parameters.
struct LaunchShape {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
};
struct LoadedKernel {
  std::vector<size_t> params;
  std::function<int(const LaunchShape& launch, void* const* params)> run;
};
// Called for each loaded image. Returns its kernels by name, none for an unknown image.
using Loader = std::function<std::map<std::string, LoadedKernel>(const void* image)>;
RONDO_FAKE_API void SetLoader(Loader loader);

// The first bytes of other fakes' images. Images of plans are ELF images or PTX.
inline constexpr char kImage[] = "fake";

// The objects that programs hold now.
struct Balance {
  int64_t contexts = 0, modules = 0, streams = 0, events = 0, graphs = 0, blocks = 0, bytes = 0,
          host_blocks = 0;
  friend bool operator==(const Balance&, const Balance&) = default;
};
RONDO_FAKE_API Balance Held();

// The number of copies between host and device so far, by the kind of host memory.
struct HostCopies {
  uint64_t ordinary = 0, page_locked = 0;
  friend bool operator==(const HostCopies&, const HostCopies&) = default;
};
RONDO_FAKE_API HostCopies CountHostCopies();

// The number of calls so far that allocate or free memory, or load code, while a device's work waited for
// work that nobody had added yet (a collective of another rank). CUDA may hang then: such a call waits for
// the device and keeps others from adding work.
RONDO_FAKE_API uint64_t CountStalls();

// The number of graphs, and of copies to the host, that were added to a stream with unfinished work.
RONDO_FAKE_API uint64_t CountQueued();

inline constexpr uint64_t kNoCall = ~uint64_t{0};
// Counts calls that can fail, from 0, and fails the `fail`-th with `error`.
RONDO_FAKE_API void Arm(uint64_t fail, int error);
struct Count {
  uint64_t calls = 0;
  bool fired = false;
  std::string failed;  // the name of the function that failed
};
RONDO_FAKE_API Count Disarm();

// Whether a block of any device contains the address or ends there.
RONDO_FAKE_API bool IsMemory(uint64_t address);

// For other fakes: adds work to a stream, or to the graph that it records. The work returns the same as
// Kernel::run; on kNotYet it waits for work of other devices and is called again. Returns an error of CUDA.
inline constexpr int kNotYet = -1;
RONDO_FAKE_API int AddWork(void* stream, std::function<int()> work);
// Makes waiting work be tried again.
RONDO_FAKE_API void Wake();
// Tells that a call of another fake allocates device memory (CountStalls).
RONDO_FAKE_API void TakeMemory();
// The device of the context that the calling thread pushed last.
RONDO_FAKE_API int CurrentDevice();

// Makes contexts work again, as in a new process.
RONDO_FAKE_API void Heal();

}  // namespace rondo::fake_cuda
