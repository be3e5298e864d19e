// CollectiveNotes: what one device notes of a program's collectives as it comes to them, for the watchdog.
// Internal to drivers/cuda.
//
// A stream of its own, beside those that work, copies numbers from the device to page-locked memory: nothing
// that a run waits for waits for a note, but the end of a graph for its last.
#ifndef RONDO_DRIVERS_CUDA_COLLECTIVE_NOTES_H_
#define RONDO_DRIVERS_CUDA_COLLECTIVE_NOTES_H_

#include <cstdint>

#include "core/driver.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

class CudaDevice;

// Read by any thread, the rest by one at a time, with the device's context current.
class CollectiveNotes {
 public:
  CollectiveNotes() = default;
  CollectiveNotes(const CollectiveNotes&) = delete;
  ~CollectiveNotes() { Close(); }
  // Ends it, once all that was noted is: before what it waits for ends.
  void Close();

  // Of a device that starts `starts` collectives in a run. Once.
  Status Prepare(CudaDevice* device, uint32_t starts);

  // Enqueues (or records) the note that the device has come to `count` collectives, or that so many have
  // ended, once it has passed `event`.
  Status NoteStarted(EventHandle event, uint32_t count) { return Note(event, count, 0); }
  Status NoteEnded(EventHandle event, uint32_t count) { return Note(event, count, 1); }
  // Makes `stream`, which a recording began on, wait for what has been noted in it.
  Status JoinTo(StreamHandle stream);

  // A run begins.
  void Clear();
  CollectiveProgress Read() const;

 private:
  Status Note(EventHandle event, uint32_t count, int which);

  CudaDevice* device_ = nullptr;
  StreamHandle stream_ = nullptr;
  EventHandle noted_ = nullptr;
  uint32_t* words_ = nullptr;  // page-locked: started, ended
  Address numbers_ = 0;        // on the device: 1, 2, ...
  uint32_t starts_ = 0;
};

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_COLLECTIVE_NOTES_H_
