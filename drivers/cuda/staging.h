// Staging: page-locked memory through which one stream copies from and to pageable memory. Internal to
// drivers/cuda.
#pragma once

#include <cstdint>
#include <memory>

#include "core/driver.h"
#include "core/list.h"
#include "core/status.h"
#include "drivers/cuda/copy_team.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

class CudaDevice;

// A copy from or to pageable memory blocks inside libcuda, which holds its lock meanwhile: no other stream of
// the process can be given work. Here the caller's thread copies between its memory and the staging memory,
// outside any lock, and libcuda only sees page-locked memory, whose copies it enqueues.
//
// The memory is a ring of slots. Tensors lie in it one after another, large ones in pieces of at most a slot:
// while one slot is on the bus, the next is filled or emptied. Inputs and outputs share the ring: the stream
// has read the inputs before it writes the outputs. Outputs reach the caller's memory in Finish. Used by one
// thread at a time, like its stream.
class Staging {
 public:
  static constexpr uint64_t kSlotBytes = 512 << 10;
  static constexpr uint64_t kMostSlots = 8;

  // `team` may be null and must outlive the result. Sized for `copies`; larger copies wait more.
  static Result<std::unique_ptr<Staging>> Create(CudaDevice& device, const CopyNeeds& copies, CopyTeam* team);
  // Nothing of the stream may be in flight.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  uint64_t bytes() const { return slot_bytes_ * slots_; }

  // With the device's context current; `memory` is pageable. Like Device::CopyIn and CopyOut; allocates
  // nothing.
  Status CopyIn(Address to, const void* memory, uint64_t bytes, StreamHandle stream);
  Status CopyOut(void* memory, Address from, uint64_t bytes, StreamHandle stream);
  // Returns when the stream is idle and all outputs are in the caller's memory.
  Status Finish(StreamHandle stream);

 private:
  struct Copy {
    uint8_t* to = nullptr;
    Address from = 0;
    uint64_t bytes = 0;
  };
  // Positions in the ring, and slots, are numbered on from round to round.
  struct Piece {
    uint64_t position = 0, bytes = 0;
  };
  // Progress of a walk over copies_.
  struct Cursor {
    size_t copy = 0;
    uint64_t done = 0;  // bytes of the current copy
    uint64_t position = 0;
  };

  Staging(CudaDevice& device, CopyTeam* team) : device_(device), team_(team) {}
  Status Prepare(const CopyNeeds& copies);
  // The place of the next piece of a copy with `left` bytes to go, when the ring is used up to `position`.
  Piece Next(uint64_t position, uint64_t left) const;
  // The place of the next piece of copies_. Advance marks it as done.
  Piece Next(const Cursor& at) const;
  void Advance(Cursor* at, const Piece& piece) const;
  uint64_t SlotOf(const Piece& piece) const { return piece.position / slot_bytes_; }
  // The slot of the last byte before `position`.
  uint64_t SlotBefore(uint64_t position) const { return position == 0 ? 0 : (position - 1) / slot_bytes_; }
  uint8_t* At(const Piece& piece) const { return memory_ + piece.position % bytes(); }
  EventHandle EventOf(uint64_t slot) const { return events_[slot % slots_]; }
  // If `piece` begins a new slot after `position`: records that all of the stream's work on the previous slot
  // has been enqueued.
  Status Leave(uint64_t position, const Piece& piece, StreamHandle stream);
  // Enqueues copies of outputs until the ring is full.
  Status SendOutputs(StreamHandle stream);
  // Waits for the oldest slot with outputs, and empties it.
  Status TakeSlot(StreamHandle stream);
  Status TakeOutputs(StreamHandle stream);
  // Drops outputs that were not taken, so that no caller's memory is written any more.
  void Forget();
  // Copies an output's piece to the caller's memory.
  void Take(void* to, const Piece& piece) const;
  // If `piece` begins a new slot after `position`: waits until the stream is done with the slot's old
  // contents.
  Status AwaitSlot(uint64_t position, const Piece& piece);
  Status CopyAlone(Address to, const uint8_t* from, uint64_t bytes, StreamHandle stream);
  Status CopyShared(Address to, const uint8_t* from, uint64_t bytes, StreamHandle stream);

  CudaDevice& device_;
  CopyTeam* const team_;
  uint8_t* memory_ = nullptr;
  uint64_t slot_bytes_ = 0;
  uint64_t slots_ = 1;
  EventHandle events_[kMostSlots] = {};  // one for each slot: the stream is done with it
  uint64_t in_ = 0;                      // end of the inputs in the ring
  GrowingList<Copy> copies_;             // outputs; room for as many as were announced
  Cursor sent_, taken_;
  uint64_t emptied_ = 0;  // slots
};

}  // namespace rondo::cuda
