// Texts about graphs and weights for reports.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/shard/sharding.h"

namespace rondo::shard {

// "768 bytes", "12.3 kB", "402.7 MB".
std::string BytesText(int64_t bytes);
// The model's name of a value, else what it came from.
std::string NameOf(const ir::Node& node);
// What it came from, else its number.
std::string SourceOf(const ir::Node& node);

// Bytes of a graph's weights, each counted once, and of its states.
struct Held {
  int64_t weights = 0, states = 0;
};
Held HeldBy(const ir::Graph& graph);

}  // namespace rondo::shard
