// Maps whose writes may coincide and that last_writer_map.cc cannot run: one thread computes all points that
// can collide, in order.
#include <algorithm>
#include <cstdlib>

#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

// A loop or index that moves an operand's address, in `extent` steps of `stride`.
struct Mover {
  int64_t stride, extent;
};

// Whether no two combinations of the movers lead to one address.
bool NeverMeet(std::vector<Mover> movers) {
  std::sort(movers.begin(), movers.end(), [](const Mover& a, const Mover& b) { return a.stride < b.stride; });
  int64_t reach = 0;
  for (const Mover& mover : movers) {
    if (mover.stride <= reach) return false;
    reach += mover.stride * (mover.extent - 1);
  }
  return true;
}

// Loops whose points write different places whatever the others and the data are: no index moves with them,
// and their steps do not overlap with anything else that moves the address.
std::vector<size_t> IndependentLoops(const PartContext& context) {
  const Part& part = context.part;
  std::vector<bool> independent(part.loops.size(), true);
  for (const Operand& write : part.operands) {
    if (write.mode == Mode::kRead) continue;
    if (!write.guards.empty()) return {};
    std::vector<Mover> movers;
    for (size_t l = 0; l < part.loops.size(); ++l) {
      if (part.loops[l] == 1) continue;
      if (write.strides[l] == 0) independent[l] = false;
      if (write.strides[l] != 0) movers.push_back({std::abs(write.strides[l]), part.loops[l]});
      for (const Indirect& indirect : write.indirects)
        independent[l] = independent[l] && part.operands[indirect.operand].strides[l] == 0;
    }
    for (const Indirect& indirect : write.indirects)
      movers.push_back({std::abs(indirect.stride), indirect.extent});
    if (!NeverMeet(movers)) return {};
    // A read of the written memory must be exactly the written element.
    for (const Operand& read : part.operands) {
      bool same = std::equal(read.strides.begin(), read.strides.end(), write.strides.begin()) &&
                  read.offset == write.offset && read.indirects.size() == write.indirects.size();
      if (read.param == write.param && !same) return {};
    }
  }
  std::vector<size_t> loops;
  for (size_t l = 0; l < part.loops.size(); ++l) {
    if (independent[l]) loops.push_back(l);
  }
  return loops;
}

Result<PartLaunch> WriteOrdered(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const std::vector<size_t> independent = IndependentLoops(context);
  std::vector<size_t> rest;
  for (size_t l = 0; l < part.loops.size(); ++l) {
    if (std::find(independent.begin(), independent.end(), l) == independent.end()) rest.push_back(l);
  }
  int64_t points = 1;
  for (size_t l : independent) points *= part.loops[l];
  writer->Line("const u64 point = (u64)block * kBlockThreads + threadIdx.x;");
  writer->Line("if (point >= " + Text(points) + "ull) return;");
  writer->DecodeLoops("point", independent);
  for (size_t l : rest) writer->Open(l, l + 1);
  writer->WriteTape(part.body, "r");
  writer->Close(rest.size());
  return WithBlocks((points + kCudaBlock - 1) / kCudaBlock);
}

bool Suits(const PartContext& context) { return context.part.sequential; }

}  // namespace

constinit const KernelVariant kOrderedMap = {
    VariantId::kAny, {}, OneCandidate<VariantId::kAny, Suits>, WriteOrdered};

}  // namespace rondo::cuda
