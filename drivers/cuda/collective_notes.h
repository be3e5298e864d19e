// CollectiveNotes: notes of one device about the collectives that it reaches, for the watchdog. Internal to
// drivers/cuda.
//
// One word in page-locked memory for each collective that the device starts, in order of the starts; with
// `ends`, another for its end. The kernel of a small collective writes its own. NCCL's is written before the
// collective, on a stream beside the working ones, so that only the end of a graph waits for it. Where ranks
// share a GPU and have no queue to spare for that stream, a kernel in line writes it.
#pragma once

#include <cstdint>

#include "core/driver.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

class CudaDevice;

// Any thread may read; all else by one thread at a time.
class CollectiveNotes {
 public:
  CollectiveNotes() = default;
  CollectiveNotes(const CollectiveNotes&) = delete;
  ~CollectiveNotes() { Close(); }
  // Closes this when all notes have been written. Call it before the things that notes wait for are
  // destroyed.
  void Close();

  // For a device that starts `starts` collectives in a run. Once.
  Status Prepare(CudaDevice* device, uint32_t starts, bool ends, bool in_line);

  // The word that notes that the device has reached its collective `n`, counted from 0 (Start), or that this
  // has ended (End): any value but 0.
  uint32_t* Start(uint32_t n) const { return words_ + n; }
  uint32_t* End(uint32_t n) const { return words_ + starts_ + n; }
  // Enqueues (or records) that note: after `event` or, in line, on `stream`. With the device's context
  // current.
  Status Note(uint32_t* at, EventHandle event, StreamHandle stream) const;
  bool are_beside() const { return stream_ != nullptr; }
  // Makes `stream`, on which a recording began, wait for the notes made beside it.
  Status JoinTo(StreamHandle stream);

  // Called when a run begins.
  void Clear();
  bool HasStarted(uint32_t n) const { return IsSet(Start(n)); }
  // The number of collectives noted without a gap, from the first on.
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
