#include "formats/machine_code/binary_check.h"

#include <algorithm>
#include <cinttypes>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/machine_code/architecture.h"
#include "formats/machine_code/binary_digest.h"
#include "formats/machine_code/cubin.h"
#include "formats/machine_code/kernel_params.h"
#include "formats/machine_code/ptx.h"

namespace rondo {
namespace {

constexpr uint32_t kMapBytes = sizeof(cuda::TensorMapParam), kAddressBytes = 8;

// The bytes of each parameter of a function.
template <typename... Params>
std::vector<uint32_t> SizesOf(void (*)(Params...)) {
  return {static_cast<uint32_t>(sizeof(Params))...};
}

// The parsed code: one of the two.
struct ReadCode {
  std::optional<Cubin> cubin;
  std::optional<Ptx> ptx;
  int architecture() const { return cubin ? cubin->architecture() : ptx->architecture(); }
  Result<FunctionNeeds> Function(std::string_view entry) const {
    return cubin ? cubin->Function(entry) : ptx->Function(entry);
  }
};

Result<ReadCode> Read(Span<const uint8_t> bytes, const CodeArchitecture& of) {
  ReadCode code;
  if (of.ptx) {
    RONDO_ASSIGN_OR_RETURN(code.ptx, Ptx::Read(bytes));
  } else {
    RONDO_ASSIGN_OR_RETURN(code.cubin, Cubin::Read(bytes));
  }
  if (code.architecture() != of.number)
    return Status::Error(Code::kCorrupt, "it is for sm_%d", code.architecture());
  return code;
}

// The most shared memory in bytes of a block on the best GPU that can run the module's code.
uint64_t MostSharedOf(const CodeArchitecture& architecture) {
  uint32_t most = 0;
  for (const GpuGeneration& generation : GpuGenerations()) {
    if (RunsOn(architecture, generation.capability)) most = std::max(most, generation.shared);
  }
  return most != 0 ? most : 227 << 10;
}

// Compares the parameters with those that the driver passes (kernel_params.h).
Status CheckParams(const FunctionNeeds& needs, uint32_t addresses, size_t maps) {
  std::vector<uint32_t> passed(addresses, kAddressBytes);
  passed.insert(passed.end(), maps, kMapBytes);
  const std::vector<uint32_t> tail = SizesOf(static_cast<void (*)(KERNEL_TAIL)>(nullptr));
  passed.insert(passed.end(), tail.begin(), tail.end());
  if (needs.params.size() != passed.size()) {
    return Status::Error(
        Code::kCorrupt,
        "it takes %zu parameters, but a launch passes %zu: %u addresses, %zu tensor maps, the "
        "fault record and the step",
        needs.params.size(), passed.size(), addresses, maps);
  }
  for (size_t p = 0; p < passed.size(); ++p) {
    if (needs.params[p] == passed[p]) continue;
    return Status::Error(Code::kCorrupt, "its parameter %zu has %u bytes, but a launch passes %u", p,
                         needs.params[p], passed[p]);
  }
  return Status::Ok();
}

class Checker {
 public:
  Checker(const PlanData& plan, const CodeModule& module) : plan_(plan), module_(module) {}

  Status Check(bool alternatives) {
    const std::optional<CodeArchitecture> architecture = ParseArchitecture(module_.architecture);
    if (!architecture)
      return Status::Error(Code::kUnsupported, "the architecture is unknown").At("%s", Name());
    architecture_ = *architecture;
    for (size_t c = 0; c < module_.codes.size(); ++c) {
      Result<ReadCode> code = Read(module_.codes[c], architecture_);
      if (!code.ok()) return code.status().At("%s, code %zu", Name(), c);
      codes_.push_back(code.Take());
    }
    digests_ = CodeDigests(module_);
    for (uint32_t k = 0; k < module_.binaries.size(); ++k)
      RONDO_RETURN_IF_ERROR(Located(CheckBinary(k, module_.binaries[k]), k, ""));
    if (!alternatives) return Status::Ok();
    for (const KernelAlternative& other : module_.alternatives) {
      const std::string what = ", alternative \"" + std::string(other.choice) + "\"";
      RONDO_RETURN_IF_ERROR(Located(CheckBinary(other.kernel, other.binary), other.kernel, what.c_str()));
    }
    return Status::Ok();
  }

 private:
  const char* Name() {
    name_ = "module " + std::string(module_.architecture);
    return name_.c_str();
  }

  // The error with the kernel's name and the node of its first step.
  Status Located(const Status& status, uint32_t kernel, const char* what) {
    if (status.ok()) return status;
    const std::string_view name = plan_.kernels[kernel].name;
    const Status at = status.At("%s, kernel %u \"%.*s\"%s", Name(), kernel, static_cast<int>(name.size()),
                                name.data(), what);
    for (const Program& program : plan_.programs) {
      for (const Step& step : program.steps) {
        if (step.kind != StepKind::kLaunch || step.kernel != kernel || step.source >= plan_.sources.size())
          continue;
        const std::string_view source = plan_.sources[step.source];
        return at.At("%.*s", static_cast<int>(source.size()), source.data()).FromNode(source);
      }
    }
    return at;
  }

  Status CheckBinary(uint32_t kernel, const KernelBinary& binary) {
    if (binary.digest == 0) {
      return Status::Error(Code::kCorrupt,
                           "its binary has no digest of what it was compiled from: compile the plan again");
    }
    if (binary.kind == BinaryKind::kFunction) RONDO_RETURN_IF_ERROR(CheckFunction(kernel, binary));
    const uint64_t digest = BinaryDigest(plan_.kernels[kernel], module_, binary, digests_);
    if (digest == binary.digest) return Status::Ok();
    return Status::Error(
        Code::kCorrupt,
        "contract, code and launch are not those that were compiled: their digest is %016" PRIx64
        ", the plan says %016" PRIx64,
        digest, binary.digest);
  }

  Status CheckFunction(uint32_t kernel, const KernelBinary& binary) const {
    const Result<FunctionNeeds> needs = codes_[binary.code].Function(binary.entry);
    Status status = needs.status();
    if (status.ok())
      status = CheckParams(*needs, plan_.kernels[kernel].num_params, binary.tensor_maps.size());
    if (status.ok()) {
      status = FitsBlock(*needs, binary.block == 0 ? module_.block : binary.block, binary.shared,
                         MostSharedOf(architecture_) + Reserved());
    }
    if (status.ok() && needs->cluster > 1 && binary.grid % needs->cluster != 0) {
      status = Status::Error(Code::kCorrupt, "%u blocks are launched in clusters of %u", binary.grid,
                             needs->cluster);
    }
    return status.At("function \"%.*s\" of code %u",
                     static_cast<int>(std::min<size_t>(binary.entry.size(), 200)), binary.entry.data(),
                     binary.code);
  }

  // From sm_90 on, a function's declared size includes 1 KiB that each block reserves.
  uint64_t Reserved() const { return architecture_.number >= 90 && !architecture_.ptx ? 1024 : 0; }

  const PlanData& plan_;
  const CodeModule& module_;
  std::string name_;
  CodeArchitecture architecture_;
  std::vector<ReadCode> codes_;
  std::vector<uint64_t> digests_;
};

}  // namespace

Status FitsBlock(const FunctionNeeds& needs, uint32_t threads, uint32_t shared, uint64_t most_shared) {
  constexpr uint64_t kRegisters = 65536, kWarp = 32, kStep = 8;  // of a block; given to warps in steps
  if (needs.most_threads != 0 && threads > needs.most_threads)
    return Status::Error(Code::kCorrupt, "%u threads a block are launched; it is made for at most %u",
                         threads, needs.most_threads);
  if (needs.exact_threads != 0 && threads != needs.exact_threads)
    return Status::Error(Code::kCorrupt, "%u threads a block are launched; it is made for %u", threads,
                         needs.exact_threads);
  const uint64_t warps = (threads + kWarp - 1) / kWarp;
  const uint64_t registers = (uint64_t{needs.registers} + kStep - 1) / kStep * kStep * kWarp * warps;
  if (registers > kRegisters)
    return Status::Error(Code::kCorrupt,
                         "%u threads with %u registers each need more than a block's %" PRIu64, threads,
                         needs.registers, kRegisters);
  if (uint64_t{needs.shared} + shared > most_shared)
    return Status::Error(
        Code::kCorrupt,
        "%u + %u bytes of shared memory, declared and given, are more than a block's %" PRIu64, needs.shared,
        shared, most_shared);
  return Status::Ok();
}

Status CheckBinaries(const PlanData& plan, const CodeModule& module, bool alternatives) {
  try {  // containers of the standard library; drivers, which are compiled without exceptions, come through
         // here
    return Checker(plan, module).Check(alternatives);
  } catch (const std::bad_alloc&) {
    return Status::Error(Code::kOutOfMemory, "no host memory to look at the machine code of %zu kernels",
                         plan.kernels.size());
  }
}

}  // namespace rondo
