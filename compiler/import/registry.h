// The table of operators: one row for each (domain, op, range of opsets), with its handler.
//
// To add an operator, write a handler in the file of its kind (ops_*.cc) and add a row to that file's table.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/op_context.h"
#include "core/span.h"

namespace rondo::importer {

using Handler = Status (*)(OpContext& c);

inline constexpr int kLatest = 1 << 30;

struct OpRow {
  const char* op;
  int least_inputs;  // this many leading inputs must be present
  Handler handler;
  int since = 1;
  int until = kLatest;           // the last opset version with this form
  const char* domain = "";       // "" is ai.onnx
  bool takes_sequences = false;  // leading inputs may be sequences of tensors
  bool takes_narrow = false;     // inputs may have types of few bits (Value::bits)
};

// The row for an operator at an opset version; null if there is none. "ai.onnx" is "".
const OpRow* FindOp(const std::string& domain, const std::string& op, int64_t opset);
// Whether any version of the operator is known.
bool KnowsOp(const std::string& domain, const std::string& op);
std::vector<const OpRow*> AllOps();

// The parts of the table, one per file.
Span<const OpRow> OlderForms();  // precede the other rows
Span<const OpRow> PointwiseOps();
Span<const OpRow> ActivationOps();
Span<const OpRow> ReduceOps();
Span<const OpRow> MovementOps();
Span<const OpRow> ShapeOps();
Span<const OpRow> PadOps();
Span<const OpRow> MatmulOps();
Span<const OpRow> EinsumOps();
Span<const OpRow> ConvolutionOps();
Span<const OpRow> PoolingOps();
Span<const OpRow> NormalisationOps();
Span<const OpRow> AttentionOps();
Span<const OpRow> GroupedAttentionOps();
Span<const OpRow> MultiHeadOps();
Span<const OpRow> MaskedDecoderOps();
Span<const OpRow> BlockwiseOps();
Span<const OpRow> FloatBlockOps();
Span<const OpRow> ProjectionOps();
Span<const OpRow> QLinearOps();
Span<const OpRow> QuantisedMatMulOps();
Span<const OpRow> ExpertOps();
Span<const OpRow> LinearAttentionOps();
Span<const OpRow> GatedDeltaOps();
Span<const OpRow> SparseAttentionOps();
Span<const OpRow> BranchOps();
Span<const OpRow> RecurrentOps();
Span<const OpRow> IndexingOps();
Span<const OpRow> SortingOps();
Span<const OpRow> ResizeOps();
Span<const OpRow> SamplingOps();
Span<const OpRow> FourierOps();
Span<const OpRow> ColumnsOps();
Span<const OpRow> LossOps();
Span<const OpRow> QuantisationOps();
Span<const OpRow> ControlOps();
Span<const OpRow> SequenceOps();
Span<const OpRow> PackingOps();
Span<const OpRow> GeometryOps();
Span<const OpRow> RegionOps();
Span<const OpRow> SuppressionOps();
Span<const OpRow> RandomOps();
Span<const OpRow> MlOps();
Span<const OpRow> FlexAttentionOps();
Span<const OpRow> BiasedOps();
Span<const OpRow> RotaryOps();
Span<const OpRow> FusedMatMulOps();
Span<const OpRow> FusedNormalisationOps();
Span<const OpRow> FusedConvolutionOps();
Span<const OpRow> EmbeddingOps();
Span<const OpRow> CausalConvolutionOps();
Span<const OpRow> PositionBiasOps();
Span<const OpRow> CollectiveOps();

}  // namespace rondo::importer
