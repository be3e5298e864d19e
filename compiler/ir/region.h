// Regions: nodes that somebody wants to be seen as one, under a name (`--annotate NODES:region=NAME`).
//
// A region is applied to places: each runs as one, and shares kernels with nothing outside. A place may hold
// others. The annotation `region` of an IR node says which places hold it, outermost first:
// "layer#0/attention#2" is place 2 of the region layer/attention, in place 0 of the region layer. A place
// without a name, "#1", is of nodes that are only kept together (`keep: together`).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::ir {

// Names of letters, digits, '_', '.' and '-', one in another: "layer", "layer/attention".
bool IsRegionName(std::string_view text);

// "layer#0/attention#2" -> {"layer#0", "attention#2"}; "" -> {}.
std::vector<std::string> PlacesIn(std::string_view region);
std::string RegionOfPlaces(const std::vector<std::string>& places);
// "layer#0/attention#2/#1" -> "layer/attention"
std::string NameOfRegion(std::string_view region);
// Whether two nodes with these annotations stand in one place; false if either is in none.
bool ShareAPlace(std::string_view region, std::string_view other);
// Whether the innermost place of a node is of nodes that are only kept together.
bool IsKeptTogether(std::string_view region);

}  // namespace rondo::ir
