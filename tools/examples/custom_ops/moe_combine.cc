// A custom operator that stays on the GPU: the end of a mixture of experts.
//
//   MoeCombine   hidden [tokens, width] f32, expert_rows [rows, width] f32, slots [tokens, k] i64,
//                scores [tokens, k] f32  ->  hidden, changed in place
//
// Adds to each token's row the rows of its k experts, weighted by the softmax of the token's scores. A slot
// that is no row of expert_rows adds nothing: the expert had no room for the token.
//
// On a GPU, `enqueue` launches two kernels on the given stream, and Rondo captures them into the model's
// graph. The weights that the first computes for the second lie in the workspace. On the host, `run` computes
// the same. The kernels are compiled when a plan is loaded, for the machine's GPU. libcuda and libnvrtc are
// opened then, so that one library serves machines with and without a GPU.
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/rondo_op.h"  // installed as rondo/rondo_op.h

RONDO_OP_LIBRARY

namespace {

constexpr char kKernels[] = R"cuda(
extern "C" __global__ void weigh(const float* scores, float* weights, int tokens, int k) {
  const int token = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (token >= tokens) return;
  const float* of = scores + token * k;
  float most = of[0], sum = 0;
  for (int i = 1; i < k; ++i) most = fmaxf(most, of[i]);
  for (int i = 0; i < k; ++i) sum += expf(of[i] - most);
  for (int i = 0; i < k; ++i) weights[token * k + i] = expf(of[i] - most) / sum;
}

extern "C" __global__ void combine(float* hidden, const float* expert_rows, const long long* slots,
                                   const float* weights, int width, int k, long long rows) {
  const int token = static_cast<int>(blockIdx.x);
  for (int column = static_cast<int>(threadIdx.x); column < width; column += static_cast<int>(blockDim.x)) {
    float sum = hidden[static_cast<long long>(token) * width + column];
    for (int i = 0; i < k; ++i) {
      const long long row = slots[token * k + i];
      if (row >= 0 && row < rows) sum += weights[token * k + i] * expert_rows[row * width + column];
    }
    hidden[static_cast<long long>(token) * width + column] = sum;
  }
}
)cuda";

// The functions of libcuda and libnvrtc that are used here.
struct Cuda {
  decltype(&::cuCtxGetDevice) device_of_context = nullptr;
  decltype(&::cuDeviceGetAttribute) attribute = nullptr;
  decltype(&::cuModuleLoadData) load = nullptr;
  decltype(&::cuModuleUnload) unload = nullptr;
  decltype(&::cuModuleGetFunction) function = nullptr;
  decltype(&::cuLaunchKernelEx) launch = nullptr;
  decltype(&::nvrtcCreateProgram) create_program = nullptr;
  decltype(&::nvrtcCompileProgram) compile = nullptr;
  decltype(&::nvrtcGetCUBINSize) code_size = nullptr;
  decltype(&::nvrtcGetCUBIN) code = nullptr;
  decltype(&::nvrtcDestroyProgram) destroy_program = nullptr;

  bool Open() {
    void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // neither is closed
    void* nvrtc = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    if (nvrtc == nullptr) nvrtc = dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_LOCAL);
    if (cuda == nullptr || nvrtc == nullptr) return false;
    const auto find = [](void* library, const char* name, auto* to) {
      *to = reinterpret_cast<std::remove_pointer_t<decltype(to)>>(dlsym(library, name));
      return *to != nullptr;
    };
    return find(cuda, "cuCtxGetDevice", &device_of_context) &&
           find(cuda, "cuDeviceGetAttribute", &attribute) && find(cuda, "cuModuleLoadData", &load) &&
           find(cuda, "cuModuleUnload", &unload) && find(cuda, "cuModuleGetFunction", &function) &&
           find(cuda, "cuLaunchKernelEx", &launch) && find(nvrtc, "nvrtcCreateProgram", &create_program) &&
           find(nvrtc, "nvrtcCompileProgram", &compile) && find(nvrtc, "nvrtcGetCUBINSize", &code_size) &&
           find(nvrtc, "nvrtcGetCUBIN", &code) && find(nvrtc, "nvrtcDestroyProgram", &destroy_program);
  }
};

const Cuda* TheCuda() {
  static const Cuda* const opened = [] {
    auto* cuda = new Cuda;
    return cuda->Open() ? cuda : nullptr;
  }();
  return opened;
}

int32_t Refuse(char* error, size_t error_size, const char* why) {
  std::snprintf(error, error_size, "%s", why);
  return RONDO_OP_FAILED;
}

// An instance of the op. It never changes after `create`, so several sessions may use it at once.
struct MoeCombine {
  int tokens = 0, width = 0, k = 0;
  int64_t rows = 0;
  CUmodule module = nullptr;  // on a GPU
  CUfunction weigh = nullptr, combine = nullptr;

  bool Compile(const Cuda& cuda);
};

// Compiles the kernels for the GPU whose context is current.
bool MoeCombine::Compile(const Cuda& cuda) {
  CUdevice device = 0;
  int major = 0, minor = 0;
  if (cuda.device_of_context(&device) != CUDA_SUCCESS ||
      cuda.attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
      cuda.attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS) {
    return false;
  }
  const std::string architecture = "--gpu-architecture=sm_" + std::to_string(major) + std::to_string(minor);
  const char* const options[] = {architecture.c_str()};
  nvrtcProgram program = nullptr;
  if (cuda.create_program(&program, kKernels, "moe_combine.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS)
    return false;
  size_t bytes = 0;
  std::vector<char> code;
  bool made =
      cuda.compile(program, 1, options) == NVRTC_SUCCESS && cuda.code_size(program, &bytes) == NVRTC_SUCCESS;
  code.resize(bytes);
  made = made && cuda.code(program, code.data()) == NVRTC_SUCCESS;
  cuda.destroy_program(&program);
  return made && cuda.load(&module, code.data()) == CUDA_SUCCESS &&
         cuda.function(&weigh, module, "weigh") == CUDA_SUCCESS &&
         cuda.function(&combine, module, "combine") == CUDA_SUCCESS;
}

bool IsMatrix(const rondo_op_type& type, int32_t dtype) { return type.dtype == dtype && type.rank == 2; }

int32_t Infer(void*, const rondo_op_node* node, rondo_op_type* outputs, char* error, size_t error_size) {
  const rondo_op_type &hidden = node->inputs[0], &rows = node->inputs[1], &slots = node->inputs[2],
                      &scores = node->inputs[3];
  if (!IsMatrix(hidden, RONDO_OP_F32) || !IsMatrix(rows, RONDO_OP_F32) || !IsMatrix(slots, RONDO_OP_I64) ||
      !IsMatrix(scores, RONDO_OP_F32)) {
    return Refuse(error, error_size, "hidden, expert_rows and scores must be f32, slots i64, all of rank 2");
  }
  if (hidden.dims[1] != rows.dims[1] || slots.dims[0] != hidden.dims[0] || scores.dims[0] != hidden.dims[0] ||
      slots.dims[1] != scores.dims[1] || slots.dims[1] < 1) {
    return Refuse(
        error, error_size,
        "hidden [tokens, width], expert_rows [rows, width], slots and scores [tokens, k] do not fit");
  }
  if (hidden.dims[0] > 1 << 20 || hidden.dims[1] > 1 << 20 || slots.dims[1] > 1 << 10)
    return Refuse(error, error_size, "at most 2^20 tokens, a width of 2^20 and 2^10 experts a token");
  outputs[0] = hidden;
  return RONDO_OP_OK;
}

// Bytes of workspace: the weights of all tokens.
uint64_t Workspace(void*, const rondo_op_node* node) {
  return static_cast<uint64_t>(node->inputs[3].dims[0] * node->inputs[3].dims[1]) * sizeof(float);
}

void Destroy(void* instance) {
  auto* self = static_cast<MoeCombine*>(instance);
  if (self->module != nullptr) TheCuda()->unload(self->module);
  delete self;
}

int32_t Create(void*, const rondo_op_node* node, void** instance, char* error, size_t error_size) {
  std::unique_ptr<MoeCombine, void (*)(void*)> self(new (std::nothrow) MoeCombine, Destroy);
  if (self == nullptr) {
    Refuse(error, error_size, "out of memory");
    return RONDO_OP_NO_MEMORY;
  }
  self->tokens = static_cast<int>(node->inputs[0].dims[0]);
  self->width = static_cast<int>(node->inputs[0].dims[1]);
  self->rows = node->inputs[1].dims[0];
  self->k = static_cast<int>(node->inputs[2].dims[1]);
  if (node->for_enqueue != 0) {
    if (TheCuda() == nullptr) return Refuse(error, error_size, "libcuda or libnvrtc cannot be opened");
    if (!self->Compile(*TheCuda()))
      return Refuse(error, error_size, "its kernels cannot be compiled and loaded");
  }
  *instance = self.release();
  return RONDO_OP_OK;
}

int32_t Run(void* instance, const rondo_op_call* call, char*, size_t) {
  const auto& self = *static_cast<const MoeCombine*>(instance);
  const auto* expert_rows = static_cast<const float*>(call->inputs[1]);
  const auto* slots = static_cast<const int64_t*>(call->inputs[2]);
  const auto* scores = static_cast<const float*>(call->inputs[3]);
  auto* hidden = static_cast<float*>(call->outputs[0]);  // the memory of inputs[0]
  auto* weights = static_cast<float*>(call->workspace);
  for (int token = 0; token < self.tokens; ++token) {
    const int first = token * self.k;
    float most = scores[first], sum = 0;
    for (int i = 1; i < self.k; ++i) most = std::fmax(most, scores[first + i]);
    for (int i = 0; i < self.k; ++i) sum += std::exp(scores[first + i] - most);
    for (int i = 0; i < self.k; ++i) weights[first + i] = std::exp(scores[first + i] - most) / sum;
    for (int i = 0; i < self.k; ++i) {
      const int64_t row = slots[first + i];
      if (row < 0 || row >= self.rows) continue;
      for (int64_t column = 0; column < self.width; ++column)
        hidden[int64_t{token} * self.width + column] +=
            weights[first + i] * expert_rows[row * self.width + column];
    }
  }
  return RONDO_OP_OK;
}

CUresult Launch(CUfunction function, int blocks, int threads, void* stream, void** params) {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(blocks);
  config.blockDimX = static_cast<unsigned>(threads);
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.hStream = static_cast<CUstream>(stream);
  return TheCuda()->launch(&config, function, params, nullptr);
}

int32_t Enqueue(void* instance, const rondo_op_call* call, char* error, size_t error_size) {
  auto self = *static_cast<const MoeCombine*>(instance);
  const void *expert_rows = call->inputs[1], *slots = call->inputs[2], *scores = call->inputs[3];
  void *hidden = call->outputs[0], *weights = call->workspace;
  long long rows = self.rows;
  if (self.tokens == 0 || self.width == 0) return RONDO_OP_OK;
  void* weigh[] = {&scores, &weights, &self.tokens, &self.k};
  void* combine[] = {&hidden, &expert_rows, &slots, &weights, &self.width, &self.k, &rows};
  if (Launch(self.weigh, (self.tokens + 127) / 128, 128, call->stream, weigh) != CUDA_SUCCESS ||
      Launch(self.combine, self.tokens, 256, call->stream, combine) != CUDA_SUCCESS) {
    return Refuse(error, error_size, "its kernels cannot be launched");
  }
  return RONDO_OP_OK;
}

}  // namespace

RONDO_OP_EXPORT int32_t rondo_register_ops(const rondo_op_registrar* registrar) {
  static const uint32_t kFirstChanges[] = {RONDO_OP_MUTATED, 0, 0, 0};
  static const int32_t kFirst[] = {0};
  rondo_op op = {};
  op.size = sizeof(op);
  op.domain = "com.example";
  op.name = "MoeCombine";
  op.since_version = 1;
  op.min_inputs = op.max_inputs = 4;
  op.min_outputs = op.max_outputs = 1;
  op.input_flags = kFirstChanges;
  op.output_aliases = kFirst;
  op.infer = Infer;
  op.workspace = Workspace;
  op.create = Create;
  op.run = Run;
  op.enqueue = Enqueue;
  op.destroy = Destroy;
  return registrar->add(registrar->context, &op);
}
