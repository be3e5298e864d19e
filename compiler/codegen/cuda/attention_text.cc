// Attention: a block a query; keys in chunks with a running maximum (online softmax: Milakov and Gimelshein,
// 2018), so that no more than one chunk of scores exists. Keys beyond the limit are not read.
#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {
constexpr int64_t kChunk = 1024;         // keys at a time
constexpr int64_t kMostFeatures = 1024;  // of a query, and of a value
}  // namespace

Status PartText::Attention() {
  if (std::optional<FlashShape> shape = ShapeOfFlash()) return FlashAttention(*shape);
  return PlainAttention();
}

Status PartText::PlainAttention() {
  size_t m_end = part_.outer + part_.m, n_end = m_end + part_.n, key_end = n_end + part_.reduced,
         all = part_.loops.size();
  int64_t queries = Points(0, m_end), values = Points(m_end, n_end), keys = Points(n_end, key_end),
          features = Points(key_end, all);
  if (values > kMostFeatures || features > kMostFeatures) {
    return Status::Error(Code::kUnsupported, "attention over %lld and %lld features; the limit is %lld",
                         static_cast<long long>(features), static_cast<long long>(values),
                         static_cast<long long>(kMostFeatures));
  }
  headers_.insert({"reductions", "scalar"});
  int64_t chunk = std::min(keys, kChunk), per_thread = (values + kCudaBlock - 1) / kCudaBlock;
  auto text = [](int64_t n) { return std::to_string(n); };
  auto zero = [&](size_t first, size_t last) {
    for (size_t l = first; l < last; ++l) Line("const i64 i" + text(l) + " = 0; (void)i" + text(l) + ";");
  };
  Line("__shared__ float query[" + text(features) + "]; __shared__ float scores[" + text(chunk) + "];");
  Decode("block", 0, m_end);
  Line("i64 limit = " + text(keys) + ";");
  if (part_.limit != kNoOperand) {
    Line("{");
    zero(m_end, all);
    Load(part_.limit, "bound");
    Line("if (bound < limit) limit = bound; }");
  }
  Line("for (i64 f = threadIdx.x; f < " + text(features) + "; f += 256) {");
  zero(m_end, key_end);
  Decode("f", key_end, all);
  Load(part_.lhs, "q");
  Line("query[f] = q; }");
  Line("float out[" + text(per_thread) + "]; float most = bits_float(0xff800000u), total = 0;");
  Line("for (int v = 0; v < " + text(per_thread) + "; ++v) out[v] = 0;");
  Line("for (i64 from = 0; from < limit; from += " + text(chunk) + ") {");
  Line("const int count = (int)(limit - from < " + text(chunk) + " ? limit - from : " + text(chunk) + ");");
  Line("__syncthreads();");
  Line("float high = bits_float(0xff800000u);");
  Line("for (int c = threadIdx.x; c < count; c += 256) {");
  zero(m_end, n_end);
  Line("const u64 key = (u64)(from + c);");
  Decode("key", n_end, key_end);
  Line("float dot = 0;");
  Line("for (i64 f = 0; f < " + text(features) + "; ++f) {");
  Decode("f", key_end, all);
  Load(part_.keys, "k");
  Line("dot += query[f] * k; }");
  Line("dot *= " + Number(part_.scale, TapeType::kF32) + ";");
  if (part_.softcap != 0) {
    std::string cap = Number(part_.softcap, TapeType::kF32);
    Line("dot = " + cap + " * tanhf(dot / " + cap + ");");
  }
  if (part_.mask != kNoOperand) {
    Line("{");
    zero(key_end, all);
    Load(part_.mask, "mask");
    bool keep = NaturalType(part_.operands[part_.mask].dtype) == TapeType::kI64;
    Line(keep ? "if (mask == 0) dot = bits_float(0xff800000u); }" : "dot += (float)mask; }");
  }
  Line("scores[c] = dot; high = op_max(high, dot); }");
  Line("high = reduce<Max, 256>(high);");
  Line("const float now = op_max(most, high);");
  Line("const float old = most == now ? 1.0f : most == bits_float(0xff800000u) ? 0.0f : expf(most - now);");
  Line("float sum = 0;");
  Line(
      "for (int c = threadIdx.x; c < count; c += 256) { const float e = expf(scores[c] - now); scores[c] = "
      "e; sum += e; }");
  // Nothing but -inf so far: leave the running values alone, so that later keys can still count.
  Line("if (now == bits_float(0xff800000u)) { __syncthreads(); continue; }");
  Line("total = total * old + reduce<Sum, 256>(sum); most = now;");
  Line("__syncthreads();");
  Line("for (int v = 0; v < " + text(per_thread) + "; ++v) {");
  Line("const i64 e = threadIdx.x + 256 * v; if (e >= " + text(values) + ") break;");
  Decode("e", m_end, n_end);
  zero(key_end, all);
  Line("float acc = out[v] * old;");
  Line("for (int c = 0; c < count; ++c) { const u64 key = (u64)(from + c);");
  Decode("key", n_end, key_end);
  Load(part_.values, "value");
  Line("acc += scores[c] * value; }");
  Line("out[v] = acc; }");
  Line("}");
  Line("for (int v = 0; v < " + text(per_thread) + "; ++v) {");
  Line("const i64 e = threadIdx.x + 256 * v; if (e >= " + text(values) + ") break;");
  Decode("e", m_end, n_end);
  zero(n_end, all);
  // No key counted: 0 / 0, as softmax over nothing but -inf gives.
  Line("float acc0 = out[v] / total;");
  if (part_.nan_to_zero) Line("if (acc0 != acc0) acc0 = 0;");
  WriteTape(part_.epilogue, "r");
  Line("}");
  return SetBlocks(queries);
}

}  // namespace rondo::cuda
