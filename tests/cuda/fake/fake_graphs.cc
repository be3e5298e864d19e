// The fake libcuda's calls for capture, graphs and launches.
#include <cstring>

#include "tests/cuda/fake/fake_world.h"
#include "tests/cuda/fake/tensor_map.h"

using namespace rondo::fake_cuda;  // NOLINT: the functions below are this library
using namespace rondo::cuda;       // NOLINT
using FakeFunction = rondo::fake_cuda::Function;

extern "C" {

RONDO_FAKE_API Error cuStreamBeginCapture_v2(StreamHandle stream, int) {
  const rondo::fake_cuda::Working working;
  POINT("cuStreamBeginCapture");
  rondo::fake_cuda::Stream* s = ToStream(stream);
  if (s == nullptr || s->capture != nullptr) return kInvalidHandle;
  s->capture = std::make_shared<Capture>();
  s->last = nullptr;
  s->origin = true;
  return 0;
}
RONDO_FAKE_API Error cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  rondo::fake_cuda::Stream* s = ToStream(stream);
  if (s == nullptr || s->capture == nullptr || !s->origin) return kCaptureUnmatched;
  const std::shared_ptr<Capture> capture = s->capture;
  for (void* other : W().streams) {
    auto* o = static_cast<rondo::fake_cuda::Stream*>(other);
    if (o->capture == capture) o->capture = nullptr;
  }
  for (void* other : W().events) {
    auto* o = static_cast<rondo::fake_cuda::Event*>(other);
    if (o->capture == capture) o->capture = nullptr;
  }
  s->origin = false;
  if (const Error error = ContextPoint("cuStreamEndCapture"); error != 0) return error;
  auto* made = new rondo::fake_cuda::Graph;
  made->context = s->context;
  made->nodes = std::move(capture->nodes);
  made->branches = capture->streams.size();
  W().graphs.insert(made);
  *graph = reinterpret_cast<GraphHandle>(made);
  return 0;
}
RONDO_FAKE_API Error cuGraphInstantiateWithFlags(GraphExec* exec, GraphHandle graph, unsigned long long) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphInstantiate");
  DrainAll();
  auto* made = new rondo::fake_cuda::Graph(*reinterpret_cast<rondo::fake_cuda::Graph*>(graph));
  made->instance = true;
  for (size_t branch = 1; branch < made->branches; ++branch) made->numbers.push_back(W().queues_taken++);
  W().graphs.insert(made);
  *exec = reinterpret_cast<GraphExec>(made);
  return 0;
}
RONDO_FAKE_API Error cuGraphUpload(GraphExec, StreamHandle) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphUpload");
  return 0;
}
RONDO_FAKE_API Error cuGraphLaunch(GraphExec exec, StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphLaunch");
  rondo::fake_cuda::CountQueue(stream);
  auto* graph = reinterpret_cast<rondo::fake_cuda::Graph*>(exec);
  for (const std::shared_ptr<Node>& node : graph->nodes) {
    const auto changed = graph->changed.find(node.get());
    const Error error = Enqueue(stream, changed != graph->changed.end() ? changed->second : node->work);
    if (error != 0) return error;
  }
  auto& numbers = ToStream(stream)->numbers;
  numbers.insert(numbers.end(), graph->numbers.begin(), graph->numbers.end());
  return 0;
}
RONDO_FAKE_API Error cuStreamGetCaptureInfo_v3(StreamHandle stream, int* status, uint64_t*, GraphHandle*,
                                               const NodeHandle** nodes, const void**, size_t* count) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  rondo::fake_cuda::Stream* s = ToStream(stream);
  *status = s->capture != nullptr;
  *nodes = &s->last;
  *count = s->capture != nullptr && s->last != nullptr;
  return 0;
}
RONDO_FAKE_API Error cuGraphExecMemcpyNodeSetParams(GraphExec exec, NodeHandle node,
                                                    const CopyNodeParams* params, rondo::cuda::Context) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphExecMemcpyNodeSetParams");
  if (!IsOwn(params->to.device, params->width) || !IsOwn(params->from.device, params->width)) return 1;
  auto* graph = reinterpret_cast<rondo::fake_cuda::Graph*>(exec);
  graph->changed[node] = [p = *params] {
    return std::memmove(Pointer<void>(p.to.device), Pointer<void>(p.from.device), p.width), 0;
  };
  return 0;
}
RONDO_FAKE_API Error cuGraphExecDestroy(GraphExec exec) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  DrainAll();
  if (W().graphs.erase(exec) == 0) return kInvalidHandle;
  delete reinterpret_cast<rondo::fake_cuda::Graph*>(exec);
  return 0;
}
RONDO_FAKE_API Error cuGraphDestroy(GraphHandle graph) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (W().graphs.erase(graph) == 0) return kInvalidHandle;
  delete reinterpret_cast<rondo::fake_cuda::Graph*>(graph);
  return 0;
}
// The values of parameters with these sizes, each at a suitably aligned offset.
struct Values {
  std::vector<size_t> at;
  std::vector<uint64_t> words;

  Values(const std::vector<size_t>& bytes, void* const* params) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      at.push_back(words.size());
      words.resize(words.size() + (bytes[i] + 7) / 8);
      std::memcpy(&words[at.back()], params[i], bytes[i]);
    }
  }
};

// The kernel with the values that `params` point to.
static Error Bound(rondo::cuda::Function function, const unsigned* grid, const unsigned* block,
                   unsigned shared, void** params, Work* work) {
  const auto* f = reinterpret_cast<FakeFunction*>(function);
  if (f->loaded != nullptr) {
    const LaunchShape shape = {{grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared};
    *work = [kernel = f->loaded, shape, values = Values(f->loaded->params, params)] {
      std::vector<void*> addresses;
      for (size_t at : values.at) addresses.push_back(const_cast<uint64_t*>(&values.words[at]));
      return kernel->run(shape, addresses.data());
    };
    return 0;
  }
  const auto found = W().kernels.find(f->name);
  if (found == W().kernels.end()) return kInvalidHandle;
  *work = [run = found->second.run, values = Values(found->second.params, params)] {
    return run(values.words);
  };
  return 0;
}
RONDO_FAKE_API Error cuGraphExecKernelNodeSetParams_v2(GraphExec exec, NodeHandle node,
                                                       const KernelNodeParams* params) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphExecKernelNodeSetParams");
  return Bound(params->function, params->grid, params->block, params->shared_bytes, params->params,
               &reinterpret_cast<rondo::fake_cuda::Graph*>(exec)->changed[node]);
}
RONDO_FAKE_API Error cuTensorMapEncodeTiled(rondo::cuda::EncodedMap* map, int type, uint32_t rank,
                                            void* address, const uint64_t* extents, const uint64_t* strides,
                                            const uint32_t* box, const uint32_t*, int, int swizzle, int,
                                            int) {
  const rondo::fake_cuda::Working working;
  POINT("cuTensorMapEncodeTiled");
  constexpr uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};  // of CUtensorMapDataType
  if (rank == 0 || rank > 5 || reinterpret_cast<uintptr_t>(address) % 16 != 0 || type < 0 || type > 9)
    return kInvalidValue;
  rondo::fake_cuda::TensorMap fake;
  fake.memory = static_cast<char*>(address);
  fake.rank = static_cast<uint8_t>(rank);
  fake.element_bytes = kBytes[type];
  fake.swizzle_bytes = static_cast<uint8_t>(swizzle == 0 ? 0 : 16 << swizzle);
  for (uint32_t d = 0; d < rank; ++d) {
    if (extents[d] == 0 || extents[d] > 0xffffffffu || box[d] == 0 || box[d] > 256) return kInvalidValue;
    fake.extents[d] = static_cast<uint32_t>(extents[d]);
    fake.box[d] = static_cast<uint16_t>(box[d]);
    if (d > 0 && strides[d - 1] % 16 != 0) return kInvalidValue;
    if (d > 0) fake.strides[d - 1] = strides[d - 1];
  }
  if (fake.swizzle_bytes != 0 && fake.box[0] * fake.element_bytes > fake.swizzle_bytes) return kInvalidValue;
  *map = {};
  std::memcpy(map->words, &fake, sizeof fake);
  return 0;
}
RONDO_FAKE_API Error cuLaunchKernelEx(const LaunchConfig* config, rondo::cuda::Function function,
                                      void** params, void**) {
  const rondo::fake_cuda::Working working;
  POINT("cuLaunchKernelEx");
  if (config->grid[0] == 0 || config->block[0] == 0 || config->block[0] > 1024) return kInvalidValue;
  Work work;
  const Error error = Bound(function, config->grid, config->block, config->shared_bytes, params, &work);
  return error != 0 ? error : Enqueue(config->stream, std::move(work));
}

}  // extern "C"
