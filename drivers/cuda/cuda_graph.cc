// CudaDevice's graphs: recording by capture, launching, and setting other addresses.
#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "drivers/cuda/cuda_collectives.h"
#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {
namespace {

// The last node of a capturing stream; null if CUDA cannot tell.
NodeHandle LastNode(const Api& api, StreamHandle stream) {
  if (api.capture_info == nullptr) return nullptr;
  int status = 0;
  const NodeHandle* nodes = nullptr;
  const void* edges = nullptr;
  size_t count = 0;
  const Error error = api.capture_info(stream, &status, nullptr, nullptr, &nodes, &edges, &count);
  return error == 0 && count == 1 ? nodes[0] : nullptr;
}

}  // namespace

void CudaDevice::Note(CudaStream* stream, GraphNode node, const CudaNode* from) {
  if (stream->recording == nullptr) return;
  stream->recording->last = stream;
  CudaNode recorded;
  if (from != nullptr) {
    recorded = *from;
    recorded.handle = LastNode(api_, stream->handle);
  }
  stream->recording->nodes.push_back(node);
  stream->recording->recorded.push_back(recorded);
}

void CudaDevice::RecordsNext(CudaStream* stream) {
  CudaRecording* const recording = stream->recording;
  if (recording != nullptr && recording->in_line && recording->last != stream) stream->after_kernel = false;
}

void CudaDevice::Leave(CudaRecording* recording) {
  for (CudaStream* stream : recording->streams) {
    stream->recording = nullptr;
    CudaCollectives::Drop(stream);
    if (stream->own != nullptr) stream->handle = std::exchange(stream->own, nullptr);
  }
  for (CudaEvent* event : recording->events) event->recording = nullptr;
  delete recording;
}

Status CudaDevice::BeginRecord(Stream* stream) {
  CudaStream* s = ToCuda(stream);
  if (s->recording != nullptr) {
    return Status::Error(Code::kFailedPrecondition, "cuda device %u: the stream is already recording",
                         index_);
  }
  DropWeightCopy(nullptr);
  Use use(*this);
  std::unique_ptr<CudaRecording> recording(new (std::nothrow) CudaRecording);
  if (recording == nullptr || !recording->streams.push_back(s))
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a recording", index_);
  RONDO_RETURN_IF_ERROR(Check(api_.capture_begin(s->handle, kThreadLocalCapture), "beginning a recording"));
  static std::atomic<uint64_t> recordings{0};
  recording->number = ++recordings;
  recording->origin = s;
  recording->in_line = in_line_.load(std::memory_order_acquire);
  s->recording = recording.release();
  s->after_kernel = false;
  return Status::Ok();
}

Result<Graph*> CudaDevice::EndRecord(Stream* stream) {
  CudaStream* s = ToCuda(stream);
  if (s->recording == nullptr || s->recording->origin != s) {
    return Status::Error(Code::kFailedPrecondition, "cuda device %u: no recording began on this stream",
                         index_);
  }
  CudaGraph* graph = new (std::nothrow) CudaGraph;
  const bool whole = graph != nullptr && s->recording->nodes.ok() && s->recording->recorded.ok();
  if (whole) {
    graph->nodes = std::move(s->recording->nodes);
    graph->recorded = std::move(s->recording->recorded);
  }
  Status joined;
  for (CudaStream* with : s->recording->streams) {
    if (joined.ok()) joined = Settle(with);
  }
  Use use(*this);
  for (CollectiveNotes* notes : s->recording->notes) {
    if (joined.ok()) joined = notes->JoinTo(s->handle);
  }
  Leave(s->recording);
  if (!whole) {
    delete graph;
    GraphHandle captured = nullptr;
    if (api_.capture_end(s->handle, &captured) == 0) api_.graph_destroy(captured);
    return Status::Error(Code::kOutOfMemory, "cuda device %u: no host memory for a graph", index_);
  }
  Status status = Check(api_.capture_end(s->handle, &graph->graph), "ending a recording");
  if (status.ok()) status = joined;
  if (status.ok())
    status = Check(api_.graph_instantiate(&graph->exec, graph->graph, 0), "instantiating a graph");
  if (status.ok()) status = Check(api_.graph_upload(graph->exec, s->handle), "uploading a graph");
  if (status.ok()) status = Check(api_.stream_synchronize(s->handle), "uploading a graph");
  if (!status.ok()) {
    DestroyGraph(reinterpret_cast<Graph*>(graph));
    return status;
  }
  return reinterpret_cast<Graph*>(graph);
}

void CudaDevice::DestroyGraph(Graph* graph) {
  Use use(*this);
  if (ToCuda(graph)->exec != nullptr) api_.graph_exec_destroy(ToCuda(graph)->exec);
  if (ToCuda(graph)->graph != nullptr) api_.graph_destroy(ToCuda(graph)->graph);
  delete ToCuda(graph);
}

Span<const GraphNode> CudaDevice::Nodes(const Graph* graph) {
  const CudaGraph* g = reinterpret_cast<const CudaGraph*>(graph);
  return {g->nodes.data(), g->nodes.size()};
}

Status CudaDevice::LaunchGraph(Graph* graph, Stream* stream) {
  Use use(*this);
  CudaStream* s = ToCuda(stream);
  RONDO_RETURN_IF_ERROR(Idle(s));
  s->has_graph = true;
  return Check(api_.graph_launch(ToCuda(graph)->exec, s->handle), "launching a graph");
}

void CudaDevice::SeveralRanks(uint32_t ranks) {
  several_ranks_.store(true, std::memory_order_release);
  if (ranks > kMostWithBranches) in_line_.store(true, std::memory_order_release);
}

Status CudaDevice::Idle(CudaStream* stream) {
  if (!several_ranks_.load(std::memory_order_acquire)) return Status::Ok();
  stream->has_graph = false;
  return Check(api_.stream_synchronize(stream->handle), "waiting for a stream");
}

Status CudaDevice::SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses) {
  const CudaGraph* g = ToCuda(graph);
  if (node >= g->nodes.size() || g->recorded[node].handle == nullptr) {
    return Device::SetAddresses(graph, node, addresses);
  }
  const CudaNode& to = g->recorded[node];
  const bool copy = g->nodes[node].kind == StepKind::kCopy;
  if (addresses.size() != to.addresses) {
    return Status::Error(Code::kInvalidArgument, "cuda device %u: node %u has %zu addresses, not %zu", index_,
                         node, to.addresses, addresses.size());
  }
  Use use(*this);
  if (copy) {
    CopyNodeParams params;
    params.from.device = addresses[0];
    params.to.device = addresses[1];
    params.width = to.bytes;
    return Check(api_.graph_copy_params(g->exec, to.handle, &params, context_), "changing a graph's copy");
  }
  const CudaKernel& kernel = to.module->kernels[to.kernel];
  LaunchParams values;
  RONDO_RETURN_IF_ERROR(values.Build(api_, addresses.subspan(0, kernel.params), kernel.tensor_maps, to.faults,
                                     g->nodes[node].step));
  KernelNodeParams params;
  params.function = kernel.function;
  params.grid[0] = kernel.grid;
  params.block[0] = kernel.block;
  params.shared_bytes = kernel.shared;
  params.params = values.get();
  return Check(api_.graph_kernel_params(g->exec, to.handle, &params), "changing a graph's kernel");
}

}  // namespace rondo::cuda
