#include "drivers/cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t kAlignment = 256;  // of each copy
constexpr uint64_t kPage = 4096;
static_assert(Staging::kSlotBytes <= CopyTeam::kMostBytes);

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

Result<std::unique_ptr<Staging>> Staging::Create(CudaDevice& device, const CopyNeeds& copies,
                                                 CopyTeam* team) {
  std::unique_ptr<Staging> made(new (std::nothrow) Staging(device, team));
  if (made == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for staging");
  RONDO_RETURN_IF_ERROR(made->Prepare(copies));
  return made;
}

Status Staging::Prepare(const CopyNeeds& copies) {
  const uint64_t need = std::max<uint64_t>(1, std::max(copies.in, copies.out));
  slot_bytes_ = std::min(RoundUp(need, kPage), kSlotBytes);
  // One slot more than is filled, so that data that fits a slot is not cut.
  if (need > slot_bytes_) slots_ = std::min(need / slot_bytes_ + 2, kMostSlots);
  if (!copies_.Reserve(std::max<uint32_t>(copies.outputs, 1)))
    return Status::Error(Code::kOutOfMemory, "no host memory for the copies of %u outputs", copies.outputs);
  const Api& api = device_.api();
  CudaDevice::Use use(device_);
  void* memory = nullptr;
  RONDO_RETURN_IF_ERROR(device_.Check(api.host_allocate(&memory, bytes(), kPortable), "page-locked memory")
                            .At("%llu bytes for staging", static_cast<unsigned long long>(bytes())));
  memory_ = static_cast<uint8_t*>(memory);
  std::memset(memory_, 0, bytes());  // maps all pages, so that the first copy finds no missing page
  for (uint64_t slot = 0; slot < slots_; ++slot) {
    RONDO_RETURN_IF_ERROR(device_.Check(api.event_create(&events_[slot], kNoTiming), "creating an event"));
  }
  return Status::Ok();
}

Staging::~Staging() {
  CudaDevice::Use use(device_);
  for (EventHandle event : events_) {
    if (event != nullptr) device_.api().event_destroy(event);
  }
  if (memory_ != nullptr) device_.api().host_release(memory_);
}

Staging::Piece Staging::Next(uint64_t position, uint64_t left) const {
  uint64_t at = RoundUp(position, kAlignment);
  const uint64_t room = slot_bytes_ - at % slot_bytes_;
  if (left > room && left <= slot_bytes_) at += room;
  return {at, std::min(left, slot_bytes_ - at % slot_bytes_)};
}

Staging::Piece Staging::Next(const Cursor& at) const {
  return Next(at.position, copies_[at.copy].bytes - at.done);
}

void Staging::Advance(Cursor* at, const Piece& piece) const {
  at->position = piece.position + piece.bytes;
  at->done += piece.bytes;
  if (at->done == copies_[at->copy].bytes) *at = {at->copy + 1, 0, at->position};
}

Status Staging::Leave(uint64_t position, const Piece& piece, StreamHandle stream) {
  const uint64_t slot = SlotBefore(position);
  if (slot == SlotOf(piece)) return Status::Ok();
  return device_.Check(device_.api().event_record(EventOf(slot), stream, 0), "recording an event");
}

void Staging::Take(void* to, const Piece& piece) const {
  if (team_ == nullptr || piece.bytes < CopyTeam::kLeastBytes || !team_->Begin()) {
    std::memcpy(to, At(piece), piece.bytes);
    return;
  }
  team_->Post(to, At(piece), piece.bytes, false);
  team_->Complete();
  team_->End();
}

Status Staging::AwaitSlot(uint64_t position, const Piece& piece) {
  const uint64_t slot = SlotOf(piece);
  if (slot == SlotBefore(position) || slot < slots_) return Status::Ok();
  return device_.Check(device_.api().event_synchronize(EventOf(slot)), "copying to the device");
}

Status Staging::CopyIn(Address to, const void* memory, uint64_t bytes, StreamHandle stream) {
  if (!copies_.empty()) RONDO_RETURN_IF_ERROR(Finish(stream));
  const auto* from = static_cast<const uint8_t*>(memory);
  if (team_ == nullptr || bytes < CopyTeam::kLeastBytes || !team_->Begin())
    return CopyAlone(to, from, bytes, stream);
  Status status = CopyShared(to, from, bytes, stream);
  team_->End();
  return status;
}

Status Staging::CopyAlone(Address to, const uint8_t* from, uint64_t bytes, StreamHandle stream) {
  for (uint64_t done = 0; done < bytes;) {
    const Piece piece = Next(in_, bytes - done);
    RONDO_RETURN_IF_ERROR(Leave(in_, piece, stream));
    RONDO_RETURN_IF_ERROR(AwaitSlot(in_, piece));
    in_ = piece.position + piece.bytes;
    if (piece.bytes < CopyTeam::kLeastBytes) {
      std::memcpy(At(piece), from + done, piece.bytes);
    } else {
      CopyTeam::CopyPastCaches(At(piece), from + done, piece.bytes);
    }
    RONDO_RETURN_IF_ERROR(device_.Check(device_.api().copy_in(to + done, At(piece), piece.bytes, stream),
                                        "copying to the device"));
    done += piece.bytes;
  }
  return Status::Ok();
}

// The team gets the next piece before the last one is enqueued. In a ring of at least three slots, which
// every ring with a team has, a slot has been passed on to the bus before anything waits for it.
Status Staging::CopyShared(Address to, const uint8_t* from, uint64_t bytes, StreamHandle stream) {
  Status status;
  uint64_t sent = in_;  // the data before it is enqueued
  Piece last;           // posted
  const auto send = [&] {
    team_->Complete();
    if (status.ok()) status = Leave(sent, last, stream);
    if (status.ok()) {
      status =
          device_.Check(device_.api().copy_in(to, At(last), last.bytes, stream), "copying to the device");
    }
    to += last.bytes;
    sent = last.position + last.bytes;
  };
  for (uint64_t done = 0; done < bytes;) {
    const Piece piece = Next(in_, bytes - done);
    if (status.ok()) status = AwaitSlot(in_, piece);
    if (!status.ok()) break;
    in_ = piece.position + piece.bytes;
    team_->Post(At(piece), from + done, piece.bytes, true);
    done += piece.bytes;
    if (last.bytes != 0) send();
    last = piece;
  }
  if (last.bytes != 0) send();
  return status;
}

Status Staging::CopyOut(void* memory, Address from, uint64_t bytes, StreamHandle stream) {
  if (copies_.size() == copies_.room()) RONDO_RETURN_IF_ERROR(Finish(stream));
  copies_.push_back({static_cast<uint8_t*>(memory), from, bytes});
  Status status = SendOutputs(stream);
  if (!status.ok()) Forget();
  return status;
}

Status Staging::SendOutputs(StreamHandle stream) {
  while (sent_.copy < copies_.size()) {
    const Piece piece = Next(sent_);
    if (SlotOf(piece) >= emptied_ + slots_) return Status::Ok();
    RONDO_RETURN_IF_ERROR(Leave(sent_.position, piece, stream));
    const Address from = copies_[sent_.copy].from + sent_.done;
    RONDO_RETURN_IF_ERROR(device_.Check(device_.api().copy_out(At(piece), from, piece.bytes, stream),
                                        "copying from the device"));
    Advance(&sent_, piece);
  }
  return Status::Ok();
}

Status Staging::TakeSlot(StreamHandle stream) {
  const Api& api = device_.api();
  const uint64_t slot = SlotOf(Next(taken_));
  const bool left = SlotBefore(sent_.position) != slot;
  const Error error = left ? api.event_synchronize(EventOf(slot)) : api.stream_synchronize(stream);
  RONDO_RETURN_IF_ERROR(device_.Check(error, "running on the device"));
  while (taken_.copy < copies_.size()) {
    const Piece piece = Next(taken_);
    if (SlotOf(piece) != slot) break;
    Take(copies_[taken_.copy].to + taken_.done, piece);
    Advance(&taken_, piece);
  }
  emptied_ = slot + 1;
  return Status::Ok();
}

// The caller's wait for the stream includes the last slot.
Status Staging::TakeOutputs(StreamHandle stream) {
  if (copies_.empty()) {
    return device_.Check(device_.api().stream_synchronize(stream), "running on the device");
  }
  while (taken_.copy < copies_.size()) {
    RONDO_RETURN_IF_ERROR(TakeSlot(stream));
    RONDO_RETURN_IF_ERROR(SendOutputs(stream));
  }
  return Status::Ok();
}

Status Staging::Finish(StreamHandle stream) {
  Status status = TakeOutputs(stream);
  if (!status.ok()) (void)device_.api().stream_synchronize(stream);
  Forget();
  in_ = 0;
  return status;
}

void Staging::Forget() {
  copies_.clear();
  sent_ = taken_ = {};
  emptied_ = 0;
}

}  // namespace rondo::cuda
