// Helpers for the rules of operators on dims whose length only a run knows (data_sizes.h). Internal to
// compiler/import.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/import/data_sizes.h"
#include "compiler/import/registry.h"

namespace rondo::importer::data_sizes {

using Space = std::shared_ptr<const DataSizedDim>;

// One operator: `row` is its handler, which sees all places.
struct Rule {
  std::string_view op;
  Status (*apply)(const OpRow& row, OpContext& c);
};
// Pointwise operators, matmuls, norms and reductions; movement and shapes; reads and writes by index.
Span<const Rule> PlaceRules();
Span<const Rule> MovementRules();
Span<const Rule> AccessRules();
Span<const Rule> PackingRules();  // ops_packing.cc

// WithDim: a value with the dim at `axis`. WithCounts: a value with those lengths among its elements.
Value WithDim(NodeId id, const Space& space, int axis);
Value WithCounts(NodeId id, std::vector<Space> counts);

// The fact about input `i`, or null. DimFactOf: only a fact that it has a dim.
const DataSizeFact* FactOf(const OpContext& c, int i);
const DataSizeFact* DimFactOf(const OpContext& c, int i);
bool HasCounts(const OpContext& c, int i);
// Whether both have the same places.
bool Same(const Space& a, const Space& b);

// The error that the node does `what` with its input `i`, which cannot be supported.
Status Refuse(const OpContext& c, int i, const char* what);

std::vector<Value> InputsOf(const OpContext& c);
// The node's outputs for all places, as its handler makes them.
Result<std::vector<Value>> OfAllPlaces(const OpRow& row, OpContext& c, std::vector<Value> inputs);
// The same; all outputs have the dim at `axis`.
Status Give(const OpRow& row, OpContext& c, std::vector<Value> inputs, const Space& space, int axis);
// Keeps those lengths of input 0 that a slice or a gather with known places selects.
Status SomeCounts(const OpRow& row, OpContext& c);

// The number of real places, i64 [].
NodeId NumberOf(ir::Builder& b, const DataSizedDim& space);
// x with its real places first, in their order, and zeros behind them: `room` places.
NodeId RealFirst(ir::Builder& b, NodeId x, const DataSizedDim& space, int axis, NodeId number, int64_t room);

// The elements of x that belong to the run, followed by `number` along each dim: a tensor without padding,
// which has the extents of `room`. Dims known there are as long as x's if those are known, too.
NodeId InRoom(ir::Builder& b, NodeId x, const ir::Dims& room, double number);

// Which places are real, shaped for a tensor of `rank` dims that has the places along `axis`.
NodeId RealAlong(ir::Builder& b, const Space& space, int axis, int rank);
// x; the run ends with a fault unless `bad` (i64 []) is 0.
NodeId Checked(ir::Builder& b, NodeId x, NodeId bad);
// 1 where the condition is true, otherwise 0, i64.
NodeId Count(ir::Builder& b, NodeId condition);

}  // namespace rondo::importer::data_sizes
