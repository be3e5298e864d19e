// Staging: the page-locked memory through which one stream copies from and to ordinary memory. Internal to
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

// A copy from or to pageable memory blocks inside libcuda, which keeps its lock meanwhile: other streams of
// the process cannot be given work. Here the caller's thread copies between its memory and this, outside of
// any lock, and libcuda only ever sees page-locked memory, whose copies it enqueues.
//
// The memory is a ring of slots. Tensors lie in it one after the other, large ones in pieces of a slot: while
// one slot is on the bus, the next is filled or emptied. Inputs and outputs share it: the stream has read the
// ones before it writes the others. What is copied out reaches the caller's memory in Finish.
// Used by one thread at a time, as its stream is.
class Staging {
 public:
  static constexpr uint64_t kSlotBytes = 512 << 10;
  static constexpr uint64_t kMostSlots = 8;

  // `team` may be null and must outlive the result. Sized for `copies`; what is more is copied with more
  // waiting.
  static Result<std::unique_ptr<Staging>> Create(CudaDevice& device, const CopyNeeds& copies, CopyTeam* team);
  // Nothing of the stream may be in flight.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  uint64_t bytes() const { return slot_bytes_ * slots_; }

  // With the device's context current; `memory` ordinary. As Device::CopyIn and CopyOut, allocating nothing.
  Status CopyIn(Address to, const void* memory, uint64_t bytes, StreamHandle stream);
  Status CopyOut(void* memory, Address from, uint64_t bytes, StreamHandle stream);
  // Returns when the stream is idle and all outputs are where they belong.
  Status Finish(StreamHandle stream);

 private:
  struct Copy {
    uint8_t* to = nullptr;
    Address from = 0;
    uint64_t bytes = 0;
  };
  // Positions in the ring count on, round after round, and so do its slots.
  struct Piece {
    uint64_t position = 0, bytes = 0;
  };
  // How far a walk over copies_ has come.
  struct Cursor {
    size_t copy = 0;
    uint64_t done = 0;  // bytes of it
    uint64_t position = 0;
  };

  Staging(CudaDevice& device, CopyTeam* team) : device_(device), team_(team) {}
  Status Prepare(const CopyNeeds& copies);
  // Where the next piece of a copy lies that has `left` bytes to go, the ring being used up to `position`.
  Piece Next(uint64_t position, uint64_t left) const;
  // Where the next piece of copies_ lies, and that it is done with.
  Piece Next(const Cursor& at) const;
  void Advance(Cursor* at, const Piece& piece) const;
  uint64_t SlotOf(const Piece& piece) const { return piece.position / slot_bytes_; }
  // The slot that the last byte before `position` is in.
  uint64_t SlotBefore(uint64_t position) const { return position == 0 ? 0 : (position - 1) / slot_bytes_; }
  uint8_t* At(const Piece& piece) const { return memory_ + piece.position % bytes(); }
  EventHandle EventOf(uint64_t slot) const { return events_[slot % slots_]; }
  // If `piece` begins another slot than what ends at `position` is in: all that the stream has to do with
  // that one has been enqueued.
  Status Leave(uint64_t position, const Piece& piece, StreamHandle stream);
  // Enqueues outputs until slots must be emptied first.
  Status SendOutputs(StreamHandle stream);
  // Waits for the first slot that has outputs, and empties it.
  Status TakeSlot(StreamHandle stream);
  Status TakeOutputs(StreamHandle stream);
  // Of outputs that have not been taken: nobody's memory is written any more.
  void Forget();
  // Copies an output's piece to the caller's memory.
  void Take(void* to, const Piece& piece) const;
  // If `piece` begins another slot than what ends at `position` is in: the stream has done with what was
  // there.
  Status AwaitSlot(uint64_t position, const Piece& piece);
  Status CopyAlone(Address to, const uint8_t* from, uint64_t bytes, StreamHandle stream);
  Status CopyShared(Address to, const uint8_t* from, uint64_t bytes, StreamHandle stream);

  CudaDevice& device_;
  CopyTeam* const team_;
  uint8_t* memory_ = nullptr;
  uint64_t slot_bytes_ = 0;
  uint64_t slots_ = 1;
  EventHandle events_[kMostSlots] = {};  // one a slot: the stream has done with it
  uint64_t in_ = 0;                      // up to where inputs use the ring
  GrowingList<Copy> copies_;             // out; room for as many as were announced
  Cursor sent_, taken_;
  uint64_t emptied_ = 0;  // slots
};

}  // namespace rondo::cuda
