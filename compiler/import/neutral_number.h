// The neutral element of each reduction.
#pragma once

#include "compiler/ir/graph.h"
#include "core/dtype.h"

namespace rondo::importer {

// The result of a reduction of this kind over no elements.
double NeutralNumber(ir::ReduceKind kind, DType dtype);

}  // namespace rondo::importer
