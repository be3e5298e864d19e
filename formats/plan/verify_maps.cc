#include <cinttypes>

#include "formats/plan/verifier.h"
#include "formats/plan/verify_internal.h"

namespace rondo::plan {
namespace {

// One function for all messages: the code for each would be as long as the check.
[[gnu::noinline]] Status Broken(const char* what, uint64_t value, uint64_t least, uint64_t most) {
  return RONDO_BROKEN("%s %" PRIu64 " is not within %" PRIu64 " to %" PRIu64
                      ", or no multiple of 16 (alignments: no power of two)",
                      what, value, least, most);
}

constexpr uint32_t kMostThreads = 1024;  // of a block

// The limits of cuTensorMapEncodeTiled.
Status VerifyMap(const TensorMap& map, Span<ByteRange> params) {
  constexpr uint64_t kMostExtent = uint64_t{1} << 32, kMostStride = uint64_t{1} << 40, kAlignment = 16;
  constexpr uint32_t kMostBox = 256, kMostSwizzle = 128;
  if (map.param >= params.size()) return Broken("parameter", map.param, 0, params.size() - 1);
  static_assert(static_cast<int>(DType::kF32) == 0 && static_cast<int>(DType::kBF16) == 2);
  if (map.dtype > DType::kBF16) return Broken("dtype", static_cast<uint64_t>(map.dtype), 0, 2);
  if (map.rank - 1 >= kMaxTensorMapRank) return Broken("rank", map.rank, 1, kMaxTensorMapRank);
  const uint64_t size = static_cast<uint64_t>(ByteSize(map.dtype));
  uint64_t bytes = size;
  for (uint32_t d = 0; d < map.rank; ++d) {
    if (map.extents[d] - 1 >= kMostExtent) return Broken("extent", map.extents[d], 1, kMostExtent);
    if (map.box[d] - 1 >= kMostBox) return Broken("box", map.box[d], 1, kMostBox);
    const uint64_t stride = d == 0 ? size : map.strides[d - 1];
    if (d > 0 && (stride - 1 >= kMostStride - 1 || stride % kAlignment != 0))
      return Broken("stride", stride, kAlignment, kMostStride);
    // An out-of-bounds `bytes` stays out of bounds.
    uint64_t reach;
    if (__builtin_mul_overflow(stride, map.extents[d] - 1, &reach) || reach > kMaxRegionBytes)
      reach = kMaxRegionBytes;
    bytes += reach;
  }
  const uint32_t swizzle = map.swizzle;
  const uint64_t line = map.box[0] * size, most_line = swizzle == 0 ? kMostBox * size : swizzle;
  if (swizzle > kMostSwizzle || swizzle % 32 != 0 || swizzle == 96)
    return Broken("swizzle", swizzle, 0, kMostSwizzle);
  if (line > most_line || line % kAlignment != 0)
    return Broken("bytes of a box's line,", line, kAlignment, most_line);
  const ByteRange& range = params[map.param];
  const uint64_t first = static_cast<uint64_t>(range.first), end = static_cast<uint64_t>(range.end);
  if (map.offset < first || map.offset > end || map.offset % kAlignment != 0)
    return Broken("offset", map.offset, first, end);
  if (bytes > end - map.offset) return Broken("bytes", bytes, size, end - map.offset);
  return Status::Ok();
}

// Each parameter must meet the alignment that the kernel's binaries rely on.
Status VerifyAssumptions(Span<const uint32_t> assumes, Span<ByteRange> params) {
  constexpr uint32_t kMost = 4096;  // alignment of regions
  if (!assumes.empty() && assumes.size() != params.size())
    return Broken("count of what it relies on,", assumes.size(), params.size(), params.size());
  for (size_t p = 0; p < assumes.size(); ++p) {
    const uint32_t alignment = assumes[p] & ~kAssumesConstant;
    if (alignment - 1 >= kMost || (alignment & (alignment - 1)) != 0)
      return Broken("alignment", alignment, 1, kMost);
    if (alignment > params[p].element) params[p].element = alignment;
    params[p].constant |= assumes[p] != alignment;
  }
  return Status::Ok();
}

}  // namespace

Status VerifyBinaries(const PlanData& plan, const KernelRanges& ranges) {
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    for (size_t i = 0; i < NumBinaries(plan.modules[m]); ++i) {
      const KernelBinary& binary = BinaryAt(plan.modules[m], i);
      const size_t k = KernelOfBinary(plan.modules[m], i);
      const Span<ByteRange> params = ranges.ranges.subspan(ranges.first_range[k], plan.kernels[k].num_params);
      Status status = VerifyAssumptions(binary.assumes, params);
      if (binary.block > kMostThreads) status = Broken("threads a block,", binary.block, 0, kMostThreads);
      for (size_t t = 0; t < binary.tensor_maps.size() && status.ok(); ++t) {
        status = VerifyMap(binary.tensor_maps[t], params);
        if (!status.ok()) status = status.At("tensor map %zu", t);
      }
      if (!status.ok()) return status.At("module %zu: the binary of kernel %zu", m, k);
    }
  }
  return Status::Ok();
}

}  // namespace rondo::plan
