// PlaceByPlace: the elementwise operations of a model on a cache or its later forms: casts, scales,
// quantisation.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::importer {

// Whether `id` shows all of what it shows, as it is.
bool IsIdentity(const ir::Graph& graph, ir::NodeId id);
// Takes away such views, which an import that follows sizes keeps for their dims.
void DropIdentityViews(ir::Graph* graph);

// The one number that `id`, a constant or a view of one, has everywhere, as a constant of shape []. Null if
// it is something else.
std::shared_ptr<const ir::ConstantData> OneNumberOf(const ir::Graph& graph, ir::NodeId id);

// Scalar operations, one after another, each of what the one before gave and of numbers.
using PlaceByPlace = std::vector<ir::NodeId>;

// What `id`, a scalar operation of one thing and of numbers, is made of. kNoNode if it is something else.
ir::NodeId OperandOf(const ir::Graph& graph, ir::NodeId id);

// The operations that make `to` of `from`, in order; none where they are one. nullopt if `to` is made in
// another way.
std::optional<PlaceByPlace> Between(const ir::Graph& graph, ir::NodeId from, ir::NodeId to);

// The same operations, which are nodes of `graph`, on `x`.
ir::NodeId Apply(ir::Builder& b, const ir::Graph& graph, const PlaceByPlace& operations, ir::NodeId x);

// Whether `first`, then `second`, then `third` give back every number of `dtype`, a type of at most 16 bits.
bool GivesBackAll(const ir::Graph& graph, DType dtype, const PlaceByPlace& first, const PlaceByPlace& second,
                  const PlaceByPlace& third);

}  // namespace rondo::importer
