// Custom ops of a plan, ready to be called: each is found in its library, compared with the plan's
// description, and instantiated. Ops are host functions, for every driver; some enqueue work on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/arena.h"
#include "core/custom_op.h"
#include "core/plan.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

// One entry of PlanData::custom_ops. Immutable once made; any number of threads may run it.
struct CallProgram {
  const OpInfo* info = nullptr;  // null: not made yet
  void* instance = nullptr;
  uint32_t num_inputs = 0, num_outputs = 0;  // outputs of the node
  uint64_t workspace_bytes = 0;
  size_t num_addresses() const { return size_t{num_inputs} + num_outputs + (workspace_bytes != 0); }

  // Runs the op over this process's memory at `addresses`, one for each argument of the plan's custom op (0
  // where absent). An error is the op's own sentence; only then does this allocate.
  Status Run(const uint64_t* addresses) const;
  // The same on a GPU, whose context is current: enqueues work on `stream` (a CUstream) over GPU memory. For
  // ops that have `enqueue`.
  Status Enqueue(const uint64_t* addresses, void* stream) const;

 private:
  using Function = int32_t (*)(void*, const rondo_op_call*, char*, size_t);
  Status Call(Function function, const uint64_t* addresses, void* stream, const char* otherwise) const;
};

// Owns the instances.
class CallTable {
 public:
  CallTable() = default;
  CallTable(const CallTable&) = delete;
  CallTable& operator=(const CallTable&) = delete;
  ~CallTable() { Clear(); }

  // `ops` may be null and must outlive the table. Errors name the op, its library and the model's node.
  // `cuda`: for a GPU, whose context is current; instances of ops that have `enqueue` are made for it.
  Status Build(const PlanData& plan, const OpRegistry* ops, bool cuda, Arena& arena);
  void Clear();
  const CallProgram* at(uint32_t index) const { return index < calls_.size() ? &calls_[index] : nullptr; }

 private:
  Span<CallProgram> calls_;
};

}  // namespace rondo
