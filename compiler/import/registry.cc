#include "compiler/import/registry.h"

#include <map>
#include <utility>

namespace rondo::importer {
namespace {

using Table = std::map<std::pair<std::string, std::string>, std::vector<const OpRow*>>;

Table MakeTable() {
  Table table;
  for (Span<const OpRow> part : {OlderForms(),
                                 PointwiseOps(),
                                 ActivationOps(),
                                 ReduceOps(),
                                 MovementOps(),
                                 ShapeOps(),
                                 PadOps(),
                                 MatmulOps(),
                                 EinsumOps(),
                                 ConvolutionOps(),
                                 PoolingOps(),
                                 NormalisationOps(),
                                 AttentionOps(),
                                 RecurrentOps(),
                                 IndexingOps(),
                                 SortingOps(),
                                 ResizeOps(),
                                 QuantisationOps(),
                                 ControlOps(),
                                 SequenceOps(),
                                 BiasedOps(),
                                 RotaryOps(),
                                 FusedMatMulOps(),
                                 CollectiveOps(),
                                 GroupedAttentionOps(),
                                 MultiHeadOps(),
                                 MaskedDecoderOps(),
                                 BlockwiseOps(),
                                 FloatBlockOps(),
                                 QLinearOps(),
                                 QuantisedMatMulOps(),
                                 FusedNormalisationOps(),
                                 FusedConvolutionOps(),
                                 EmbeddingOps(),
                                 CausalConvolutionOps(),
                                 PositionBiasOps(),
                                 ExpertOps(),
                                 LinearAttentionOps(),
                                 GatedDeltaOps(),
                                 SparseAttentionOps(),
                                 BranchOps(),
                                 ProjectionOps(),
                                 SamplingOps(),
                                 FourierOps(),
                                 ColumnsOps(),
                                 LossOps(),
                                 PackingOps(),
                                 GeometryOps(),
                                 RegionOps(),
                                 SuppressionOps(),
                                 RandomOps(),
                                 MlOps(),
                                 FlexAttentionOps()}) {
    for (const OpRow& row : part) table[{row.domain, row.op}].push_back(&row);
  }
  return table;
}

const Table& Ops() {
  static const Table table = MakeTable();
  return table;
}

std::string Canonical(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

}  // namespace

const OpRow* FindOp(const std::string& domain, const std::string& op, int64_t opset) {
  auto found = Ops().find({Canonical(domain), op});
  if (found == Ops().end()) return nullptr;
  for (const OpRow* row : found->second) {
    if (opset >= row->since && opset <= row->until) return row;
  }
  return nullptr;
}

bool KnowsOp(const std::string& domain, const std::string& op) {
  return Ops().count({Canonical(domain), op}) != 0;
}

std::vector<const OpRow*> AllOps() {
  std::vector<const OpRow*> rows;
  for (const auto& [key, versions] : Ops()) rows.insert(rows.end(), versions.begin(), versions.end());
  return rows;
}

}  // namespace rondo::importer
