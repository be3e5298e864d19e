// Turns a group into an op: one function for each skeleton. Internal to compiler/fusion.
//
// Each returns OK with obstacle->found set if the group cannot be expressed as it is, and the graph must be
// changed first.
#pragma once

#include "compiler/fusion/context.h"
#include "compiler/fusion/part_emitter.h"

namespace rondo::fusion {

Status EmitMap(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);
Status EmitReduction(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);
Status EmitMatmul(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);
Status EmitConvolution(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);
Status EmitAttention(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);
Status EmitTopK(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);
// The op that starts the collective; adds it to program.collectives.
Status EmitLoop(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);
Status EmitCall(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);
Status EmitCollective(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle);

// Finds the parameters of a single-part kernel that a map or epilogue reads and writes at the same point,
// before anything else reads them (LoweredOp::in_place).
void FindInPlace(const Context& context, LoweredOp* op);
// Among the states written as a whole: the output of one that the op reads at other points than it writes;
// kNoNode if there is none.
NodeId StateReadElsewhere(const Context& context, const LoweredOp& op);

// The op that waits for the collective that op number `start_index` starts.
LoweredOp WaitFor(const LoweredOp& start, int start_index);

// The loops of a dense walk over `domain`, one for each dim, and its map, which becomes the builder's domain.
void AddDomain(const Shape& domain, IterationSpace* space, PartEmitter* builder);
// The domain of a group that ends in its sink: the sink's shape, or that of its updates for a kIndexedWrite.
const Shape& SinkDomain(const Context& context, const Group& group);
// Evaluates a node and stores it, or what a kIndexedWrite writes; `view` shows its shape (or that of its
// updates) over the domain.
void StoreResult(const Context& context, NodeId id, const ir::View& view, PartEmitter* builder,
                 TapeWriter* tape);
// The sink and what is stored beside it; `view` shows the sink's shape (or updates') over the domain.
void StoreSink(const Context& context, const Group& group, const ir::View& view, PartEmitter* builder,
               TapeWriter* tape);
// Dense row-major strides.
std::vector<int64_t> DenseStrides(const Shape& shape);
TapeInst AccInst(TapeType type, int accumulator);

}  // namespace rondo::fusion
