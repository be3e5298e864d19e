// Custom ops on Rondo's side: opens their libraries, and describes a call of one as plain data.
//
//   OpRegistry ops;
//   RONDO_RETURN_IF_ERROR(ops.Load("libmine.so"));
//   compile_options.ops = &ops;  // and host_options.ops = &ops
//
// rondo_op.h is what a library sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/arena.h"
#include "core/plan.h"
#include "core/rondo_op.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

// One registered op. Everything that `op` points to is the registry's own copy.
struct OpInfo {
  rondo_op op = {};
  std::string_view library;  // file name without its folder
  const OpInfo* next = nullptr;
};

// Owns opened libraries and what they registered, and closes them at the end. So it must outlive every
// compilation and driver that uses it. Load and Register from one thread at a time, before others read.
class OpRegistry {
 public:
  OpRegistry() = default;
  OpRegistry(const OpRegistry&) = delete;
  OpRegistry& operator=(const OpRegistry&) = delete;
  ~OpRegistry();

  // Opens the shared library in file `path` with local scope and registers its ops, either all or none.
  // Errors: kNotFound (no such file), kIo (cannot be opened), kUnsupported (not a library of ops, another
  // major version of the interface, an op that uses what this release does not know), kInvalidArgument (an
  // op's description contradicts itself, or its name is taken).
  Status Load(const char* path);
  // The same for ops that are part of the program. `library` names them in messages.
  Status Register(std::string_view library, rondo_register_ops_function function);

  // The op for a model that imports version `version` of `domain`: the latest that is no later. Null if none.
  const OpInfo* Find(std::string_view domain, std::string_view name, uint32_t version) const;
  // The op of exactly this version.
  const OpInfo* FindExact(std::string_view domain, std::string_view name, uint32_t version) const;
  bool empty() const { return ops_ == nullptr; }
  // The first registered op; OpInfo::next leads to the others.
  const OpInfo* ops() const { return ops_; }

 private:
  struct Library {
    void* handle = nullptr;
    Library* next = nullptr;
  };
  struct Adding;
  static int32_t Add(void* context, const rondo_op* op);
  Status Take(const rondo_op& given, Adding* adding) const;
  Status CheckNew(const rondo_op& op, const OpInfo* added) const;

  Arena arena_;
  const OpInfo* ops_ = nullptr;
  Library* libraries_ = nullptr;
};

// Describes one node that calls an op, as plain data in `arena`. `inputs` give dtype, shape and `absent`; the
// op's description gives the rest, and its `infer` the types of the outputs. `attributes` are not copied.
// `node` names the node in messages. kInvalidArgument, with the op's own sentence, when the op refuses, or
// when it gives types that are not valid.
Result<CustomOp> DescribeCall(const OpInfo& info, Span<const CustomArgument> inputs, uint32_t num_outputs,
                              Span<const CustomAttribute> attributes, std::string_view node, Arena& arena);

// The call of a plan as a library sees it, in `arena`; null when out of memory.
const rondo_op_node* MakeOpNode(const CustomOp& call, std::string_view node, Arena& arena);

// OK if `ops` (may be null) has the op that custom op `index` of `plan` calls, and the library describes it
// as the plan does. Otherwise an error that names op, library and the model's node, and says what differs.
Status CheckCall(const OpRegistry* ops, const PlanData& plan, uint32_t index);

// The node of the model (PlanData::sources) that first calls custom op `index`; "" if unknown.
std::string_view SourceOfCall(const PlanData& plan, uint32_t index);

}  // namespace rondo
