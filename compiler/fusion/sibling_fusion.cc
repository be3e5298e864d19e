// Sibling fusion: independent parts into one kernel.
//
// Ops at the same depth of the dependency graph cannot depend on each other, and joining ops of one depth
// cannot make a cycle. Joins matmuls that read the same lhs (query, key and value matmuls), and maps, or
// reductions, that are too small to fill a device alone. Maps of a few numbers also join larger ones.
#include <algorithm>
#include <map>
#include <string>

#include "compiler/fusion/budget.h"
#include "compiler/fusion/context.h"

namespace rondo::fusion {

namespace {

constexpr int64_t kSmall = 64 << 10;  // points of a map or a reduction
constexpr int64_t kNumbers = 4;       // of a map that stands beside a larger one
constexpr size_t kMaxParts = 8;

int64_t Points(const Part& part) {
  int64_t n = 1;
  for (int64_t extent : part.loops) n *= extent;
  return n;
}

// Ops with the same text may be joined; "" is never joined.
std::string JoinKey(const LoweredOp& op) {
  if (op.kind != LoweredKind::kKernel) return "";
  const Part& part = op.kernel.parts[0];
  if (op.annotations.count("fuse") > 0 && op.annotations.count(kOwnerKey) == 0) return "";
  std::string on;
  for (const auto& [key, value] : op.annotations) {
    if (Binds(key, value) || key == kChunkKey || key == kOwnerKey) on += " " + key + " " + value;
  }
  if (part.skeleton == Skeleton::kMatMul) {
    const Operand& lhs = part.operands[part.lhs];
    const LoweredBinding& binding = op.params[lhs.param];
    return "matmul " + std::to_string(binding.value) + " " + std::to_string(binding.byte_offset) + on;
  }
  if (part.skeleton == Skeleton::kMap && !part.sequential) return "map" + on;
  if (part.skeleton == Skeleton::kReduction && Points(part) <= kSmall) return "reduction" + on;
  return "";
}

void Append(LoweredProgram* program, LoweredOp* to, const LoweredOp& from) {
  std::vector<Part> parts(to->kernel.parts.begin(), to->kernel.parts.end());
  uint16_t shift = static_cast<uint16_t>(to->params.size());
  for (const Part& part : from.kernel.parts) {
    Part moved = part;
    std::vector<Operand> operands(part.operands.begin(), part.operands.end());
    for (Operand& operand : operands) operand.param = static_cast<uint16_t>(operand.param + shift);
    moved.operands = program->arena->Copy(operands);
    parts.push_back(moved);
  }
  to->params.insert(to->params.end(), from.params.begin(), from.params.end());
  to->kernel.num_params = static_cast<uint16_t>(to->params.size());
  to->kernel.parts = program->arena->Copy(parts);
  to->deps.insert(to->deps.end(), from.deps.begin(), from.deps.end());
  ir::MergeSources(&to->sources, from.sources);
  to->nodes.insert(to->nodes.end(), from.nodes.begin(), from.nodes.end());
  const std::string& why = from.moves_because;
  if (!why.empty() && to->moves_because.find(why) == std::string::npos)
    to->moves_because += (to->moves_because.empty() ? "" : "; ") + why;
  for (const auto& [key, value] : from.annotations) to->annotations.emplace(key, value);
  if (to->kernel.label.empty()) to->kernel.label = from.kernel.label;
  // Another part may still read the memory that one part gives up.
  to->in_place.clear();
}

// Whether maps, whose largest two have these numbers of points, take one more: a large one only takes maps of
// a few numbers.
bool FitTogether(const Part& part, int64_t largest, int64_t second, int64_t more) {
  if (part.skeleton != Skeleton::kMap || std::max(largest, more) <= kSmall) return true;
  return std::max(second, std::min(largest, more)) <= kNumbers;
}

}  // namespace

void FuseSiblings(LoweredProgram* program) {
  std::vector<LoweredOp>& ops = program->ops;
  std::vector<int> depth(ops.size(), 0), into(ops.size());
  std::map<std::pair<int, std::string>, int> open;
  std::vector<size_t> parts(ops.size(), 1), params(ops.size());
  std::vector<int64_t> largest(ops.size(), 0), others(ops.size(), 0);  // points of parts
  for (size_t i = 0; i < ops.size(); ++i) {
    for (int from : ops[i].deps) depth[i] = std::max(depth[i], depth[from] + 1);
    into[i] = static_cast<int>(i);
    std::string key = JoinKey(ops[i]);
    if (key.empty()) continue;
    auto [it, fresh] = open.emplace(std::make_pair(depth[i], key), static_cast<int>(i));
    params[i] = ops[i].params.size();
    largest[i] = Points(ops[i].kernel.parts[0]);
    if (fresh) continue;
    if (parts[it->second] >= kMaxParts || params[it->second] + params[i] > kMostReads ||
        !FitTogether(ops[i].kernel.parts[0], largest[it->second], others[it->second], largest[i])) {
      it->second = static_cast<int>(i);
      continue;
    }
    into[i] = it->second;
    ++parts[it->second];
    params[it->second] += params[i];
    int64_t& most = largest[it->second];
    others[it->second] = std::max(others[it->second], std::min(most, largest[i]));
    most = std::max(most, largest[i]);
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    if (into[i] != static_cast<int>(i)) Append(program, &ops[into[i]], ops[i]);
  }
  // The joined op runs in the place of its last part: order by depth keeps all edges pointing backwards.
  std::vector<int> order;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (into[i] == static_cast<int>(i)) order.push_back(static_cast<int>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return depth[a] < depth[b]; });
  std::vector<int> place(ops.size(), -1);
  for (size_t k = 0; k < order.size(); ++k) place[order[k]] = static_cast<int>(k);
  std::vector<LoweredOp> result;
  for (int i : order) {
    LoweredOp op = std::move(ops[i]);
    for (int& from : op.deps) from = place[into[from]];
    std::sort(op.deps.begin(), op.deps.end());
    op.deps.erase(std::unique(op.deps.begin(), op.deps.end()), op.deps.end());
    result.push_back(std::move(op));
  }
  ops = std::move(result);
}

}  // namespace rondo::fusion
