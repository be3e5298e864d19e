// Weights of the experts of MoE and QMoE: unpacked, as integers in blocks, and as FP4 and FP8.
#pragma once

#include "compiler/import/mixed_gemm_order.h"
#include "compiler/import/op_context.h"

namespace rondo::importer {

// One of the three matmuls of an expert: indices of the node's inputs, -1 for those that its operator does
// not have.
struct ExpertLayer {
  const char* name;
  int weights, scales, bias, zeros;
  int global;  // one scale per expert
};
inline constexpr ExpertLayer kPlainExperts[] = {
    {"fc1", 2, -1, 3, -1, -1}, {"fc2", 4, -1, 5, -1, -1}, {"fc3", 6, -1, 7, -1, -1}};
inline constexpr ExpertLayer kQuantisedExperts[] = {
    {"fc1", 2, 3, 4, 11, 15}, {"fc2", 5, 6, 7, 12, 16}, {"fc3", 8, 9, 10, 13, -1}};

// For QMoE: checks that Rondo supports the node's quant_type, and that the node has the inputs that belong to
// it.
Status CheckQuantisation(const OpContext& c, const ExpertLayer* layers);

// The order of the node's integer weights. If the attribute weights_prepacked is absent, weights from
// builders for CUDA are in CUTLASS's order, [experts, k, n * bits / 8], and weights from other builders are
// in rows, [experts, n, k * bits / 8]. Then the shapes decide: those of the first layer whose weights are not
// square. If all are square, they are in rows if the activations are f32; otherwise kUnsupported.
Result<WeightOrder> OrderOfExperts(const OpContext& c, const ExpertLayer* layers, int64_t experts);

// Weights [experts, n, k] as f32. `lie`: the order of integer weights.
Result<NodeId> ExpertWeights(OpContext& c, const ExpertLayer& layer, int64_t experts, int64_t k,
                             WeightOrder lie);

}  // namespace rondo::importer
