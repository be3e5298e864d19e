// Evaluates all ranks' graphs side by side, with collectives as plain loops: the results of a graph's shards.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "compiler/ir/evaluate.h"
#include "compiler/ir/graph.h"
#include "core/scalar.h"

namespace rondo::shard {

using Data = std::shared_ptr<const ir::ConstantData>;

// Sums element by element, in the order of the ranks.
inline Data SumOf(const std::vector<Data>& parts) {
  std::vector<uint8_t> bytes(parts[0]->bytes.begin(), parts[0]->bytes.end());
  const DType dtype = parts[0]->dtype;
  for (size_t r = 1; r < parts.size(); ++r) {
    for (int64_t i = 0; i < parts[0]->shape.elements(); ++i) {
      if (IsFloat(dtype)) {
        scalar::Store<double>(dtype, bytes.data(), i,
                              scalar::Load<double>(dtype, bytes.data(), i) +
                                  scalar::Load<double>(dtype, parts[r]->bytes.data(), i));
      } else {
        scalar::Store<int64_t>(dtype, bytes.data(), i,
                               scalar::Load<int64_t>(dtype, bytes.data(), i) +
                                   scalar::Load<int64_t>(dtype, parts[r]->bytes.data(), i));
      }
    }
  }
  return ir::ConstantData::Own(dtype, parts[0]->shape, bytes);
}

inline Data Joined(const std::vector<Data>& parts, const Shape& shape) {
  std::vector<uint8_t> bytes;
  for (const Data& part : parts) bytes.insert(bytes.end(), part->bytes.begin(), part->bytes.end());
  return ir::ConstantData::Own(parts[0]->dtype, shape, bytes);
}

// Returns the outputs by rank. All ranks must have the same nodes; `inputs` are by rank.
inline std::vector<ir::Values> EvaluateMesh(const std::vector<ir::Graph>& ranks,
                                            const std::vector<ir::Values>& inputs) {
  std::vector<std::vector<Data>> values(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(ir::Validate(ranks[r]), "") << ir::Dump(ranks[r]);
    EXPECT_EQ(ranks[r].size(), ranks[0].size());
    values[r].resize(static_cast<size_t>(ranks[r].size()));
  }
  for (ir::NodeId id : ranks[0].TopologicalOrder()) {
    const auto at = static_cast<size_t>(id);
    std::vector<Data> sent;
    for (size_t r = 0; r < ranks.size(); ++r) {
      const ir::Node& node = ranks[r].node(id);
      EXPECT_EQ(node.op, ranks[0].node(id).op);
      ir::Values in;
      for (ir::NodeId i : node.inputs) in.push_back(values[r][static_cast<size_t>(i)]);
      if (node.op == ir::Op::kInput) {
        values[r][at] = inputs[r][static_cast<size_t>(node.As<ir::InputAttrs>().index)];
        EXPECT_TRUE(values[r][at]->shape == node.shape);
      } else if (node.op == ir::Op::kCollective) {
        sent.push_back(in[0]);
      } else {
        auto value = ir::EvaluateNode(node, in);
        EXPECT_TRUE(value.ok()) << value.status().message();
        if (!value.ok()) return {};
        values[r][at] = value.Take();
      }
    }
    if (sent.empty()) continue;
    const ir::Node& node = ranks[0].node(id);
    const bool reduce = node.As<ir::CollectiveAttrs>().op == CollectiveOp::kAllReduce;
    const Data all = reduce ? SumOf(sent) : Joined(sent, node.shape);
    for (auto& of_rank : values) of_rank[at] = all;
  }
  std::vector<ir::Values> outputs(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const ir::GraphOutput& out : ranks[r].outputs)
      outputs[r].push_back(ir::WithBytes(values[r][static_cast<size_t>(out.node)]));
  }
  return outputs;
}

}  // namespace rondo::shard
