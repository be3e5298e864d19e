// QuantizeWeights: rounds weights of matmuls to fewer bits, for models in f32, f16 or bf16.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "compiler/ir/packed.h"
#include "compiler/passes/match.h"
#include "compiler/quantise/quantise.h"
#include "compiler/quantise/weight_rounding.h"
#include "core/element.h"
#include "formats/plan/live_weights.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;

constexpr int64_t kLeastElements = 4096;  // smaller weights are not worth it

class Quantising {
 public:
  Quantising(Graph* graph, const PassOptions& options) : g_(graph), options_(options) {}

  void Constant(NodeId id) {
    const std::shared_ptr<const ConstantData> data = g_->node(id).As<ir::ConstantAttrs>().data;
    const std::optional<WeightLayout> layout = LayoutOf(id, *data);
    if (!layout) return;
    const int64_t block = options_.quantize_block == 0 ? layout->k : options_.quantize_block;
    const DType scale_type = data->dtype == DType::kF16 ? DType::kF16 : DType::kBF16;
    char error[32] = "synthetic";
    std::shared_ptr<const ir::PackedMatrix> matrix;
    if (data->synthetic) {
      uint64_t key = data->synthetic_key;
      if (key == LiveWeightKey(data->name))
        key = PackedWeightKey(
            key, {options_.quantize, data->dtype, options_.quantize_block, layout->k_stride == 1 ? 1 : 0});
      matrix = ir::SyntheticPacked(options_.quantize, layout->n, layout->k, block, scale_type, key,
                                   data->synthetic_scale);
    } else {
      double relative = 0;
      matrix = RoundWeights(*data, *layout, {options_.quantize, block, scale_type}, &relative);
      if (matrix == nullptr) return Keep(data->name, "has numbers that are not finite");
      if (!(relative < 1)) return Keep(data->name, "has numbers so small that nothing would be left of them");
      worst_ = std::max(worst_, relative);
      std::snprintf(error, sizeof(error), "%.5f", relative);
    }
    char line[512];
    std::snprintf(line, sizeof(line), "\n%s\t[%lld, %lld]\t%s\t%s\t%lld\t%lld", data->name.c_str(),
                  static_cast<long long>(layout->n), static_cast<long long>(layout->k), Name(data->dtype),
                  error, static_cast<long long>(data->byte_size()),
                  static_cast<long long>(matrix->byte_size()));
    lines_ += line;
    before_ += data->byte_size();
    after_ += matrix->byte_size();
    ++count_;
    ir::Builder b = BuilderLike(g_, id);
    NodeId packed = b.Constant(ir::PackedConstant(matrix, data->dtype, data->name));
    g_->node(packed).name = g_->node(id).name;
    if (layout->k_stride != 1) packed = b.Transpose(packed, {1, 0});
    g_->Replace(id, packed);
  }

  std::string Text() const {
    char line[240];
    if (count_ == 0 && num_kept_ > 0)
      return std::string("no weight rounded to ") + Name(options_.quantize) + Kept();
    if (count_ == 0) {
      std::snprintf(
          line, sizeof(line),
          "no weight rounded to %s: none is a matrix of %lld numbers or more that is the right side of "
          "matmuls and nothing else",
          Name(options_.quantize), static_cast<long long>(kLeastElements));
      return line;
    }
    std::snprintf(line, sizeof(line), "%lld weights rounded to %s, %lld -> %lld bytes",
                  static_cast<long long>(count_), Name(options_.quantize), static_cast<long long>(before_),
                  static_cast<long long>(after_));
    std::string text = line;
    if (worst_ >= 0) {
      std::snprintf(line, sizeof(line), ", relative RMS error %.5f at most", worst_);
      text += line;
    }
    return text + Kept() + lines_;
  }
  int64_t count() const { return count_; }

 private:
  static constexpr int64_t kShown = 3;  // listed unchanged weights

  void Keep(const std::string& name, const char* why) {
    if (num_kept_++ < kShown) kept_ += "; \"" + name + "\" stays as it is: it " + why;
  }
  std::string Kept() const {
    return num_kept_ > kShown ? kept_ + "; and " + std::to_string(num_kept_ - kShown) + " more" : kept_;
  }

  // How matmuls read the constant as their rhs; no value if it has other readers, or they differ.
  std::optional<WeightLayout> LayoutOf(NodeId id, const ConstantData& data) {
    const DType t = data.dtype;
    if (data.packed != nullptr || data.shape.rank != 2 || data.shape.elements() < kLeastElements ||
        g_->IsOutput(id) || (t != DType::kF32 && !Is16BitFloat(t)) || data.synthetic_run != 0)
      return std::nullopt;
    return WeightLayoutOf(g_, id);
  }

  Graph* g_;
  const PassOptions& options_;
  std::string lines_, kept_;
  int64_t num_kept_ = 0;
  int64_t before_ = 0, after_ = 0, count_ = 0;
  double worst_ = -1;  // greatest relative error; below 0: unknown for all
};

}  // namespace

Result<PassResult> QuantizeWeights(Graph* graph, const PassOptions& options) {
  PassResult result;
  if (options.quantize == PackedType::kNone) {
    result.text = "as the model has them";
    return result;
  }
  Quantising quantising(graph, options);
  for (NodeId id = 0, end = graph->size(); id < end; ++id) {
    const Node& n = graph->node(id);
    if (!n.dead && n.op == Op::kConstant) quantising.Constant(id);
  }
  Tidy(graph);
  result.changes = quantising.count();
  result.text = quantising.Text();
  return result;
}

}  // namespace rondo::passes
