// A libcuda.so.1 without a GPU: the functions that drivers/cuda opens, over host memory, with failures on
// request. Faults of kernels end every context of the process, as they do with NVIDIA's own. A program that
// links it has it in place before the driver looks for the real one.
//
// Work is as late as CUDA allows: what is enqueued runs, in order, when somebody waits. Sources in
// page-locked memory are read then and not before; other sources are read at once, as CUDA does. Copies must
// stay within a block of their device, calls need their device's context, captured streams refuse what CUDA
// refuses.
//
// For programs of their own, the environment sets the machine: RONDO_FAKE_CUDA="devices=0", "version=11080",
// "init=100" (an error of cuInit), "capability=80", in one text separated by commas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#define RONDO_FAKE_API __attribute__((visibility("default")))

// Told when a function of a fake begins (1) and ends (0), if the program has it: what happens between is not
// the library's doing.
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
  int version = 13000;  // as cuDriverGetVersion says
  int devices = 2;
  int init_error = 0;
  int major = 9, minor = 0;
  uint64_t device_bytes = 1 << 30;
  int block_shared = 227 << 10;                          // bytes that a block can have
  int function_threads = 1024, function_registers = 32;  // as cuFuncGetAttribute says of every function
  int processors = 132;
  // Work of streams that share one of a GPU's queues is done in the order in which it came, whatever it waits
  // for; streams, and each further branch of a graph, take them in turns. 0: a queue each.
  uint64_t queues = 0;
  // Whether GPUs say that they reach each other's memory, and whether what they write there arrives.
  bool peers = true, peers_arrive = true;
  // What a loaded module and a node of an instantiated graph take of free device memory, each kind in steps.
  uint64_t module_bytes = 0, node_bytes = 0;
};
RONDO_FAKE_API void SetMachine(const Machine& machine);

// A kernel of any module: the bytes of each parameter, and what it does when its turn comes with the words of
// all of them. What it returns is the error that ends its context, 0: none, or kNotYet.
struct Kernel {
  std::vector<size_t> params;
  std::function<int(const std::vector<uint64_t>& params)> run;
};
RONDO_FAKE_API void SetKernel(const std::string& name, Kernel kernel);
RONDO_FAKE_API void RemoveKernel(const std::string& name);
RONDO_FAKE_API Machine GetMachine();

// Or images bring their kernels: what a launch of one does with the addresses of its parameters.
struct LaunchShape {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
};
struct LoadedKernel {
  std::vector<size_t> params;
  std::function<int(const LaunchShape& launch, void* const* params)> run;
};
// Asked for each image that is loaded; the kernels it has, by name, none of an image that it does not know.
using Loader = std::function<std::map<std::string, LoadedKernel>(const void* image)>;
RONDO_FAKE_API void SetLoader(Loader loader);

// What images of other fakes begin with. Those of plans are ELF images or PTX.
inline constexpr char kImage[] = "fake";

// What programs hold now.
struct Balance {
  int64_t contexts = 0, modules = 0, streams = 0, events = 0, graphs = 0, blocks = 0, bytes = 0,
          host_blocks = 0;
  friend bool operator==(const Balance&, const Balance&) = default;
};
RONDO_FAKE_API Balance Held();

// Copies between a host and a device so far, by where the host's bytes lay.
struct HostCopies {
  uint64_t ordinary = 0, page_locked = 0;
  friend bool operator==(const HostCopies&, const HostCopies&) = default;
};
RONDO_FAKE_API HostCopies CountHostCopies();

// Calls so far that give or take memory, or load code, and came when work of a device waited for work that
// nobody had added yet, a collective for another rank. CUDA may hang then: such a call waits for the device
// and keeps others from adding work.
RONDO_FAKE_API uint64_t CountStalls();

// Graphs, and copies to the host, that were put behind work of their stream that had not been done.
RONDO_FAKE_API uint64_t CountQueued();

inline constexpr uint64_t kNoCall = ~uint64_t{0};
// Counts calls that can fail, from 0 on, and fails the `fail`-th with `error`.
RONDO_FAKE_API void Arm(uint64_t fail, int error);
struct Count {
  uint64_t calls = 0;
  bool fired = false;
  std::string failed;  // the name of the function that failed
};
RONDO_FAKE_API Count Disarm();

// Whether a block of any device holds the byte there, or ends there.
RONDO_FAKE_API bool IsMemory(uint64_t address);

// For other fakes: adds work to a stream, or to the graph that it records. What it returns is as of
// Kernel::run, or kNotYet: it waits for work of other devices, and is called again. Returns an error of CUDA.
inline constexpr int kNotYet = -1;
RONDO_FAKE_API int AddWork(void* stream, std::function<int()> work);
// Lets work that has waited be looked at again.
RONDO_FAKE_API void Wake();
// A call of theirs takes memory of a device's (CountStalls).
RONDO_FAKE_API void TakeMemory();
// Of the context that the calling thread has pushed last.
RONDO_FAKE_API int CurrentDevice();

// A new process, as far as this library is concerned: contexts work again.
RONDO_FAKE_API void Heal();

}  // namespace rondo::fake_cuda
