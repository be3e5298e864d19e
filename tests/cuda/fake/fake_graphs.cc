// The fake libcuda's calls for what is captured, graphs, and launches.
#include <cstring>

#include "tests/cuda/fake/fake_world.h"

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
// The kernel with the values that `params` point to.
static Error Bound(rondo::cuda::Function function, void** params, Work* work) {
  const auto found = W().kernels.find(reinterpret_cast<FakeFunction*>(function)->name);
  if (found == W().kernels.end()) return kInvalidHandle;
  std::vector<uint64_t> values;
  for (size_t i = 0; i < found->second.params.size(); ++i) {
    const size_t first = values.size(), bytes = found->second.params[i];
    values.resize(first + (bytes + 7) / 8);
    std::memcpy(&values[first], params[i], bytes);
  }
  *work = [run = found->second.run, values] { return run(values); };
  return 0;
}
RONDO_FAKE_API Error cuGraphExecKernelNodeSetParams_v2(GraphExec exec, NodeHandle node,
                                                       const KernelNodeParams* params) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphExecKernelNodeSetParams");
  return Bound(params->function, params->params,
               &reinterpret_cast<rondo::fake_cuda::Graph*>(exec)->changed[node]);
}
RONDO_FAKE_API Error cuTensorMapEncodeTiled(rondo::cuda::EncodedMap* map, int, uint32_t rank, void* address,
                                            const uint64_t*, const uint64_t*, const uint32_t*,
                                            const uint32_t*, int, int, int, int) {
  const rondo::fake_cuda::Working working;
  POINT("cuTensorMapEncodeTiled");
  if (rank == 0 || rank > 5 || reinterpret_cast<uintptr_t>(address) % 16 != 0) return kInvalidValue;
  map->words[0] = reinterpret_cast<uintptr_t>(address);
  return 0;
}
RONDO_FAKE_API Error cuLaunchKernelEx(const LaunchConfig* config, rondo::cuda::Function function,
                                      void** params, void**) {
  const rondo::fake_cuda::Working working;
  POINT("cuLaunchKernelEx");
  if (config->grid[0] == 0 || config->block[0] == 0 || config->block[0] > 1024) return kInvalidValue;
  Work work;
  const Error error = Bound(function, params, &work);
  return error != 0 ? error : Enqueue(config->stream, std::move(work));
}

}  // extern "C"
