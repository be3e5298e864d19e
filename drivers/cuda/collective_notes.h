// CollectiveNotes: what one device notes of a program's collectives as it comes to them, for the watchdog.
// Internal to drivers/cuda.
//
// A word a collective that the device starts, in page-locked memory, in the order of the starts; with `ends`
// another for its end. A small collective's kernel writes its own. Before NCCL's it is written by a stream
// beside those that work, so that nothing waits for it but the end of a graph for its last; or, where ranks
// share a GPU and have no queue to spare for that, by a kernel in line.
#pragma once

#include <cstdint>

#include "core/driver.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

class CudaDevice;

// Read by any thread, the rest by one at a time.
class CollectiveNotes {
 public:
  CollectiveNotes() = default;
  CollectiveNotes(const CollectiveNotes&) = delete;
  ~CollectiveNotes() { Close(); }
  // Ends it, once all that was noted is: before what it waits for ends.
  void Close();

  // Of a device that starts `starts` collectives in a run. Once.
  Status Prepare(CudaDevice* device, uint32_t starts, bool ends, bool in_line);

  // Where the device notes that it has come to its collective `n`, from 0 on, or that this has ended: by any
  // value but 0.
  uint32_t* Start(uint32_t n) const { return words_ + n; }
  uint32_t* End(uint32_t n) const { return words_ + starts_ + n; }
  // Enqueues (or records) that note: once `event` has been passed or, in line, on `stream`. With the device's
  // context current.
  Status Note(uint32_t* at, EventHandle event, StreamHandle stream) const;
  bool are_beside() const { return stream_ != nullptr; }
  // Makes `stream`, which a recording began on, wait for what has been noted in it beside.
  Status JoinTo(StreamHandle stream);

  // A run begins.
  void Clear();
  bool HasStarted(uint32_t n) const { return IsSet(Start(n)); }
  // How many have, one after the other, from the first on.
  uint32_t Started() const { return Count(words_); }
  uint32_t Ended() const { return ends_ ? Count(words_ + starts_) : 0; }

 private:
  static bool IsSet(const uint32_t* at) { return __atomic_load_n(at, __ATOMIC_RELAXED) != 0; }
  uint32_t Count(const uint32_t* first) const;

  CudaDevice* device_ = nullptr;
  StreamHandle stream_ = nullptr;  // beside; null: in line
  EventHandle noted_ = nullptr;
  uint32_t* words_ = nullptr;
  uint32_t starts_ = 0;
  bool ends_ = false;
};

}  // namespace rondo::cuda
