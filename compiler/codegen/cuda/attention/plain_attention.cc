// Attention with one block for each query. Keys come in chunks with a running maximum (online softmax:
// Milakov and Gimelshein, 2018), so that only one chunk of scores exists. Keys beyond the limit are not read.
#include <algorithm>

#include "compiler/codegen/cuda/attention/attention_variants.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"reductions", "scalar"};

constexpr int64_t kChunk = 1024;         // keys at a time
constexpr int64_t kMostFeatures = 1024;  // of a query, and of a value

struct PlainShape {
  size_t m_end, n_end, key_end, all;  // loops: queries' end, values' end, keys' end
  int64_t queries, values, keys, features;
  int64_t chunk, per_thread;  // keys at a time; values of a thread
};

PlainShape ShapeOf(const PartContext& context) {
  const Part& part = context.part;
  PlainShape shape = {};
  shape.m_end = static_cast<size_t>(part.outer) + part.m;
  shape.n_end = shape.m_end + part.n;
  shape.key_end = shape.n_end + part.reduced;
  shape.all = part.loops.size();
  shape.queries = context.Points(0, shape.m_end);
  shape.values = context.Points(shape.m_end, shape.n_end);
  shape.keys = context.Points(shape.n_end, shape.key_end);
  shape.features = context.Points(shape.key_end, shape.all);
  shape.chunk = std::min(shape.keys, kChunk);
  shape.per_thread = (shape.values + kCudaBlock - 1) / kCudaBlock;
  return shape;
}

// Writes the query into shared memory, its limit, and the running values.
void WriteQuery(const Part& part, const PlainShape& shape, PartWriter* writer) {
  writer->Line("__shared__ float query[" + Text(shape.features) + "]; __shared__ float scores[" +
               Text(shape.chunk) + "];");
  writer->Decode("block", 0, shape.m_end);
  writer->Line("wait_for_earlier();");
  writer->Line("i64 limit = " + Text(shape.keys) + ";");
  if (part.limit != kNoOperand) {
    writer->Line("{");
    writer->ZeroLoops(shape.m_end, shape.all);
    writer->Load(part.limit, "bound");
    writer->Line("if (bound < limit) limit = bound; }");
  }
  writer->Line("for (i64 f = threadIdx.x; f < " + Text(shape.features) + "; f += kBlockThreads) {");
  writer->ZeroLoops(shape.m_end, shape.key_end);
  writer->Decode("f", shape.key_end, shape.all);
  writer->Load(part.lhs, "q");
  writer->Line("query[f] = q; }");
  writer->Line("float out[" + Text(shape.per_thread) + "]; float most = bits_float(0xff800000u), total = 0;");
  writer->Line("for (int v = 0; v < " + Text(shape.per_thread) + "; ++v) out[v] = 0;");
}

// Writes scores[c] of a chunk's keys, and this thread's maximum.
void WriteScores(const Part& part, const PlainShape& shape, PartWriter* writer) {
  writer->Line("__syncthreads();");
  writer->Line("float high = bits_float(0xff800000u);");
  writer->Line("for (int c = threadIdx.x; c < count; c += kBlockThreads) {");
  writer->ZeroLoops(shape.m_end, shape.n_end);
  writer->Line("const u64 key = (u64)(from + c);");
  writer->Decode("key", shape.n_end, shape.key_end);
  writer->Line("float dot = 0;");
  writer->Line("for (i64 f = 0; f < " + Text(shape.features) + "; ++f) {");
  writer->Decode("f", shape.key_end, shape.all);
  writer->Load(part.keys, "k");
  writer->Line("dot += query[f] * k; }");
  writer->Line("dot *= " + NumberText(part.scale, TapeType::kF32) + ";");
  if (part.softcap != 0) {
    std::string cap = NumberText(part.softcap, TapeType::kF32);
    writer->Line("dot = " + cap + " * tanhf(dot / " + cap + ");");
  }
  if (part.mask != kNoOperand) {
    writer->Line("{");
    writer->ZeroLoops(shape.key_end, shape.all);
    writer->Load(part.mask, "mask");
    bool keep = NaturalType(part.operands[part.mask].dtype) == TapeType::kI64;
    writer->Line(keep ? "if (mask == 0) dot = bits_float(0xff800000u); }" : "dot += (float)mask; }");
  }
  writer->Line("scores[c] = dot; high = op_max(high, dot); }");
}

// Turns scores into weights relative to the running maximum; `old` rescales the earlier sums.
void WriteWeights(PartWriter* writer) {
  writer->Line("high = reduce<Max, kBlockThreads>(high);");
  writer->Line("const float now = op_max(most, high);");
  writer->Line(
      "const float old = most == now ? 1.0f : most == bits_float(0xff800000u) ? 0.0f : expf(most - now);");
  writer->Line("float sum = 0;");
  writer->Line(
      "for (int c = threadIdx.x; c < count; c += kBlockThreads) { const float e = expf(scores[c] - now); "
      "scores[c] = "
      "e; sum += e; }");
  // All scores are -inf so far: leave the running values alone, so that later keys can still count.
  writer->Line("if (now == bits_float(0xff800000u)) { __syncthreads(); continue; }");
  writer->Line("total = total * old + reduce<Sum, kBlockThreads>(sum); most = now;");
  writer->Line("__syncthreads();");
}

// Opens the loop over this thread's values, with counters at it.
void OpenValues(const PlainShape& shape, PartWriter* writer) {
  writer->Line("for (int v = 0; v < " + Text(shape.per_thread) + "; ++v) {");
  writer->Line("const i64 e = threadIdx.x + kBlockThreads * v; if (e >= " + Text(shape.values) + ") break;");
  writer->Decode("e", shape.m_end, shape.n_end);
}

void WriteSums(const Part& part, const PlainShape& shape, PartWriter* writer) {
  OpenValues(shape, writer);
  writer->ZeroLoops(shape.key_end, shape.all);
  writer->Line("float acc = out[v] * old;");
  writer->Line("for (int c = 0; c < count; ++c) { const u64 key = (u64)(from + c);");
  writer->Decode("key", shape.n_end, shape.key_end);
  writer->Load(part.values, "value");
  writer->Line("acc += scores[c] * value; }");
  writer->Line("out[v] = acc; }");
}

void WriteResults(const Part& part, const PlainShape& shape, PartWriter* writer) {
  OpenValues(shape, writer);
  writer->ZeroLoops(shape.n_end, shape.all);
  // If no key counted, this is 0 / 0, like softmax over only -inf.
  writer->Line("float acc0 = out[v] / total;");
  if (part.nan_to_zero) writer->Line("if (acc0 != acc0) acc0 = 0;");
  writer->WriteTape(part.epilogue, "r");
  writer->Line("}");
}

Result<PartLaunch> WritePlain(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const PlainShape shape = ShapeOf(context);
  if (shape.values > kMostFeatures || shape.features > kMostFeatures) {
    return Status::Error(Code::kUnsupported, "attention over %lld and %lld features; the limit is %lld",
                         static_cast<long long>(shape.features), static_cast<long long>(shape.values),
                         static_cast<long long>(kMostFeatures));
  }
  WriteQuery(part, shape, writer);
  writer->Line("for (i64 from = 0; from < limit; from += " + Text(shape.chunk) + ") {");
  writer->Line("const int count = (int)(limit - from < " + Text(shape.chunk) +
               " ? limit - from : " + Text(shape.chunk) + ");");
  WriteScores(part, shape, writer);
  WriteWeights(writer);
  WriteSums(part, shape, writer);
  writer->Line("}");
  WriteResults(part, shape, writer);
  return WithBlocks(shape.queries);
}

}  // namespace

constinit const KernelVariant kPlainAttention = {VariantId::kPlain, kHeaders, OneCandidate<VariantId::kPlain>,
                                                 WritePlain};

}  // namespace rondo::cuda
