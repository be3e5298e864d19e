// Compares a graph with its shards of ShardGraph; shared by the tests of shards.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiler/shard/assign.h"
#include "compiler/shard/cut_weight.h"
#include "compiler/shard/shard_graph.h"
#include "tests/shard/mesh_evaluate.h"
#include "tests/shard/small_models.h"

namespace rondo::shard {

// Device `rank`'s share of a tensor; `local` is the share's shape.
inline Data ShareOfShape(const Data& whole, const Shape& local, int64_t devices, int64_t rank) {
  if (whole->shape == local) return whole;
  for (int d = 0; d < local.rank; ++d) {
    if (whole->shape[d] == local[d]) continue;
    // With fewer parts than devices, each part is on several devices.
    const int64_t copies = devices * local[d] / whole->shape[d];
    return ShareOf(whole, SplitOf(whole->shape, d, local[d], devices, copies), devices, rank);
  }
  return nullptr;
}

inline void ExpectNear(const ir::ConstantData& want, const ir::ConstantData& got, const std::string& what) {
  ASSERT_TRUE(want.shape == got.shape) << what;
  for (int64_t i = 0; i < want.shape.elements(); ++i) {
    const double a = scalar::Load<double>(want.dtype, want.bytes.data(), i);
    const double b = scalar::Load<double>(got.dtype, got.bytes.data(), i);
    ASSERT_NEAR(a, b, 1e-4 * std::max(1.0, std::abs(a))) << what << " element " << i;
  }
}

// Expects that all ranks give the results of the whole graph: outputs equal to the bit, and states equal
// share by share.
inline void ExpectSame(const ir::Graph& whole, const std::vector<ir::Graph>& ranks, const std::string& what) {
  const auto devices = static_cast<int64_t>(ranks.size());
  const ir::Values inputs = passes::RandomInputs(whole);
  const auto want = ir::EvaluateGraph(whole, inputs);
  ASSERT_TRUE(want.ok()) << want.status().message();
  std::vector<ir::Values> shares;
  for (int64_t r = 0; r < devices; ++r) {
    shares.emplace_back();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::Graph& rank = ranks[static_cast<size_t>(r)];
      shares.back().push_back(ShareOfShape(inputs[i], rank.node(rank.inputs[i].node).shape, devices, r));
    }
  }
  const std::vector<ir::Values> got = EvaluateMesh(ranks, shares);
  ASSERT_EQ(got.size(), ranks.size()) << what;
  for (size_t o = 0; o < want->size(); ++o) {
    const bool is_state = PairOfOutput(whole, o) >= 0;
    for (int64_t r = 0; r < devices; ++r) {
      const Data& mine = got[static_cast<size_t>(r)][o];
      ASSERT_TRUE(is_state || mine->shape == (*want)[o]->shape) << what;
      const Data expected = ShareOfShape((*want)[o], mine->shape, devices, r);
      ASSERT_NE(expected, nullptr) << what;
      ExpectNear(*expected, *mine, what + " output " + std::to_string(o) + " rank " + std::to_string(r));
      if (is_state || testing::Test::HasFailure()) continue;
      const Data& first = got[0][o];
      EXPECT_TRUE(std::equal(mine->bytes.begin(), mine->bytes.end(), first->bytes.begin())) << what;
    }
  }
}

inline int CountOf(const ir::Graph& graph, CollectiveOp op) {
  int n = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    n += graph.node(id).op == ir::Op::kCollective && graph.node(id).As<ir::CollectiveAttrs>().op == op;
  }
  return n;
}

inline ShardedGraph Sharded(const ir::Graph& graph, int64_t devices) {
  StateShardings states;
  ShardedGraph out;
  const Status status = ShardGraph(graph, devices, &states, &out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

inline int64_t WeightBytes(const ir::Graph& graph) {
  int64_t bytes = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    if (graph.IsConstant(id)) bytes += BytesOf(graph.node(id));
  }
  return bytes;
}

}  // namespace rondo::shard
