#include "compiler/codegen/cuda/kernel_text.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "compiler/codegen/cuda/device_headers.h"
#include "compiler/codegen/cuda/part_text.h"
#include "core/plan.h"
#include "formats/machine_code/architecture.h"

namespace rondo {

namespace {

using cuda::PartText;

double Work(const Part& part) {
  double work = 1;
  for (int64_t extent : part.loops) work *= static_cast<double>(extent);
  return work;
}

// Writes all parts. The part with most work chooses the cluster; blocks of all parts come in clusters of that
// size.
Result<std::vector<std::unique_ptr<PartText>>> WriteParts(const Kernel& kernel, const CudaTarget& target,
                                                          Span<const cuda::ParamFacts> params) {
  std::vector<std::unique_ptr<PartText>> texts(kernel.parts.size());
  std::vector<size_t> order;
  double all = 0;
  for (size_t k = 0; k < kernel.parts.size(); ++k) {
    order.push_back(k);
    all += Work(kernel.parts[k]);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return Work(kernel.parts[a]) > Work(kernel.parts[b]); });
  uint32_t cluster = 0;
  for (size_t k : order) {
    const Part& part = kernel.parts[k];
    texts[k] = std::make_unique<PartText>(part, target, params, Work(part) / all, cluster);
    if (Status status = texts[k]->Write(); !status.ok()) {
      return status.At("kernel \"%.*s\", part %zu", static_cast<int>(kernel.name.size()), kernel.name.data(),
                       k);
    }
    if (cluster == 0) cluster = texts[k]->launch().cluster;
  }
  return texts;
}

// "rondo_rms_norm", "rondo_contraction": what profilers show. It says nothing of the kernel's place in its
// plan, so that kernels that compute the same have the same text.
std::string EntryName(const Kernel& kernel) {
  std::string name = "rondo_";
  for (char c : kernel.label.empty() ? std::string_view(Name(kernel.parts[0].skeleton)) : kernel.label)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

}  // namespace

CudaTarget TargetOf(const std::string& architecture) {
  CudaTarget target;
  const std::optional<CodeArchitecture> code = ParseArchitecture(architecture);
  const GpuTarget* gpu = FindGpuTarget(architecture);
  if (code) target.architecture = code->number;
  target.warp_groups = architecture == "sm_90a";
  if (gpu == nullptr) return target;
  target.processors = gpu->processors;
  target.shared = gpu->shared;
  target.shared_processor = gpu->shared_processor;
  return target;
}

Result<KernelText> WriteKernelText(const Kernel& kernel, const CudaTarget& target,
                                   Span<const cuda::ParamFacts> params) {
  KernelText out;
  out.entry = EntryName(kernel);
  std::string declared, passed;
  for (uint16_t p = 0; p < kernel.num_params; ++p) {
    declared += "char* p" + std::to_string(p) + ", ";
    passed += "p" + std::to_string(p) + ", ";
  }
  RONDO_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<PartText>> parts, WriteParts(kernel, target, params));
  uint32_t cluster = 1, resident = 0;
  std::set<std::string> headers;
  out.block = 0;
  for (const auto& part : parts) {
    out.block = std::max(out.block, part->launch().block);
    headers.insert(part->headers().begin(), part->headers().end());
    cluster = std::max(cluster, part->launch().cluster);
    resident = resident == 0 ? part->launch().resident : std::min(resident, part->launch().resident);
  }
  for (const std::string& header : headers) out.text += IncludeLine(header);
  const std::string last = "u64* faults, u32 step";
  std::string calls, maps;
  uint64_t blocks = 0;
  size_t chosen = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    std::string name = out.entry + "_part" + std::to_string(k);
    // The tensor maps of a part, which it calls m0 and so on, are a run of the kernel's.
    std::string own_maps, passed_maps;
    for (size_t m = 0; m < parts[k]->launch().tensor_maps.size(); ++m) {
      const std::string number_in_kernel = std::to_string(out.tensor_maps.size());
      own_maps += "const BulkMap& m" + std::to_string(m) + ", ";
      passed_maps += "m" + number_in_kernel + ", ";
      maps += "const __grid_constant__ BulkMap m" + number_in_kernel + ", ";
      out.tensor_maps.push_back(parts[k]->launch().tensor_maps[m]);
    }
    out.text += "static __device__ void " + name + "(u32 block, " + declared + own_maps + last + ") {\n" +
                parts[k]->text() + "}\n";
    std::string first = std::to_string(blocks);
    const uint32_t own = parts[k]->launch().blocks;
    calls += "if (blockIdx.x < " + std::to_string(blocks + own) + "u) { ";
    if (parts[k]->launch().block < out.block)
      calls += "if (threadIdx.x < " + std::to_string(parts[k]->launch().block) + "u) ";
    calls += name + "(blockIdx.x - " + first + "u, " + passed + passed_maps + "faults, step); return; }\n";
    const bool more = out.offers.empty() || Work(kernel.parts[k]) > Work(kernel.parts[chosen]);
    if (!parts[k]->offers().empty() && more) {
      out.choice = parts[k]->choice();
      out.offers = parts[k]->offers();
      chosen = k;
    }
    blocks += (own + cluster - 1) / cluster * cluster;
    // Blocks that only fill the last cluster.
    if (own % cluster != 0) calls += "if (blockIdx.x < " + std::to_string(blocks) + "u) return;\n";
    out.shared = std::max(out.shared, parts[k]->launch().shared);
    if (blocks > 0x7fffffff) {
      return Status::Error(Code::kUnsupported, "kernel \"%.*s\" needs more than 2147483647 blocks",
                           static_cast<int>(kernel.name.size()), kernel.name.data());
    }
  }
  std::string bounds = "__launch_bounds__(" + std::to_string(out.block) +
                       (resident > 1 ? ", " + std::to_string(resident) : "") + ") ";
  if (cluster > 1) bounds += "__cluster_dims__(" + std::to_string(cluster) + ", 1, 1) ";
  out.text += "extern \"C\" __global__ void " + bounds + out.entry + "(" + declared + maps + last + ") {\n" +
              calls + "}\n";
  out.waits = target.dependent_launch();
  out.grid = static_cast<uint32_t>(blocks);
  return out;
}

}  // namespace rondo
