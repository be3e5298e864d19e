#include "compiler/import/expert_weights.h"

#include <algorithm>
#include <string>

#include "compiler/import/float_blocks.h"
#include "compiler/import/narrow_weight.h"
#include "compiler/import/packed_blocks.h"
#include "compiler/ir/shares.h"

namespace rondo::importer {
namespace {

using DataPointer = std::shared_ptr<const ir::ConstantData>;

// QMoE's quant_type: the format of weights and scales.
struct Quantisation {
  const char* name;
  PackedType type;    // kNone: integers
  int64_t block;      // numbers along k with one scale; 0: given by block_size
  bool power_scales;  // of blocks: FLOAT8E8M0, otherwise FLOAT8E4M3FN
};
constexpr Quantisation kQuantisations[] = {{"int", PackedType::kNone, 0, false},
                                           {"fp4", PackedType::kE2M1, 32, true},
                                           {"nvfp4", PackedType::kE2M1, 16, false},
                                           {"fp8", PackedType::kE4M3, 0, false}};

const Quantisation* QuantisationOf(const OpContext& c) {
  const std::string name = c.String("quant_type", "int");
  const auto found = std::find_if(std::begin(kQuantisations), std::end(kQuantisations),
                                  [&](const Quantisation& q) { return name == q.name; });
  return found == std::end(kQuantisations) ? nullptr : found;
}

int64_t BlockSize(const OpContext& c) { return std::max<int64_t>(c.Int("block_size", 0), 0); }

// Bits of a layer's weights; the node's own attribute is the default.
int64_t BitsOf(const OpContext& c, const ExpertLayer& layer) {
  return c.Int((std::string(layer.name) + "_expert_weight_bits").c_str(), c.Int("expert_weight_bits", 4));
}

// Whether input `i` has the type: a narrow type, or u8 for FP4 that is given as bytes.
bool IsOf(const OpContext& c, int i, PackedType type, bool power) {
  const NarrowCodes* narrow = c.InValue(i).narrow.get();
  if (narrow == nullptr) return type == PackedType::kE2M1 && c.dtype(i) == DType::kU8;
  return narrow->type == type && narrow->is_power == power && !narrow->is_fnuz;
}

// Weights [experts, n, k] of integers.
Result<NodeId> WholeWeights(OpContext& c, const ExpertLayer& layer, int64_t experts, int64_t k,
                            WeightOrder lie) {
  const Shape s = c.shape(layer.weights);
  const int64_t block = BlockSize(c), bits = BitsOf(c, layer);
  const bool by_rows = lie == WeightOrder::kRows;
  const int64_t n = by_rows ? s[1] : s[2] * 8 / std::max<int64_t>(bits, 1);
  if ((bits != 2 && bits != 4 && bits != 8) || (by_rows ? s[2] * 8 != k * bits : s[1] != k) ||
      (block > 0 && k % block != 0) || (block > 0 && block * bits % 8 != 0)) {
    return Status::Error(
        Code::kUnsupported,
        "%s of shape %s, of %lld bits in blocks of %lld, for %lld inputs: rondo reads 2, 4 and 8 bits "
        "in whole bytes and blocks",
        layer.name, Text(s).c_str(), static_cast<long long>(bits), static_cast<long long>(block),
        static_cast<long long>(k));
  }
  PackedBlocks blocks = {s[0] * n, k, bits, block == 0 ? k : block};
  if (block == 0) blocks.zero_rows = n;  // of an expert's columns
  blocks.lie = lie, blocks.matrices = experts;
  RONDO_ASSIGN_OR_RETURN(NodeId w,
                         Dequantised(c, blocks, layer.weights, layer.scales, layer.zeros, DType::kF32));
  return c.b.Reshape(w, {s[0], n, k});
}

// The codes of FP4, [experts * n, k], one per byte. The input holds rows of n, one for each k, with two codes
// per byte; or, for prepacked NVFP4, rows of k.
std::vector<uint8_t> Fp4Codes(const DataPointer& data, int64_t experts, int64_t n, int64_t k, bool by_rows) {
  constexpr int64_t kSide = 64;  // squares whose lines stay in cache
  std::vector<uint8_t> codes(static_cast<size_t>(experts * n * k));
  const uint8_t* const bytes = data->bytes.data();
  const auto code = [&](int64_t at) { return static_cast<uint8_t>(bytes[at / 2] >> (at % 2 * 4) & 15); };
  ir::InShares(experts * ((n + kSide - 1) / kSide), 1, [&](int64_t first, int64_t last) {
    const int64_t bands = (n + kSide - 1) / kSide;
    for (int64_t band = first; band < last; ++band) {
      const int64_t expert = band / bands, row = band % bands * kSide, end = std::min(n, row + kSide);
      for (int64_t from = 0; from < k; from += kSide) {
        for (int64_t i = row; i < end; ++i) {
          uint8_t* const to = codes.data() + (expert * n + i) * k;
          for (int64_t at = from; at < std::min(k, from + kSide); ++at)
            to[at] = code(by_rows ? (expert * n + i) * k + at : (expert * k + at) * n + i);
        }
      }
    }
  });
  return codes;
}

Status RequireShape(const OpContext& c, int i, const Shape& shape) {
  if (c.shape(i) == shape) return Status::Ok();
  return Status::Error(Code::kCorrupt, "input %d of shape %s; %s is needed", i, Text(c.shape(i)).c_str(),
                       Text(shape).c_str());
}

// The scale of each block of each row, [experts * n, blocks]: the expert's, the block's, or their product.
Result<std::vector<float>> FloatScales(const OpContext& c, const ExpertLayer& layer, int64_t experts,
                                       const FloatBlocks& blocks, int64_t rows_of_scale) {
  const int64_t n = blocks.n / experts;
  std::vector<float> of_blocks, of_experts, scales;
  if (c.Has(layer.scales)) {
    RONDO_RETURN_IF_ERROR(
        RequireShape(c, layer.scales, {experts, (n - 1) / rows_of_scale + 1, blocks.count()}));
    RONDO_ASSIGN_OR_RETURN(of_blocks, ScalesOf(c, layer.scales));
  }
  if (layer.global >= 0 && c.Has(layer.global)) {
    RONDO_RETURN_IF_ERROR(RequireShape(c, layer.global, {experts}));
    RONDO_ASSIGN_OR_RETURN(of_experts, ScalesOf(c, layer.global));
  }
  const int64_t lines = (n - 1) / rows_of_scale + 1;
  for (int64_t row = 0; row < blocks.n; ++row) {
    const int64_t expert = row / n, line = expert * lines + row % n / rows_of_scale;
    for (int64_t block = 0; block < blocks.count(); ++block) {
      float scale = of_experts.empty() ? 1 : of_experts[static_cast<size_t>(expert)];
      if (!of_blocks.empty()) scale *= of_blocks[static_cast<size_t>(line * blocks.count() + block)];
      scales.push_back(scale);
    }
  }
  return scales;
}

// Weights [experts, n, k] of FP4 or FP8.
Result<NodeId> FloatWeights(OpContext& c, const ExpertLayer& layer, const Quantisation& quantisation,
                            int64_t experts, int64_t k) {
  const Shape s = c.shape(layer.weights);
  const bool fp4 = quantisation.type == PackedType::kE2M1;
  const int64_t n = fp4 ? 2 * s[2] : s[1];
  if (s[fp4 ? 1 : 2] != k) {
    return Status::Error(Code::kCorrupt, "%s of shape %s for %lld inputs: [experts, %s] is needed",
                         layer.name, Text(s).c_str(), static_cast<long long>(k),
                         fp4 ? "inputs, outputs / 2" : "outputs, inputs");
  }
  if (quantisation.block > 0 && k % quantisation.block != 0) {
    return Status::Error(Code::kCorrupt,
                         "%lld inputs of %s in blocks of %lld: a whole number of blocks is needed",
                         static_cast<long long>(k), layer.name, static_cast<long long>(quantisation.block));
  }
  FloatBlocks blocks;
  blocks.type = quantisation.type, blocks.n = experts * n, blocks.k = k;
  const int64_t square = fp4 ? 0 : BlockSize(c);
  blocks.block = fp4 ? quantisation.block : square > 0 ? square : k;
  if (c.host.shapes_only()) {
    auto data = std::make_shared<ir::ConstantData>();
    data->dtype = DType::kF32, data->shape = {experts * n, k}, data->synthetic = true;
    return c.b.Reshape(c.b.Constant(data), {experts, n, k});
  }
  RONDO_ASSIGN_OR_RETURN(blocks.scales, FloatScales(c, layer, experts, blocks, square > 0 ? square : 1));
  RONDO_ASSIGN_OR_RETURN(const DataPointer codes, CodesOf(c, layer.weights));
  const bool by_rows = !quantisation.power_scales && c.Int("weights_prepacked", -1) == 1;
  if (fp4) {
    blocks.codes = Fp4Codes(codes, experts, n, k, by_rows);
  } else {
    blocks.codes.assign(codes->bytes.begin(), codes->bytes.end());
  }
  blocks.name = codes->name;
  return c.b.Reshape(FloatWeight(c.b, blocks, DType::kF32), {experts, n, k});
}

Status CheckFloats(const OpContext& c, const ExpertLayer& layer, const Quantisation& quantisation) {
  const bool fp4 = quantisation.type == PackedType::kE2M1;
  const bool of_blocks = fp4 || BlockSize(c) > 0, of_experts = fp4 || !of_blocks;
  if (layer.global < 0 && of_experts && c.Has(layer.weights)) {
    return Status::Error(Code::kUnsupported,
                         "%s of quant_type \"%s\", which has no input for its scale: put its rows into fc1 "
                         "(swiglu_fusion 1 or 2)",
                         layer.name, quantisation.name);
  }
  if (!c.Has(layer.weights)) return Status::Ok();
  if (c.Has(layer.scales) != of_blocks || (layer.global >= 0 && c.Has(layer.global) != of_experts) ||
      c.Has(layer.zeros)) {
    return Status::Error(Code::kCorrupt, "%s of quant_type \"%s\" has scales%s%s, and no zero points",
                         layer.name, quantisation.name, of_blocks ? " of its blocks" : "",
                         of_experts ? of_blocks ? " and of its experts" : " of its experts" : "");
  }
  if (!IsOf(c, layer.weights, quantisation.type, false))
    return Status::Error(Code::kCorrupt, "%s of type %s: quant_type \"%s\" has %s", layer.name,
                         Name(c.dtype(layer.weights)), quantisation.name, fp4 ? "UINT8" : "FLOAT8E4M3FN");
  if (fp4 && !IsOf(c, layer.scales, quantisation.power_scales ? PackedType::kNone : PackedType::kE4M3,
                   quantisation.power_scales)) {
    return Status::Error(Code::kCorrupt, "the scales of %s are of type %s: quant_type \"%s\" has %s",
                         layer.name, Name(c.dtype(layer.scales)), quantisation.name,
                         quantisation.power_scales ? "FLOAT8E8M0" : "FLOAT8E4M3FN");
  }
  return Status::Ok();
}

Status CheckWholes(const OpContext& c, const ExpertLayer& layer) {
  if (!c.Has(layer.weights)) return Status::Ok();
  if (!c.Has(layer.scales)) return Status::Error(Code::kCorrupt, "input %d is missing", layer.scales);
  for (const int i : {layer.weights, layer.scales, layer.zeros}) {
    if (!c.Has(i) || c.InValue(i).bits == 0) continue;
    return Status::Error(Code::kCorrupt,
                         "input %d has numbers of %d bits of a type of their own: quant_type says "
                         "which, and is \"int\"",
                         i, c.InValue(i).bits);
  }
  return Status::Ok();
}

}  // namespace

Status CheckQuantisation(const OpContext& c, const ExpertLayer* layers) {
  const Quantisation* const quantisation = QuantisationOf(c);
  const bool activations = c.Has(17) || c.Has(18) || c.Has(19) || c.Has(20);
  if (quantisation == nullptr || activations || c.Int("weights_prepacked", -1) > 1) {
    return Status::Error(
        Code::kUnsupported,
        "quant_type \"%.20s\", weights_prepacked %lld%s: rondo reads \"int\", \"fp4\", \"nvfp4\" "
        "and \"fp8\", prepacked 0 or 1, and rounds no activations; export the model so",
        c.String("quant_type", "int").c_str(), static_cast<long long>(c.Int("weights_prepacked", -1)),
        activations ? ", scales of activations" : "");
  }
  const bool whole = quantisation->type == PackedType::kNone;
  const int64_t block = BlockSize(c);
  if (quantisation->block > 0 && block > 0 && block != quantisation->block) {
    return Status::Error(Code::kCorrupt, "block_size %lld: quant_type \"%s\" has blocks of %lld",
                         static_cast<long long>(block), quantisation->name,
                         static_cast<long long>(quantisation->block));
  }
  if (whole && (c.Has(layers[0].global) || c.Has(layers[1].global)))
    return Status::Error(Code::kCorrupt,
                         "scales of experts (inputs 15 and 16), which quant_type \"int\" has not");
  for (int i = 0; i < 3; ++i) {
    RONDO_RETURN_IF_ERROR(whole ? CheckWholes(c, layers[i]) : CheckFloats(c, layers[i], *quantisation));
    const int64_t bits = BitsOf(c, layers[i]);
    if (!whole && c.Has(layers[i].weights) && bits != BitsOf(quantisation->type)) {
      return Status::Error(Code::kCorrupt, "%s of %lld bits: quant_type \"%s\" has %d", layers[i].name,
                           static_cast<long long>(bits), quantisation->name, BitsOf(quantisation->type));
    }
  }
  return Status::Ok();
}

Result<WeightOrder> OrderOfExperts(const OpContext& c, const ExpertLayer* layers, int64_t experts) {
  const int64_t said = c.Int("weights_prepacked", -1);
  if (said >= 0) return said == 0 ? WeightOrder::kRows : WeightOrder::kMixedSm80;
  bool square = false;
  for (int i = 0; i < 3; ++i) {
    const ExpertLayer& layer = layers[i];
    const int64_t bits = BitsOf(c, layer);
    if (!c.Has(layer.weights) || !c.Has(layer.scales) || (bits != 2 && bits != 4 && bits != 8)) continue;
    const Shape w = c.shape(layer.weights), scales = c.shape(layer.scales);
    if (w.rank != 3 || scales.rank < 2 || w[0] != experts || scales[0] != experts) continue;
    const int64_t n = scales[1], k = w.elements() * 8 / bits / std::max<int64_t>(experts * n, 1);
    if (w[1] == n && w[1] != k) return WeightOrder::kRows;
    if (w[1] == k && w[1] != n) return WeightOrder::kMixedSm80;
    square = square || n == k;
  }
  if (square && c.dtype(0) != DType::kF32) {
    return Status::Error(Code::kUnsupported,
                         "whether its square weights are prepacked for CUDA cannot be told: export the model "
                         "with weights_prepacked 0 or 1");
  }
  return WeightOrder::kRows;
}

Result<NodeId> ExpertWeights(OpContext& c, const ExpertLayer& layer, int64_t experts, int64_t k,
                             WeightOrder lie) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(layer.weights, 3, 3));
  const Shape s = c.shape(layer.weights);
  if (s[0] != experts || s.elements() == 0)
    return Status::Error(Code::kCorrupt, "%s of shape %s for %lld experts", layer.name, Text(s).c_str(),
                         static_cast<long long>(experts));
  if (layer.scales < 0) {
    RONDO_RETURN_IF_ERROR(c.RequireFloat(layer.weights));
    if (s[2] == k) return c.b.Cast(c.In(layer.weights), DType::kF32);
    return Status::Error(Code::kUnsupported,
                         "%s of shape %s for %lld inputs: [experts, outputs, inputs] is needed", layer.name,
                         Text(s).c_str(), static_cast<long long>(k));
  }
  const Quantisation& quantisation = *QuantisationOf(c);
  if (quantisation.type == PackedType::kNone) return WholeWeights(c, layer, experts, k, lie);
  return FloatWeights(c, layer, quantisation, experts, k);
}

}  // namespace rondo::importer
