// CollectiveNotes: what one device notes of a program's collectives as it comes to them, for the watchdog.
// Internal to drivers/cuda.
//
// A byte a collective that the device starts, in page-locked memory, in the order of the starts; with `ends`
// another for its end. The device writes it before its part of the collective begins, so on the stream that
// this is on: a small collective's kernel by itself, else one of two nodes of the graph.
#ifndef RONDO_DRIVERS_CUDA_COLLECTIVE_NOTES_H_
#define RONDO_DRIVERS_CUDA_COLLECTIVE_NOTES_H_

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
  // Nothing that notes may be in flight.
  void Close();

  // Of a device that starts `starts` collectives in a run. Once.
  Status Prepare(CudaDevice* device, uint32_t starts, bool ends);

  // Where the device notes that it has come to its collective `n`, from 0 on, or that this has ended: by any
  // value but 0.
  uint8_t* Start(uint32_t n) const { return bytes_ + n; }
  uint8_t* End(uint32_t n) const { return bytes_ + starts_ + n; }
  // Enqueues (or records) that note, with the device's context current.
  Status Note(uint8_t* at, StreamHandle stream) const;

  // A run begins.
  void Clear();
  bool HasStarted(uint32_t n) const { return IsSet(Start(n)); }
  // How many have, one after the other, from the first on.
  uint32_t Started() const { return Count(bytes_); }
  uint32_t Ended() const { return ends_ ? Count(bytes_ + starts_) : 0; }

 private:
  static bool IsSet(const uint8_t* at) { return __atomic_load_n(at, __ATOMIC_RELAXED) != 0; }
  uint32_t Count(const uint8_t* first) const;

  CudaDevice* device_ = nullptr;
  uint8_t* bytes_ = nullptr;
  uint32_t starts_ = 0;
  bool ends_ = false;
};

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_COLLECTIVE_NOTES_H_
