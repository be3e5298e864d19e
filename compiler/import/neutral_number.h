// The number that changes no reduction.
#ifndef RONDO_COMPILER_IMPORT_NEUTRAL_NUMBER_H_
#define RONDO_COMPILER_IMPORT_NEUTRAL_NUMBER_H_

#include "compiler/ir/graph.h"
#include "core/dtype.h"

namespace rondo::importer {

// What a reduction of this kind over no elements is.
double NeutralNumber(ir::ReduceKind kind, DType dtype);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_NEUTRAL_NUMBER_H_
