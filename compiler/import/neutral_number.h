// The neutral element of each reduction.
#pragma once

#include "compiler/ir/graph.h"
#include "core/dtype.h"

namespace rondo::importer {

// What a reduction of this kind over no elements is.
double NeutralNumber(ir::ReduceKind kind, DType dtype);

}  // namespace rondo::importer
