// ImportCall: turns a node whose operator is in a library of custom ops into a call of the library.
#pragma once

#include <string>

#include "compiler/import/op_context.h"
#include "core/custom_op.h"
#include "core/status.h"

namespace rondo::importer {

// Sets all outputs of the node, with the types that the op gives. Errors: a refusal of the op, and attributes
// that are graphs or sparse tensors. `node` is the node's name for the library.
Status ImportCall(const OpInfo& info, const std::string& node, std::string_view outside_graphs, OpContext& c);

}  // namespace rondo::importer
