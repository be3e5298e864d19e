#include "drivers/nccl/group.h"

#include <atomic>
#include <cstdlib>

namespace rondo::nccl {
namespace {

constexpr int kSharedGpus = Version(2, 30);  // the first version that allows several ranks on a GPU
constexpr char kShare[] = "NCCL_MULTI_RANK_GPU_ENABLE";
// Of a collective's kernel: the blocks of all ranks must be resident at once.
constexpr int kBlocksOnSharedGpu = 2;

// NCCL uses multicast over NVLink where possible, which hangs some machines. NCCL's configuration has no
// field for it.
Status AskedAboutMulticast(size_t ranks) {
  if (ranks < 2 || std::getenv("NCCL_NVLS_ENABLE") != nullptr) return Status::Ok();
  return Status::Error(
      Code::kFailedPrecondition,
      "NCCL_NVLS_ENABLE is not in the environment: a program that has %zu GPUs work together sets it "
      "to 0 (no multicast over NVLink, which hangs some machines) or to 1",
      ranks);
}

bool SameGpu(const RankPlace& a, const RankPlace& b) {
  return a.process == b.process ? a.device == b.device : a.gpu != 0 && a.gpu == b.gpu;
}

// Finds two ranks on one GPU and returns the second one's number; 0 if there are none.
size_t SharedBy(Span<const RankPlace> ranks, size_t* first) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    for (*first = 0; *first < rank; ++*first) {
      if (SameGpu(ranks[*first], ranks[rank])) return rank;
    }
  }
  return 0;
}

// Parses the value as NCCL does.
bool AsksToShare() {
  const char* text = std::getenv(kShare);
  return text != nullptr && std::strtoll(text, nullptr, 0) != 0;
}

// Whether NCCL was asked to share GPUs. NCCL reads the variable once for each process, at its first
// connection, which is this one or an earlier one.
bool AskedToShare() {
  static std::atomic<int> found{-1};
  int unknown = -1;
  found.compare_exchange_strong(unknown, AsksToShare() ? 1 : 0);
  return found.load() == 1;
}

// Whether ranks `first` and `second` may share their GPU.
Status MayShare(const Api& api, size_t first, size_t second, uint32_t gpu) {
  if (const int version = VersionOf(api); version < kSharedGpus) {
    return Status::Error(
        Code::kUnsupported,
        "ranks %zu and %zu are both on GPU %u, which takes NCCL 2.30 or newer; %s is %s: put "
        "the folder of a newer libnccl.so.2 first in --library-path (or LD_LIBRARY_PATH)",
        first, second, gpu, FileOf(api), VersionText(version).text);
  }
  if (!AsksToShare()) {
    return Status::Error(
        Code::kFailedPrecondition,
        "ranks %zu and %zu are both on GPU %u: a program that has several of a plan's devices "
        "on one GPU sets %s to 1 in its environment before it makes the first session",
        first, second, gpu, kShare);
  }
  return Status::Ok();
}

}  // namespace

Status CanConnect(const Api& api, Span<const RankPlace> ranks) {
  RONDO_RETURN_IF_ERROR(AskedAboutMulticast(ranks.size()));
  size_t first = 0;
  const size_t second = SharedBy(ranks, &first);
  return second != 0 ? MayShare(api, first, second, ranks[second].device) : Status::Ok();
}

Status CheckGroup(const Api& api, Span<const RankPlace> ranks) {
  RONDO_RETURN_IF_ERROR(CanConnect(api, ranks));
  size_t first = 0;
  if (ranks.size() < 2 || AskedToShare() || SharedBy(ranks, &first) == 0) return Status::Ok();
  return Status::Error(Code::kFailedPrecondition,
                       "%s was not in the environment when ranks of this process were first connected: NCCL "
                       "looks only then, so set it when the process begins",
                       kShare);
}

Config ConfigOf(Span<const RankPlace> ranks) {
  Config config;
  config.graph_usage = kGraphsOnly;
  size_t first = 0;
  if (SharedBy(ranks, &first) != 0) config.most_blocks = kBlocksOnSharedGpu;
  return config;
}

}  // namespace rondo::nccl
