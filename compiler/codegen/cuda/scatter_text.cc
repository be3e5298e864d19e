// Maps whose writes may coincide. Where only the data decides who meets whom, a point writes unless a later
// one writes to the same place; else a thread takes all points that can meet, in their order.
#include <algorithm>
#include <cstdlib>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

// Something that moves an operand's address: in steps of `stride`, `extent` of them.
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

}  // namespace

// Loops whose points write to different places whatever the others and the data are: no index moves with
// them, and their steps do not overlap with anything else that moves the address.
std::vector<size_t> PartText::IndependentLoops() const {
  std::vector<bool> independent(part_.loops.size(), true);
  for (const Operand& write : part_.operands) {
    if (write.mode == Mode::kRead) continue;
    if (!write.guards.empty()) return {};
    std::vector<Mover> movers;
    for (size_t l = 0; l < part_.loops.size(); ++l) {
      if (part_.loops[l] == 1) continue;
      if (write.strides[l] == 0) independent[l] = false;
      if (write.strides[l] != 0) movers.push_back({std::abs(write.strides[l]), part_.loops[l]});
      for (const Indirect& indirect : write.indirects)
        independent[l] = independent[l] && part_.operands[indirect.operand].strides[l] == 0;
    }
    for (const Indirect& indirect : write.indirects)
      movers.push_back({std::abs(indirect.stride), indirect.extent});
    if (!NeverMeet(movers)) return {};
    // What is read of the written memory must be the very element that is written.
    for (const Operand& read : part_.operands) {
      bool same = std::equal(read.strides.begin(), read.strides.end(), write.strides.begin()) &&
                  read.offset == write.offset && read.indirects.size() == write.indirects.size();
      if (read.param == write.param && !same) return {};
    }
  }
  std::vector<size_t> loops;
  for (size_t l = 0; l < part_.loops.size(); ++l) {
    if (independent[l]) loops.push_back(l);
  }
  return loops;
}

// Whether points of the other loops meet exactly where all their indices are equal, and none sees what
// another wrote.
bool PartText::MeetByIndexOnly(const std::vector<size_t>& ordered) const {
  for (const Operand& write : part_.operands) {
    if (write.mode == Mode::kReadWrite) return false;
    if (write.mode != Mode::kWrite) continue;
    if (write.indirects.empty()) return false;
    // Two indices that count from different ends can be equal.
    for (const Indirect& indirect : write.indirects) {
      if (indirect.wrap) return false;
    }
    for (size_t l : ordered) {
      if (write.strides[l] != 0) return false;
    }
    for (const Operand& read : part_.operands) {
      if (read.mode == Mode::kRead && read.param == write.param) return false;
    }
  }
  return true;
}

// auto same = [&](p, q) -> bool: whether two points of the ordered loops have equal indices.
void PartText::WriteSameIndex(const std::vector<size_t>& ordered, const std::vector<size_t>& independent) {
  std::vector<size_t> indices;
  for (const Operand& write : part_.operands) {
    if (write.mode == Mode::kRead) continue;
    for (const Indirect& indirect : write.indirects) {
      if (std::find(indices.begin(), indices.end(), indirect.operand) == indices.end())
        indices.push_back(indirect.operand);
    }
  }
  std::string all = "true";
  for (size_t index : indices) {
    const std::string name = "index" + std::to_string(index);
    Line("auto " + name + " = [&](u32 at) -> i64 {");
    DecodeLoops("at", ordered);
    ZeroLoops(independent);
    Load(index, "value");
    Line("return value; };");
    all += " && " + name + "(p) == " + name + "(q)";
  }
  Line("auto same = [&](u32 p, u32 q) { return " + all + "; };");
}

// Blocks of 256 points of the independent loops, one point of the ordered loops each. Whether a later point
// has the same indices, a block finds out together.
Status PartText::LastWriterMap(const std::vector<size_t>& ordered, const std::vector<size_t>& independent) {
  int64_t rows = 1, points = 1;
  for (size_t l : ordered) rows *= part_.loops[l];
  for (size_t l : independent) points *= part_.loops[l];
  const int64_t blocks = (points + kCudaBlock - 1) / kCudaBlock;
  const std::string row_count = std::to_string(rows);
  Line("const u32 row = block / " + std::to_string(blocks) + "u, point = block % " + std::to_string(blocks) +
       "u * 256 + threadIdx.x;");
  WriteSameIndex(ordered, independent);
  Line("bool later = false;");
  Line("for (u32 other = row + 1 + threadIdx.x; other < " + row_count +
       "u; other += 256) later = later || same(row, other);");
  Line("if (__syncthreads_or(later) || point >= " + std::to_string(points) + "u) return;");
  DecodeLoops("row", ordered);
  DecodeLoops("point", independent);
  WriteTape(part_.body, "r");
  return SetBlocks(rows * blocks);
}

Status PartText::SequentialMap() {
  const std::vector<size_t> independent = IndependentLoops();
  std::vector<size_t> rest;
  for (size_t l = 0; l < part_.loops.size(); ++l) {
    if (std::find(independent.begin(), independent.end(), l) == independent.end()) rest.push_back(l);
  }
  int64_t points = 1, rows = 1;
  for (size_t l : rest) rows *= part_.loops[l];
  constexpr int64_t kFewRows = 1 << 16;  // each looks at all later ones
  if (!independent.empty() && rows <= kFewRows && MeetByIndexOnly(rest))
    return LastWriterMap(rest, independent);
  for (size_t l : independent) points *= part_.loops[l];
  Line("const u64 point = (u64)block * 256 + threadIdx.x;");
  Line("if (point >= " + std::to_string(points) + "ull) return;");
  DecodeLoops("point", independent);
  for (size_t l : rest) Open(l, l + 1);
  WriteTape(part_.body, "r");
  Close(rest.size());
  return SetBlocks((points + kCudaBlock - 1) / kCudaBlock);
}

}  // namespace rondo::cuda
