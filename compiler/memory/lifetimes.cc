#include "compiler/memory/lifetimes.h"

#include <algorithm>

namespace rondo {
namespace {

// True if value `v` is bound to exactly one parameter of `op`.
bool BoundOnce(const LoweredOp& op, int v) {
  return std::count_if(op.params.begin(), op.params.end(),
                       [&](const LoweredBinding& p) { return p.value == v; }) == 1;
}

// For each value, the ops that bind it.
std::vector<std::vector<int>> UsersOf(const LoweredProgram& program) {
  std::vector<std::vector<int>> users(program.values.size());
  for (size_t step = 0; step < program.ops.size(); ++step) {
    for (const LoweredBinding& param : program.ops[step].params)
      users[static_cast<size_t>(param.value)].push_back(static_cast<int>(step));
  }
  return users;
}

}  // namespace

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

namespace {

// Whether the kinds, and the donation of inputs, permit `to` to take over the memory of `from`.
bool MayHave(const LoweredValue& to, const LoweredValue& from) {
  const bool given = from.kind == BufferKind::kInput && from.donated;
  return (given && to.kind == BufferKind::kOutput) ||
         (to.kind == BufferKind::kTemporary && (given || from.kind == BufferKind::kTemporary));
}

}  // namespace

bool MayTakeOver(const LoweredProgram& program, const LoweredOp& op, const InPlacePair& pair) {
  const LoweredBinding& write = op.params[static_cast<size_t>(pair.write)];
  const LoweredBinding& read = op.params[static_cast<size_t>(pair.read)];
  const LoweredValue& to = program.values[static_cast<size_t>(write.value)];
  const LoweredValue& from = program.values[static_cast<size_t>(read.value)];
  return MayHave(to, from) && write.value != read.value && to.bytes == from.bytes && write.byte_offset == 0 &&
         read.byte_offset == 0 && write.mode == Mode::kWrite && read.mode == Mode::kRead &&
         BoundOnce(op, write.value) && BoundOnce(op, read.value);
}

namespace {

// Computes outputs in the memory of the donated inputs that fusion chose, if everything that touches the
// input is over when the first op that touches the output begins, or is that op.
void TakeInputs(const LoweredProgram& program, const StreamOrder& order,
                const std::vector<std::vector<int>>& users, std::vector<int>* takes_over,
                std::vector<bool>* taken) {
  for (size_t v = 0; v < program.values.size(); ++v) {
    const int input = program.values[v].takes;
    if (input < 0 || (*taken)[static_cast<size_t>(input)] || users[v].empty()) continue;
    const std::vector<int>& readers = users[static_cast<size_t>(input)];
    const bool apart = std::all_of(users[v].begin(), users[v].end(), [&](int writer) {
      return program.ops[static_cast<size_t>(writer)].loop < 0 &&
             std::all_of(readers.begin(), readers.end(), [&](int reader) {
               return program.ops[static_cast<size_t>(reader)].loop < 0 &&
                      (reader == writer || order.Before(order.End(reader), writer));
             });
    });
    if (!apart) continue;
    (*takes_over)[v] = input;
    (*taken)[static_cast<size_t>(input)] = true;
  }
}

}  // namespace

std::vector<int> Donations(const LoweredProgram& program, const StreamOrder& order,
                           const std::vector<Life>& lives) {
  const std::vector<std::vector<int>> users = UsersOf(program);
  std::vector<int> takes_over(program.values.size(), -1);
  std::vector<bool> taken(program.values.size(), false);
  TakeInputs(program, order, users, &takes_over, &taken);
  for (size_t step = 0; step < program.ops.size(); ++step) {
    const LoweredOp& op = program.ops[step];
    for (const InPlacePair& pair : op.in_place) {
      if (!MayTakeOver(program, op, pair)) continue;
      const int write = op.params[static_cast<size_t>(pair.write)].value;
      const int read = op.params[static_cast<size_t>(pair.read)].value;
      const size_t w = static_cast<size_t>(write), r = static_cast<size_t>(read);
      const int now = static_cast<int>(step), end = order.End(now);
      if (lives[w].first != now || lives[r].last != end) continue;
      const bool alone =
          std::all_of(users[r].begin(), users[r].end(),
                      [&](int u) { return u == now || u == end || order.Before(order.End(u), now); }) &&
          std::all_of(users[w].begin(), users[w].end(),
                      [&](int u) { return u == now || u == end || order.Before(end, u); });
      if (!alone) continue;
      if (taken[r] || takes_over[w] >= 0) continue;
      if (op.loop >= 0 && (!lives[w].local || !lives[r].local)) continue;  // the next round reads it again
      takes_over[w] = read;
      taken[r] = true;
    }
  }
  return takes_over;
}

}  // namespace rondo
