// PlaceByPlace: chains of elementwise operations between a cache and its later forms (casts, scales,
// quantisation).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::importer {

// Whether `id` is a view of all of its operand with the same shape and order.
bool IsIdentity(const ir::Graph& graph, ir::NodeId id);
// Removes such views. An import that follows sizes keeps them for the sizes of their dims.
void DropIdentityViews(ir::Graph* graph);

// The value of a constant with one element, or of a view of such a constant, as a constant of shape []. Null
// if `id` is anything else, or if the value is unknown.
std::shared_ptr<const ir::ConstantData> OneNumberOf(const ir::Graph& graph, ir::NodeId id);

// A chain of scalar operations. The operands of each are the result of the one before it, and numbers.
using PlaceByPlace = std::vector<ir::NodeId>;

// The only operand of the scalar operation `id` that is not a number. kNoNode if there is not exactly one, or
// if `id` is another kind of node.
ir::NodeId OperandOf(const ir::Graph& graph, ir::NodeId id);

// The operations that compute `to` from `from`, in order; empty if both are the same. nullopt if `to` is
// computed in another way.
std::optional<PlaceByPlace> Between(const ir::Graph& graph, ir::NodeId from, ir::NodeId to);

// Applies `operations`, which are nodes of `graph`, to `x`.
ir::NodeId Apply(ir::Builder& b, const ir::Graph& graph, const PlaceByPlace& operations, ir::NodeId x);

// Whether `first`, `second` and `third`, one after the other, return every number of `dtype` unchanged. False
// for bool and for types of more than 16 bits.
bool GivesBackAll(const ir::Graph& graph, DType dtype, const PlaceByPlace& first, const PlaceByPlace& second,
                  const PlaceByPlace& third);

}  // namespace rondo::importer
