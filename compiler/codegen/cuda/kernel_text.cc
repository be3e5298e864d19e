#include "compiler/codegen/cuda/kernel_text.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "compiler/codegen/cuda/combined_cells.h"
#include "compiler/codegen/cuda/device_headers.h"
#include "compiler/codegen/cuda/part_plan.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "core/plan.h"

namespace rondo {

namespace {

using cuda::PartLaunch;
using cuda::PartPlan;
using cuda::PartWriter;

// The body of a part's function, and how to launch its blocks.
struct PartText {
  std::string body;
  std::set<std::string> headers;  // that it needs (IncludeLine of device_headers.h)
  PartLaunch launch;
};

Result<std::vector<PartText>> WriteParts(const Kernel& kernel, const std::vector<PartPlan>& plans) {
  std::vector<PartText> texts;
  for (size_t k = 0; k < plans.size(); ++k) {
    PartWriter writer(plans[k].context);
    Result<PartLaunch> launch = cuda::WritePart(plans[k], &writer);
    if (!launch.ok()) {
      return launch.status().At("kernel \"%.*s\", part %zu", static_cast<int>(kernel.name.size()),
                                kernel.name.data(), k);
    }
    if (!cuda::CombinedCells(kernel.parts[k]).empty()) writer.Include(cuda::kCombineHeader);
    if (writer.checks_indices()) writer.Include("fault");
    const std::string faults = writer.checks_indices() ? "IndexFaults outside(faults, step);\n" : "";
    texts.push_back({faults + writer.text(), writer.headers(), launch.Take()});
  }
  return texts;
}

// The name that profilers show, such as "rondo_rms_norm". It does not depend on the kernel's place in its
// plan, so that equal kernels have equal texts.
std::string EntryName(const Kernel& kernel) {
  std::string name = "rondo_";
  for (char c : kernel.label.empty() ? std::string_view(Name(kernel.parts[0].skeleton)) : kernel.label)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

// The parameters that all parts' functions share, tensor maps excepted.
struct Params {
  std::string declared, passed;
};

Params ParamsOf(const Kernel& kernel) {
  Params params;
  for (uint16_t p = 0; p < kernel.num_params; ++p) {
    params.declared += "char* p" + std::to_string(p) + ", ";
    params.passed += "p" + std::to_string(p) + ", ";
  }
  return params;
}

// "m0, m1, ": the tensor maps of a part.
std::string Passed(size_t tensor_maps) {
  std::string text;
  for (size_t m = 0; m < tensor_maps; ++m) text += "m" + std::to_string(m) + ", ";
  return text;
}

// Earlier kernels compute the conditions.
std::string ConditionsText(const Part& part) {
  std::string text = part.when.empty() ? "" : "wait_for_earlier();\n";
  for (const uint16_t when : part.when) {
    const Operand& operand = part.operands[when & ~kUnless];
    text += "if (p" + std::to_string(operand.param) + "[" + std::to_string(operand.offset) + "] " +
            ((when & kUnless) != 0 ? "!=" : "==") + " 0) return;\n";
  }
  return text;
}

// The function of a part: its body or, where the part combines, a function that calls the body and combines
// the shares.
std::string FunctionText(const Part& part, const PartText& text, const std::string& name,
                         const std::string& arguments, const std::string& passed) {
  const std::vector<TapeInst> cells = cuda::CombinedCells(part);
  const std::string when = ConditionsText(part);
  if (cells.empty())
    return "static __device__ void " + name + "(" + arguments + ") {\n" + when + text.body + "}\n";
  return "static __device__ __forceinline__ void " + name + "_body(" + arguments + ", " +
         cuda::DeclaredShares(cells) + ") {\n" + text.body + "}\n" + "static __device__ void " + name + "(" +
         arguments + ") {\n" + when + cuda::StartText(cells) + name + "_body(" + passed + ", " +
         cuda::PassedShares(cells) + ");\n" + cuda::EndText(part, cells, text.launch.block) + "}\n";
}

// Writes the parts' functions and the kernel, which gives each part a run of blocks. All parts use one
// cluster size.
Status WriteEntry(const Kernel& kernel, const std::vector<PartText>& parts, KernelText* out) {
  const Params params = ParamsOf(kernel);
  const std::string last = "KERNEL_TAIL";  // formats/machine_code/kernel_params.h
  uint32_t cluster = 1, resident = 0;
  out->block = 0;
  for (const PartText& part : parts) {
    out->block = std::max(out->block, part.launch.block);
    out->shared = std::max(out->shared, part.launch.shared);
    cluster = std::max(cluster, part.launch.cluster);
    resident = resident == 0 ? part.launch.resident : std::min(resident, part.launch.resident);
  }
  std::string calls, maps;
  uint64_t blocks = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    const PartLaunch& launch = parts[k].launch;
    const std::string name = out->entry + "_part" + std::to_string(k);
    // A part's tensor maps, which it calls m0 and so on, are a run of the kernel's.
    std::string own_maps, passed_maps;
    for (size_t m = 0; m < launch.tensor_maps.size(); ++m) {
      const std::string number_in_kernel = std::to_string(out->tensor_maps.size());
      own_maps += "const TensorMap& m" + std::to_string(m) + ", ";
      passed_maps += "m" + number_in_kernel + ", ";
      maps += "const __grid_constant__ TensorMap m" + number_in_kernel + ", ";
      out->tensor_maps.push_back(launch.tensor_maps[m]);
    }
    const std::string arguments = "u32 block, " + params.declared + own_maps + last;
    const std::string passed = "block, " + params.passed + Passed(launch.tensor_maps.size()) + "faults, step";
    out->text += FunctionText(kernel.parts[k], parts[k], name, arguments, passed);
    const std::string first = std::to_string(blocks);
    calls += "if (blockIdx.x < " + std::to_string(blocks + launch.blocks) + "u) { ";
    if (launch.block < out->block) calls += "if (threadIdx.x < " + std::to_string(launch.block) + "u) ";
    calls +=
        name + "(blockIdx.x - " + first + "u, " + params.passed + passed_maps + "faults, step); return; }\n";
    blocks += (launch.blocks + cluster - 1) / cluster * cluster;
    // These blocks only fill the last cluster.
    if (launch.blocks % cluster != 0) calls += "if (blockIdx.x < " + std::to_string(blocks) + "u) return;\n";
    if (blocks > 0x7fffffff) {
      return Status::Error(Code::kUnsupported, "kernel \"%.*s\" needs more than 2147483647 blocks",
                           static_cast<int>(kernel.name.size()), kernel.name.data());
    }
  }
  std::string bounds =
      "__launch_bounds__(" + std::to_string(out->block) + ", " + std::to_string(resident) + ") ";
  if (cluster > 1) bounds += "__cluster_dims__(" + std::to_string(cluster) + ", 1, 1) ";
  out->text += "extern \"C\" __global__ void " + bounds + out->entry + "(" + params.declared + maps + last +
               ") {\n" + calls + "}\n";
  out->grid = static_cast<uint32_t>(blocks);
  return Status::Ok();
}

// Whether the kernel should be launched while the one before it still runs. A short kernel gains by it. A
// long one may lose: its blocks gather on the few multiprocessors that are already free, if they have little
// shared memory and many fit on one. With long group norms launched so, the run of an image decoder took 1.7
// times as long (tools/bench/results/peers.md). Matmuls, convolutions and attention fill a multiprocessor.
bool GainsByBeginningEarly(const std::vector<PartPlan>& plans, const std::vector<PartText>& parts) {
  constexpr int64_t kLong = 1 << 15;  // points of a block: some 8 us
  for (size_t k = 0; k < parts.size(); ++k) {
    const Part& part = plans[k].context.part;
    const bool streams = part.skeleton == Skeleton::kMap || part.skeleton == Skeleton::kReduction;
    const int64_t points = plans[k].context.Points(0, part.loops.size());
    if (streams && points / std::max<int64_t>(1, parts[k].launch.blocks) > kLong) return false;
  }
  return true;
}

}  // namespace

Result<KernelText> WriteKernelText(const Kernel& kernel, const CudaTarget& target,
                                   Span<const cuda::ParamFacts> params) {
  KernelText out;
  out.entry = EntryName(kernel);
  const std::vector<PartPlan> plans = cuda::PlanParts(kernel, target, params);
  RONDO_ASSIGN_OR_RETURN(const std::vector<PartText> parts, WriteParts(kernel, plans));
  std::set<std::string> headers;
  for (const PartText& part : parts) headers.insert(part.headers.begin(), part.headers.end());
  for (const std::string& header : headers) out.text += IncludeLine(header);
  if (const PartPlan* largest = cuda::LargestChoice(plans)) out.configuration = largest->configuration();
  RONDO_RETURN_IF_ERROR(WriteEntry(kernel, parts, &out));
  out.waits = target.dependent_launch() && GainsByBeginningEarly(plans, parts);
  return out;
}

}  // namespace rondo
