#include "compiler/memory/lifetimes.h"

#include <algorithm>

namespace rondo {

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
    } else if (touched[v] || kind == BufferKind::kUpdatedInput) {
      if (IsInput(kind)) lives[v].first = 0;
      if (IsOutput(kind)) lives[v].last = last_step;
    }
  }
  return lives;
}

}  // namespace rondo
