// VerifyPlan: checks that PlanData is well formed, so that nothing that runs it can leave its bounds.
//
// Trusts nothing: every index, enum, matmul, address and name is checked. It does not check lifetimes, or
// which write a read sees: CheckPlan does (check/checker.h).
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
// Rules that do not follow from core/plan.h and core/kernel.h:
// - Names of kernels, of programs, of a program's input ports and of its output ports are unique.
// - An operand has stride 0 along each loop that its tape or role does not run over (except loops of extent
//   1), and so do its guards and the operands of its indirects. An operand that gives another its index has
//   no indirects, is read, and has an integer type.
// - A store of a part that is not sequential reaches different elements at different points: its strides,
//   sorted, are each larger than all that the smaller ones can span (apart from loops that an indirect's
//   operand depends on).
// - Operands of kinds kWrite and kReadWrite are stored to, or combined into, by some tape. A combined operand
//   is one element of f32, combined in one way, and no tape uses it otherwise.
// - Row scalars and kept rows are set before they are read, with the type they are read with.
// - Bindings of a step are on the step's device. kCopy has 2, a collective's start has 2 (from, to), its wait
//   none. SyncPoint::bytes is what one participant holds of the smaller side: kAllGather writes, and
//   kReduceScatter reads, this times the number of participants.
// - A custom op that must not be in a graph says why, and its step is a partition of its own. An output that
//   shares an input's memory has its type and is bound to its place: to the same buffer or, as the new
//   version of an input that the op changes, to a buffer that takes that one over. Each changed input has one
//   new version.
// - A kernel's scratch and a run's work stay within need.h and within what Requirements state.
// - Every binary's parameters are bound as the binary assumes (KernelBinary::assumes). A library matmul
//   writes no element twice. If its addend has another layout than its result, the two do not share memory.
// - A plan that takes more work than its size explains (work.h) is refused with kUnsupported.
// - Each event is recorded by at most one step, which comes before every step that waits for it.
// - Sync points are started on each participant and nowhere else, once and in the program's order, and are
//   waited for once, later, on buffers of their dtype. Certificates equal OrderCertificate (certificate.h).
//   Messages about them name device, sync point and source node.
// - No deadlock: all devices reach their end if each launches its partitions in order, and each partition
//   starts when the partitions of the other devices' steps that its own steps name are complete.
Status VerifyPlan(const PlanData& plan, const HostAllocator& allocator = DefaultHostAllocator());

}  // namespace rondo
