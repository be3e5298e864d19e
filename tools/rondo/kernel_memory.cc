#include "tools/rondo/kernel_memory.h"

#include <algorithm>
#include <numeric>

#include "core/scalar.h"
#include "core/synthetic.h"
#include "formats/plan/access.h"
#include "formats/plan/elements.h"
#include "tools/rondo/plan_texts.h"

namespace rondo::tools {
namespace {

constexpr uint64_t kCanaryBytes = 4096;  // on each side of a region
constexpr uint64_t kMostAlignment = 256;
constexpr size_t kPattern = 65521;  // period of the random values: a prime, so that rows differ

uint64_t Hash(uint64_t a, uint64_t b) { return SyntheticMix(a * 0x9e3779b97f4a7c15ull + b); }

// Every aligned pair of bytes is 0xff81 to 0xffff: NaN as f16, bf16, and as part of an f32 or f64.
uint8_t Canary(uint64_t at) { return at % 2 != 0 ? 0xff : static_cast<uint8_t>(0x81 | SyntheticMix(at)); }

// --------------------------------------------------------------------------------------------- layout

// Bytes that a parameter's operands reach, counted from its bound address.
struct Extent {
  int64_t first = 0, end = 0;
  bool empty() const { return first >= end; }
};

std::vector<Extent> ExtentsOf(const Kernel& kernel) {
  std::vector<Extent> extents(kernel.num_params);
  if (kernel.workspace_param != kNoOperand)
    extents[kernel.workspace_param] = {0, static_cast<int64_t>(kernel.workspace_bytes)};
  for (const Part& part : kernel.parts) {
    for (const Operand& operand : part.operands) {
      ElementRange range;
      if (!Reach(part, operand, &range) || range.empty()) continue;
      Extent& extent = extents[operand.param];
      const int64_t size = ByteSize(operand.dtype);
      const Extent more{range.first * size, range.end * size};
      extent =
          extent.empty() ? more : Extent{std::min(extent.first, more.first), std::max(extent.end, more.end)};
    }
  }
  return extents;
}

struct Region {
  int space = 0;                                   // bindings in different spaces never overlap
  uint64_t first = 0, end = 0;                     // in that space
  uint64_t alignment = kMostAlignment, phase = 0;  // the first byte's address is `phase` modulo `alignment`
  uint64_t place = 0;                              // in the block
};

// The place of a parameter in the plan's memory (in the first launch), and its alignment in all launches.
struct Bound {
  int space = 0;
  uint64_t address = 0;
  uint64_t alignment = kMostAlignment;
};

std::vector<Bound> BoundsOf(const PlanData& plan, uint32_t kernel) {
  std::vector<Bound> bounds(plan.kernels[kernel].num_params);
  // Parameters that no step binds have separate spaces.
  for (size_t p = 0; p < bounds.size(); ++p) bounds[p] = {3 + static_cast<int>(p), uint64_t{1} << 32};
  bool first = true;
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kLaunch || step.kernel != kernel) continue;
      for (size_t p = 0; p < bounds.size() && p < step.bindings.size(); ++p) {
        const Buffer& buffer = plan.buffers[step.bindings[p].buffer];
        const uint64_t offset = step.bindings[p].offset;
        if (first) {
          bounds[p].space = LivesInArena(buffer.kind) ? 0 : buffer.kind == BufferKind::kConstant ? 1 : 2;
          bounds[p].address = buffer.offset + offset;
          if (buffer.kind == BufferKind::kConstant) {  // those of different sources may have equal offsets
            bounds[p].space = 3 + static_cast<int>(bounds.size() + step.bindings[p].buffer);
          }
        }
        bounds[p].alignment =
            std::min<uint64_t>(bounds[p].alignment, std::max<uint32_t>(1, buffer.alignment));
        const uint64_t places = offset | static_cast<uint64_t>(step.bindings[p].stride);
        while (places % bounds[p].alignment != 0) bounds[p].alignment /= 2;
      }
      first = false;
    }
  }
  return bounds;
}

// Joins overlapping regions and places them with canaries around each. Returns the block's bytes.
uint64_t Place(std::vector<Region>* regions) {
  std::sort(regions->begin(), regions->end(), [](const Region& a, const Region& b) {
    return a.space != b.space ? a.space < b.space : a.first < b.first;
  });
  std::vector<Region> merged;
  for (const Region& region : *regions) {
    Region* last = merged.empty() ? nullptr : &merged.back();
    if (last == nullptr || last->space != region.space || region.first >= last->end) {
      merged.push_back(region);
      continue;
    }
    last->end = std::max(last->end, region.end);
    last->alignment = kMostAlignment;  // keeps both at their distance in the plan's memory
    last->phase = last->first % kMostAlignment;
  }
  uint64_t at = kCanaryBytes;
  for (Region& region : merged) {
    const uint64_t twice = region.alignment * 2;
    // Aligned exactly as promised.
    const uint64_t phase =
        region.alignment == kMostAlignment ? region.phase : region.phase + region.alignment;
    at += (phase % twice + twice - at % twice) % twice;
    region.place = at;
    at += region.end - region.first + kCanaryBytes;
  }
  *regions = merged;
  return at;
}

void Layout(const PlanData& plan, uint32_t kernel, KernelMemory* memory) {
  const std::vector<Extent> extents = ExtentsOf(plan.kernels[kernel]);
  const std::vector<Bound> bounds = BoundsOf(plan, kernel);
  std::vector<Region> regions;
  for (size_t p = 0; p < extents.size(); ++p) {
    if (extents[p].empty()) continue;
    Region region;
    region.space = bounds[p].space;
    region.first = bounds[p].address + static_cast<uint64_t>(extents[p].first);
    region.end = bounds[p].address + static_cast<uint64_t>(extents[p].end);
    region.alignment = bounds[p].alignment;
    region.phase = static_cast<uint64_t>(extents[p].first) % region.alignment;
    regions.push_back(region);
  }
  memory->bytes.resize(Place(&regions));
  for (uint64_t at = 0; at < memory->bytes.size(); ++at) memory->bytes[at] = Canary(at);
  for (size_t p = 0; p < extents.size(); ++p) {
    uint64_t place = kCanaryBytes;  // for a parameter that no operand reaches
    for (const Region& region : regions) {
      const uint64_t first = bounds[p].address + static_cast<uint64_t>(extents[p].first);
      if (extents[p].empty() || region.space != bounds[p].space || first < region.first ||
          first >= region.end)
        continue;
      place = region.place + (first - region.first) - static_cast<uint64_t>(extents[p].first);
    }
    memory->places.push_back(place);
  }
}

// --------------------------------------------------------------------------------------------- values

// Floats are multiples of 1/16 in [-1, 1]. Sums of their products are exact in f32 in any order, so the
// tiling of a matmul does not change its result.
std::vector<uint8_t> PatternOf(DType dtype, uint64_t seed) {
  std::vector<uint8_t> pattern(kPattern * static_cast<size_t>(ByteSize(dtype)));
  for (size_t i = 0; i < kPattern; ++i) {
    const uint64_t random = Hash(seed, i) >> 20;
    const int64_t at = static_cast<int64_t>(i);
    if (IsFloat(dtype)) {
      scalar::Store<double>(dtype, pattern.data(), at, (static_cast<double>(random % 33) - 16) / 16);
    } else {
      const bool is_signed = dtype <= DType::kI8;
      const int64_t value = dtype == DType::kBool ? random % 4 != 0
                            : is_signed           ? static_cast<int64_t>(random % 33) - 16
                                                  : static_cast<int64_t>(random % 17);
      scalar::Store<int64_t>(dtype, pattern.data(), at, value);
    }
  }
  return pattern;
}

// Fills the bytes that the operand reads. Canaries stay in the gaps if its elements are known before the run.
void FillOperand(const Part& part, uint16_t index, uint64_t seed, KernelMemory* memory) {
  const Operand& operand = part.operands[index];
  ElementRange range;
  if (!Reach(part, operand, &range) || range.empty()) return;
  const uint64_t size = static_cast<uint64_t>(ByteSize(operand.dtype));
  const std::vector<uint8_t> pattern = PatternOf(operand.dtype, seed + operand.param);
  uint8_t* base = memory->bytes.data() + memory->places[operand.param];
  const auto fill = [&](int64_t first, int64_t end) {
    while (first < end) {
      const int64_t within = ((first % static_cast<int64_t>(kPattern)) + static_cast<int64_t>(kPattern)) %
                             static_cast<int64_t>(kPattern);
      const int64_t count = std::min(end - first, static_cast<int64_t>(kPattern) - within);
      std::memcpy(base + first * static_cast<int64_t>(size),
                  pattern.data() + static_cast<uint64_t>(within) * size, static_cast<uint64_t>(count) * size);
      first += count;
    }
  };
  int64_t points = 1;
  const LoopMask depends = DependsOn(part, operand, true);
  for (size_t d = 0; d < part.loops.size(); ++d) {
    if ((depends >> d & 1) != 0) points *= part.loops[d];
  }
  if (!operand.indirects.empty() || !operand.guards.empty() || points >= range.end - range.first) {
    return fill(range.first, range.end);
  }
  const int64_t place = static_cast<int64_t>(memory->places[operand.param]);
  ForEachElement(*memory, part, index, [&](uint64_t at, const int64_t*) {
    const int64_t element = (static_cast<int64_t>(at) - place) / static_cast<int64_t>(size);
    fill(element, element + 1);
  });
}

// The requirements on one parameter's integers that are indices.
struct IndexRule {
  bool indexes = false, limits = false;
  int64_t extent = INT64_MAX;
  bool wrap = true;       // every use allows negative indices
  bool fault = false;     // some use reports indices out of range
  bool distinct = false;  // a write by parallel points depends on it
};

std::vector<IndexRule> RulesOf(const Kernel& kernel) {
  std::vector<IndexRule> rules(kernel.num_params);
  for (const Part& part : kernel.parts) {
    for (const Operand& operand : part.operands) {
      for (const Indirect& indirect : operand.indirects) {
        IndexRule& rule = rules[part.operands[indirect.operand].param];
        rule.indexes = true;
        rule.extent = std::min(rule.extent, indirect.extent);
        rule.wrap &= indirect.wrap;
        rule.fault |= indirect.fault;
        rule.distinct |= operand.mode != Mode::kRead && !part.sequential;
      }
    }
    if (part.limit == kNoOperand) continue;
    IndexRule& rule = rules[part.operands[part.limit].param];
    int64_t keys = 1;
    for (int d = 0; d < part.reduced; ++d) keys *= part.loops[static_cast<size_t>(EpilogueLoops(part) + d)];
    rule.limits = true;
    rule.extent = std::min(rule.extent, keys);
  }
  return rules;
}

// The numbers 0 to extent - 1 in random order; an extent beyond 2^22 is walked with an odd stride.
int64_t Permuted(const std::vector<int64_t>& order, uint64_t seed, int64_t element, int64_t extent) {
  if (!order.empty()) return order[static_cast<size_t>(element % extent)];
  return static_cast<int64_t>((Hash(seed, 7) % 1024 + static_cast<uint64_t>(element) * 7919) %
                              static_cast<uint64_t>(extent));
}

void FillIndices(const Part& part, uint16_t index, const IndexRule& rule, uint64_t seed, IndexValues values,
                 KernelMemory* memory) {
  const Operand& operand = part.operands[index];
  const int64_t size = ByteSize(operand.dtype), place = static_cast<int64_t>(memory->places[operand.param]);
  seed += operand.param;
  std::vector<int64_t> order;
  if (rule.distinct && rule.extent <= (1 << 22)) {
    order.resize(static_cast<size_t>(rule.extent));
    std::iota(order.begin(), order.end(), int64_t{0});
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[Hash(seed, i) % (i + 1)]);
  }
  bool first = true;
  ForEachElement(*memory, part, index, [&](uint64_t at, const int64_t*) {
    const int64_t element = (static_cast<int64_t>(at) - place) / size;
    const uint64_t random = Hash(seed, static_cast<uint64_t>(element));
    const int64_t extent = std::max<int64_t>(1, rule.extent);
    int64_t value = static_cast<int64_t>((random >> 8) % static_cast<uint64_t>(extent));
    if (rule.limits && !rule.indexes) {
      value += 1;
      if (random % 16 == 0) value = extent + 3;  // above the number of keys: all of them
    } else {
      if (rule.distinct) value = Permuted(order, seed, element, extent);
      if (rule.wrap && random % 4 == 1) value -= extent;
      if (!rule.fault && random % 8 == 2) value = (random & 64) != 0 ? extent + 3 : -extent - 1;
      if (values == IndexValues::kOneOutside && first && rule.indexes) {
        value = extent;
        memory->faults |= rule.fault;
      }
      first = false;
    }
    scalar::Store<int64_t>(operand.dtype, memory->bytes.data() + place, element, value);
  });
}

}  // namespace

KernelMemory MakeKernelMemory(const PlanData& plan, uint32_t kernel, uint64_t seed, IndexValues values) {
  KernelMemory memory;
  Layout(plan, kernel, &memory);
  const Kernel& of = plan.kernels[kernel];
  const std::vector<IndexRule> rules = RulesOf(of);
  seed = Hash(seed, kernel);
  for (const Part& part : of.parts) {
    for (uint16_t i = 0; i < part.operands.size(); ++i) {
      if (part.operands[i].mode != Mode::kWrite) FillOperand(part, i, seed, &memory);
    }
  }
  for (const Part& part : of.parts) {
    for (uint16_t i = 0; i < part.operands.size(); ++i) {
      const IndexRule& rule = rules[part.operands[i].param];
      const bool filled = part.operands[i].mode != Mode::kWrite && !IsFloat(part.operands[i].dtype);
      if (filled && (rule.indexes || rule.limits)) FillIndices(part, i, rule, seed, values, &memory);
    }
  }
  // Conditions let kernels run, except for every eighth seed.
  for (const Part& part : of.parts) {
    for (const uint16_t when : part.when) {
      const Operand& operand = part.operands[when & ~kUnless];
      const bool holds = (when & kUnless) == 0, skipped = when == part.when[0] && seed % 8 == 0;
      memory.bytes[memory.places[operand.param] + static_cast<uint64_t>(operand.offset)] = holds != skipped;
    }
  }
  return memory;
}

void ForEachElement(const KernelMemory& memory, const Part& part, uint16_t index,
                    const std::function<void(uint64_t, const int64_t*)>& place) {
  const Operand& operand = part.operands[index];
  const auto load = [&](const Operand& by, int64_t element) {
    return scalar::Load<int64_t>(by.dtype, memory.bytes.data() + memory.places[by.param], element);
  };
  rondo::ForEachElement(part, index, load, [&](int64_t element, const int64_t* point) {
    place(memory.places[operand.param] + static_cast<uint64_t>(element * ByteSize(operand.dtype)), point);
  });
}

}  // namespace rondo::tools
