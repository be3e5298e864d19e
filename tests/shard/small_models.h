// Small graphs in the patterns of real models, for tests of sharding.
#pragma once

#include <cstdint>

#include "tests/passes/small_graph.h"

namespace rondo::shard {

using passes::SmallGraph;

struct DecoderShape {
  int64_t tokens = 3, hidden = 48, heads = 4, groups = 2, features = 12, inner = 96, vocabulary = 60;
  int64_t cached = 16;
  int layers = 2;
  bool parallel = false;  // attention and MLP read the same norm, as in GPT-J
  bool stacked = false;   // caches of all layers are one state: "k" and "v", one row per layer
};

// Embedding, layers of attention over caches that are states ("k0" and "k0_out") with rows written at "at",
// gated MLPs, a head tied to the embedding. Input "ids" has `tokens` numbers below 3.
void MakeDecoder(const DecoderShape& shape, SmallGraph* s);

// Convolutions with a residual connection, one by groups and one depthwise, pools, a concatenation of
// channels, and a classifier.
void MakeConvNet(int64_t channels, int64_t classes, SmallGraph* s);

// Random operations over values of shape [4, 6, 12], among them matmuls with weights.
void MakeRandom(uint32_t seed, SmallGraph* s);

}  // namespace rondo::shard
