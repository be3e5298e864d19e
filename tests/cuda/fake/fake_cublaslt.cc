#include "tests/cuda/fake/fake_cublaslt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>

#include "drivers/cuda/cublaslt_api.h"
#include "drivers/cuda/cuda_api.h"
#include "tests/cuda/fake/fake_cuda.h"

extern "C" {
int cuModuleLoadData(rondo::cuda::ModuleHandle* module, const void* image);
int cuModuleUnload(rondo::cuda::ModuleHandle module);
int cuModuleGetFunction(rondo::cuda::Function* function, rondo::cuda::ModuleHandle module, const char* name);
int cuLaunchKernelEx(const rondo::cuda::LaunchConfig* config, rondo::cuda::Function function, void** params,
                     void** extra);
}

namespace rondo::cublaslt {
namespace {

constexpr int kNotSupported = 15, kInvalid = 7;
constexpr size_t kScratch[] = {0, 1024, 64 << 10};
constexpr const char* kMatmul = "fake_cublaslt_product";

struct FakeOperation {
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = 1;
  const float* bias = nullptr;
};
struct FakeLayout {
  int64_t rows, columns, line, batch_stride;
  int32_t batches;
};
struct FakePreference {
  uint64_t workspace = 0;
};

// The arguments of one call, which a real library puts into its kernel's parameters.
struct Matmul {
  FakeOperation operation;
  FakeLayout a, b, c, d;
  const float *at_a, *at_b, *at_c;
  float* at_d;
  float alpha, beta;
  bool whole = true;  // false: the part before the sums, which does nothing here
};

struct State {
  std::mutex mutex;
  fake_cublaslt::Counts counts;
  std::deque<Matmul> matmuls;  // kept, because graphs are launched again
  cuda::ModuleHandle module = nullptr;
  cuda::Function function = nullptr;
};
State& S() {
  static State state;
  return state;
}

float Activated(uint32_t epilogue, float x) {
  if ((epilogue & kRelu) != 0) return std::max(x, 0.0f);
  if ((epilogue & kGelu) != 0) {
    return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  }
  return x;
}

void Compute(const Matmul& p) {
  const auto at = [](const float* base, const FakeLayout& l, bool transposed, int64_t row, int64_t column) {
    return transposed ? base[row * l.line + column] : base[column * l.line + row];
  };
  const int64_t depth = p.operation.transpose_a != 0 ? p.a.rows : p.a.columns;
  for (int64_t batch = 0; batch < p.d.batches; ++batch) {
    const float *a = p.at_a + batch * p.a.batch_stride, *b = p.at_b + batch * p.b.batch_stride;
    for (int64_t column = 0; column < p.d.columns; ++column) {
      for (int64_t row = 0; row < p.d.rows; ++row) {
        float sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          sum += at(a, p.a, p.operation.transpose_a != 0, row, k) *
                 at(b, p.b, p.operation.transpose_b != 0, k, column);
        }
        sum *= p.alpha;
        if (p.beta != 0) sum += p.beta * (p.at_c + batch * p.c.batch_stride)[column * p.c.line + row];
        if ((p.operation.epilogue & kBias) != 0) sum += p.operation.bias[row];
        (p.at_d + batch * p.d.batch_stride)[column * p.d.line + row] = Activated(p.operation.epilogue, sum);
      }
    }
  }
}

template <typename To, typename From>
To* As(From* from) {
  return reinterpret_cast<To*>(from);
}

int Enqueue(const Matmul& matmul, Stream stream) {
  State& s = S();
  s.matmuls.push_back(matmul);
  const Matmul* kept = &s.matmuls.back();
  cuda::LaunchConfig config;
  config.stream = stream;
  void* params[] = {&kept};
  return cuLaunchKernelEx(&config, s.function, params, nullptr);
}

}  // namespace
}  // namespace rondo::cublaslt

using rondo::cublaslt::As;
using rondo::cublaslt::S;
namespace lt = rondo::cublaslt;

extern "C" {

rondo::fake_cublaslt::Counts* RondoFakeCublasLtCounts() { return &S().counts; }

RONDO_FAKE_LT_API size_t cublasLtGetVersion() { return 130000; }
RONDO_FAKE_LT_API const char* cublasLtGetStatusString(int) { return "a failure of the fake"; }

RONDO_FAKE_LT_API int cublasLtCreate(lt::Handle* handle) {
  if (S().counts.on_create != nullptr) {
    if (int error = S().counts.on_create(); error != 0) return error;
  }
  rondo::fake_cuda::SetKernel(lt::kMatmul, {{8}, [](const std::vector<uint64_t>& params) {
                                              const auto* p = reinterpret_cast<lt::Matmul*>(params[0]);
                                              if (p->whole) Compute(*p), ++S().counts.matmuls;
                                              return 0;
                                            }});
  if (int error = cuModuleLoadData(&S().module, rondo::fake_cuda::kImage); error != 0) return error;
  if (int error = cuModuleGetFunction(&S().function, S().module, lt::kMatmul); error != 0) {
    cuModuleUnload(S().module);
    return error;
  }
  ++S().counts.handles;
  *handle = reinterpret_cast<lt::Handle>(&S());
  return 0;
}
RONDO_FAKE_LT_API int cublasLtDestroy(lt::Handle) {
  --S().counts.handles;
  rondo::fake_cuda::RemoveKernel(lt::kMatmul);
  return cuModuleUnload(S().module);
}

RONDO_FAKE_LT_API int cublasLtMatmulDescCreate(lt::Operation* operation, int, int) {
  ++S().counts.objects;
  *operation = As<lt::cublasLtMatmulDescOpaque_t>(new lt::FakeOperation);
  return 0;
}
RONDO_FAKE_LT_API int cublasLtMatmulDescDestroy(lt::Operation operation) {
  --S().counts.objects;
  delete As<lt::FakeOperation>(operation);
  return 0;
}
RONDO_FAKE_LT_API int cublasLtMatmulDescSetAttribute(lt::Operation operation, int attribute,
                                                     const void* value, size_t bytes) {
  auto* o = As<lt::FakeOperation>(operation);
  switch (attribute) {
    case lt::kTransposeA: std::memcpy(&o->transpose_a, value, bytes); return 0;
    case lt::kTransposeB: std::memcpy(&o->transpose_b, value, bytes); return 0;
    case lt::kEpilogue: std::memcpy(&o->epilogue, value, bytes); return 0;
    case lt::kBiasAddress: std::memcpy(&o->bias, value, bytes); return 0;
    case lt::kBiasType: return 0;
    default: return lt::kInvalid;
  }
}

RONDO_FAKE_LT_API int cublasLtMatrixLayoutCreate(lt::Layout* layout, int type, uint64_t rows,
                                                 uint64_t columns, int64_t line) {
  if (type != lt::kF32) return lt::kNotSupported;
  ++S().counts.objects;
  *layout = As<lt::cublasLtMatrixLayoutOpaque_t>(
      new lt::FakeLayout{static_cast<int64_t>(rows), static_cast<int64_t>(columns), line, 0, 1});
  return 0;
}
RONDO_FAKE_LT_API int cublasLtMatrixLayoutDestroy(lt::Layout layout) {
  --S().counts.objects;
  delete As<lt::FakeLayout>(layout);
  return 0;
}
RONDO_FAKE_LT_API int cublasLtMatrixLayoutSetAttribute(lt::Layout layout, int attribute, const void* value,
                                                       size_t bytes) {
  auto* l = As<lt::FakeLayout>(layout);
  if (attribute == lt::kBatches) std::memcpy(&l->batches, value, bytes);
  if (attribute == lt::kBatchStride) std::memcpy(&l->batch_stride, value, bytes);
  return 0;
}

RONDO_FAKE_LT_API int cublasLtMatmulPreferenceCreate(lt::Preference* preference) {
  ++S().counts.objects;
  *preference = As<lt::cublasLtMatmulPreferenceOpaque_t>(new lt::FakePreference);
  return 0;
}
RONDO_FAKE_LT_API int cublasLtMatmulPreferenceDestroy(lt::Preference preference) {
  --S().counts.objects;
  delete As<lt::FakePreference>(preference);
  return 0;
}
RONDO_FAKE_LT_API int cublasLtMatmulPreferenceSetAttribute(lt::Preference preference, int attribute,
                                                           const void* value, size_t bytes) {
  if (attribute == lt::kMostWorkspace)
    std::memcpy(&As<lt::FakePreference>(preference)->workspace, value, bytes);
  return 0;
}

RONDO_FAKE_LT_API int cublasLtMatmulAlgoGetHeuristic(lt::Handle, lt::Operation, lt::Layout, lt::Layout,
                                                     lt::Layout, lt::Layout, lt::Preference preference,
                                                     int most, lt::Candidate* candidates, int* found) {
  *found = 0;
  for (uint64_t i = 0; i < 3 && *found < most; ++i) {
    if (lt::kScratch[i] > As<lt::FakePreference>(preference)->workspace) continue;
    candidates[*found].algorithm.data[0] = i;
    candidates[*found].workspace_bytes = lt::kScratch[i];
    ++*found;
  }
  return 0;
}

RONDO_FAKE_LT_API int cublasLtMatmul(lt::Handle, lt::Operation operation, const void* alpha, const void* a,
                                     lt::Layout la, const void* b, lt::Layout lb, const void* beta,
                                     const void* c, lt::Layout lc, void* d, lt::Layout ld,
                                     const lt::Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                                     lt::Stream stream) {
  std::lock_guard<std::mutex> lock(S().mutex);
  lt::Matmul p = {
      *As<lt::FakeOperation>(operation), *As<lt::FakeLayout>(la),         *As<lt::FakeLayout>(lb),
      *As<lt::FakeLayout>(lc),           *As<lt::FakeLayout>(ld),         static_cast<const float*>(a),
      static_cast<const float*>(b),      static_cast<const float*>(c),    static_cast<float*>(d),
      *static_cast<const float*>(alpha), *static_cast<const float*>(beta)};
  const size_t scratch = lt::kScratch[algorithm->data[0]];
  if (scratch > workspace_bytes || (scratch > 0 && reinterpret_cast<uintptr_t>(workspace) % 256 != 0)) {
    ++S().counts.bad_scratch;
    return lt::kInvalid;
  }
  S().counts.algorithm = static_cast<int>(algorithm->data[0]);
  if (algorithm->data[0] == 1) {
    p.whole = false;
    if (int error = Enqueue(p, stream); error != 0) return error;
    p.whole = true;
  }
  return Enqueue(p, stream);
}

}  // extern "C"
