// VerifyPlan: is this PlanData well formed, so that nothing that runs it can step outside its bounds?
//
// Trusts nothing: every index, enum, matmul, address and name. What it does not look at is when
// buffers are live and who has written what is read: that is CheckPlan's (check/checker.h).
#pragma once

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// Limits that a plan must keep, so that no arithmetic on it can overflow.
inline constexpr uint32_t kMaxDevices = 64;
inline constexpr uint32_t kMaxStreams = 64;              // per device
inline constexpr uint32_t kMaxEvents = 1u << 20;         // per program
inline constexpr uint64_t kMaxRegionBytes = 1ull << 46;  // of any region or buffer
inline constexpr size_t kMaxCustomArguments = 64;        // inputs, and outputs, of one custom op
inline constexpr int64_t kMaxPoints = int64_t{1} << 53;  // iteration points of one part

// OK, or the first broken rule as one sentence (kCorrupt), with the source node where one is known.
// `allocator` gives the memory for looking up names; kOutOfMemory if it cannot.
//
// Rules that are not plain from core/plan.h and core/kernel.h:
// - Names: of kernels, of programs, of the input ports of a program and of its output ports are unique.
// - A loop that a tape or role does not run over must have stride 0 in its operands (extent 1 aside),
//   and so must the strides of their guards and the operands of their indirects. An operand that
//   another takes its index from has no indirects of its own, is read, and is of an integer type.
// - A store of a part that is not sequential must reach different elements at different points: its
//   strides, sorted, must each be larger than all that the smaller ones can span (loops that an
//   indirect's operand depends on aside).
// - Operands of kinds kWrite and kReadWrite are stored to, or combined into, by some tape. What is combined
//   into is one element of f32, in one way, and no tape touches it otherwise.
// - Row scalars and kept rows are set before they are read, with the type they are read with.
// - Bindings of a step are on the step's device. kCopy has 2, a collective's start has 2 (from, to), its
//   wait none. SyncPoint::bytes is what one participant holds of the smaller side: kAllGather writes,
//   and kReduceScatter reads, that times the number of participants.
// - A custom op that no graph may contain says why, and its step is a partition of its own. An output that is
// an
//   input's memory has its type and is bound to its place: to the same buffer, or, as the new version of an
//   input that the op changes, to one that takes that buffer over. Each input that is changed has one new
//   version.
// - What a kernel needs of scratch, and a run of work, keeps the limits of need.h, and what Requirements
// state.
// - Every binary's parameters are bound where the binary relies on it (KernelBinary::assumes). A matmul of a
// library
//   writes no element twice, and where what it adds is laid out unlike its result, the two do not share
//   memory.
// - What takes more work than the plan's size explains (work.h) is refused with kUnsupported.
// - Each event is recorded by at most one step, which comes before every step that waits for it.
// - Sync points are started on each participant, and nowhere else, once and in their order in the
//   program, and waited for once, later, on buffers of their dtype. Certificates equal OrderCertificate
//   (certificate.h). Messages about them name device, sync point and source node.
// - Devices that launch their partitions one after another, each when the steps of other devices that its own
//   steps name are complete with their partitions, all come to the end.
Status VerifyPlan(const PlanData& plan, const HostAllocator& allocator = DefaultHostAllocator());

}  // namespace rondo
