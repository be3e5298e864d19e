// Custom ops of a plan, ready to be called: each found in its library, compared with what the plan says of
// it, and made into an instance. Ops are functions of the host, whichever driver calls them.
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
  uint32_t num_inputs = 0, num_outputs = 0;

  // Runs it over the memory of this process at `addresses`, one an argument (0 where it is absent). Not OK:
  // the op's own sentence. Allocates only then.
  Status Run(const uint64_t* addresses) const;
};

// Owns the instances.
class CallTable {
 public:
  CallTable() = default;
  CallTable(const CallTable&) = delete;
  CallTable& operator=(const CallTable&) = delete;
  ~CallTable();

  // `ops` may be null and must outlive the table. Errors name the op, its library and the node of the model.
  Status Build(const PlanData& plan, const OpRegistry* ops, Arena& arena);
  const CallProgram* at(uint32_t index) const { return index < calls_.size() ? &calls_[index] : nullptr; }

 private:
  Span<CallProgram> calls_;
};

}  // namespace rondo
