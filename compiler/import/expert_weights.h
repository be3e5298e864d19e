// Weights of the experts of MoE and QMoE: unpacked, as integers in blocks, as FP4 and FP8.
#pragma once

#include "compiler/import/mixed_gemm_order.h"
#include "compiler/import/op_context.h"

namespace rondo::importer {

// One of the three matmuls of an expert: the node's inputs, -1 where its operator has none.
struct ExpertLayer {
  const char* name;
  int weights, scales, bias, zeros;
  int global;  // a scale for each expert
};
inline constexpr ExpertLayer kPlainExperts[] = {
    {"fc1", 2, -1, 3, -1, -1}, {"fc2", 4, -1, 5, -1, -1}, {"fc3", 6, -1, 7, -1, -1}};
inline constexpr ExpertLayer kQuantisedExperts[] = {
    {"fc1", 2, 3, 4, 11, 15}, {"fc2", 5, 6, 7, 12, 16}, {"fc3", 8, 9, 10, 13, -1}};

// Whether the node's quant_type is one that rondo reads, with the inputs that belong to it. Of QMoE.
Status CheckQuantisation(const OpContext& c, const ExpertLayer* layers);

// How the whole numbers of the node lie. Builders for CUDA say nothing where they lie in CUTLASS's order,
// [experts, k, n * bits / 8], others nothing where they lie by rows, [experts, n, k * bits / 8]: only shapes
// tell, and of square weights those of another layer. kUnsupported where none does.
Result<WeightOrder> OrderOfExperts(const OpContext& c, const ExpertLayer* layers, int64_t experts);

// Weights [experts, n, k] as f32; `lie`: of whole numbers.
Result<NodeId> ExpertWeights(OpContext& c, const ExpertLayer& layer, int64_t experts, int64_t k,
                             WeightOrder lie);

}  // namespace rondo::importer
