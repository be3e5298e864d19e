#include "compiler/memory/lifetimes.h"

#include <algorithm>

namespace rondo {
namespace {

// True if value `v` is bound to exactly one parameter of `op`.
bool BoundOnce(const LoweredOp& op, int v) {
  return std::count_if(op.params.begin(), op.params.end(),
                       [&](const LoweredBinding& p) { return p.value == v; }) == 1;
}

}  // namespace

// Steps [first, last] of each loop.
std::vector<Life> LoopSteps(const LoweredProgram& program) {
  std::vector<Life> loops(program.loops.size());
  for (size_t step = 0; step < program.ops.size(); ++step) {
    if (program.ops[step].loop < 0) continue;
    Life& loop = loops[static_cast<size_t>(program.ops[step].loop)];
    if (!loop.used()) loop.first = static_cast<int>(step);
    loop.last = static_cast<int>(step);
  }
  return loops;
}

std::vector<Life> Lifetimes(const LoweredProgram& program) {
  const std::vector<Life> loops = LoopSteps(program);
  std::vector<Life> lives(program.values.size());
  std::vector<bool> touched(program.values.size(), false);
  for (size_t step = 0; step < program.ops.size(); ++step) {
    const LoweredOp& op = program.ops[step];
    for (const LoweredBinding& param : op.params) {
      const size_t v = static_cast<size_t>(param.value);
      const BufferKind kind = program.values[v].kind;
      Life& life = lives[v];
      if (!touched[v]) {
        life = {static_cast<int>(step), static_cast<int>(step)};
        life.local = op.loop >= 0 && (kind == BufferKind::kTemporary || kind == BufferKind::kWorkspace);
      }
      touched[v] = true;
      life.last = static_cast<int>(step);
      const bool reads_first = life.first == life.last && param.mode != Mode::kWrite;
      if (reads_first || op.loop != program.ops[static_cast<size_t>(life.first)].loop) life.local = false;
    }
  }
  for (const LoweredOp& op : program.ops) {
    if (op.loop < 0) continue;
    const Life& loop = loops[static_cast<size_t>(op.loop)];
    for (const LoweredBinding& param : op.params) {
      Life& life = lives[static_cast<size_t>(param.value)];
      if (life.local) continue;
      life.first = std::min(life.first, loop.first);
      life.last = std::max(life.last, loop.last);
    }
  }
  const int last_step = static_cast<int>(program.ops.size()) - 1;
  for (size_t v = 0; v < program.values.size(); ++v) {
    const BufferKind kind = program.values[v].kind;
    if (!InArena(kind)) {
      lives[v] = {0, 0};
    } else if (!touched[v]) {
      continue;
    } else if (kind == BufferKind::kInput) {
      lives[v].first = 0;
    } else if (kind == BufferKind::kOutput) {
      lives[v].last = last_step;
    }
  }
  return lives;
}

// The last step of what `step` does: of a collective's start, its wait.
int EndOf(const LoweredProgram& program, size_t step) {
  const LoweredOp& op = program.ops[step];
  size_t end = step;
  if (op.kind == LoweredKind::kCollectiveStart) {
    while (program.ops[end].kind != LoweredKind::kCollectiveWait ||
           program.ops[end].collective != op.collective)
      ++end;
  }
  return static_cast<int>(end);
}

bool MayTakeOver(const LoweredProgram& program, const LoweredOp& op, const InPlacePair& pair) {
  const LoweredBinding& write = op.params[static_cast<size_t>(pair.write)];
  const LoweredBinding& read = op.params[static_cast<size_t>(pair.read)];
  const LoweredValue& to = program.values[static_cast<size_t>(write.value)];
  const LoweredValue& from = program.values[static_cast<size_t>(read.value)];
  return to.kind == BufferKind::kTemporary && from.kind == BufferKind::kTemporary &&
         write.value != read.value && to.bytes == from.bytes && write.byte_offset == 0 &&
         read.byte_offset == 0 && write.mode == Mode::kWrite && read.mode == Mode::kRead &&
         BoundOnce(op, write.value) && BoundOnce(op, read.value);
}

std::vector<int> Donations(const LoweredProgram& program, const std::vector<Life>& lives) {
  std::vector<int> takes_over(program.values.size(), -1);
  std::vector<bool> taken(program.values.size(), false);
  for (size_t step = 0; step < program.ops.size(); ++step) {
    const LoweredOp& op = program.ops[step];
    for (const InPlacePair& pair : op.in_place) {
      if (!MayTakeOver(program, op, pair)) continue;
      const int write = op.params[static_cast<size_t>(pair.write)].value;
      const int read = op.params[static_cast<size_t>(pair.read)].value;
      const size_t w = static_cast<size_t>(write), r = static_cast<size_t>(read);
      if (lives[w].first != static_cast<int>(step) || lives[r].last != EndOf(program, step)) continue;
      if (taken[r] || takes_over[w] >= 0) continue;
      if (op.loop >= 0 && (!lives[w].local || !lives[r].local)) continue;  // the next round reads it again
      takes_over[w] = read;
      taken[r] = true;
    }
  }
  return takes_over;
}

}  // namespace rondo
