#include "compiler/memory/in_place.h"

#include <algorithm>

namespace rondo {
namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

// For each value, the ops that bind it.
std::vector<std::vector<int>> UsersOf(const LoweredProgram& program) {
  std::vector<std::vector<int>> users(program.values.size());
  for (size_t step = 0; step < program.ops.size(); ++step) {
    for (const LoweredBinding& param : program.ops[step].params)
      users[Index(param.value)].push_back(static_cast<int>(step));
  }
  return users;
}

// True if value `v` is bound to exactly one parameter of `op`.
bool BoundOnce(const LoweredOp& op, int v) {
  return std::count_if(op.params.begin(), op.params.end(),
                       [&](const LoweredBinding& p) { return p.value == v; }) == 1;
}

// Whether the kinds, and the donation of inputs, permit `to` to take over the memory of `from`.
bool MayHave(const LoweredValue& to, const LoweredValue& from) {
  const bool given = from.kind == BufferKind::kInput && from.donated;
  return (given && to.kind == BufferKind::kOutput) ||
         (to.kind == BufferKind::kTemporary && (given || from.kind == BufferKind::kTemporary));
}

bool Fits(const LoweredProgram& program, const LoweredOp& op, const InPlacePair& pair) {
  const LoweredBinding &write = op.params[Index(pair.write)], &read = op.params[Index(pair.read)];
  const LoweredValue &to = program.values[Index(write.value)], &from = program.values[Index(read.value)];
  return MayHave(to, from) && write.value != read.value && to.bytes == from.bytes && write.byte_offset == 0 &&
         read.byte_offset == 0 && write.mode == Mode::kWrite && read.mode == Mode::kRead &&
         BoundOnce(op, write.value) && BoundOnce(op, read.value);
}

// Whether all ops among `users` of a value, except the collective itself, must run before its start.
bool EndsAtStart(const LoweredProgram& program, const LoweredOp& start, const std::vector<int>& users) {
  return std::all_of(users.begin(), users.end(), [&](int user) {
    return program.ops[Index(user)].collective == start.collective ||
           std::find(start.deps.begin(), start.deps.end(), user) != start.deps.end();
  });
}

// Computes outputs in the memory of the donated inputs that fusion chose, if everything that touches the
// input is over when the first op that touches the output begins, or is that op.
void TakeInputs(const LoweredProgram& program, const StreamOrder& order,
                const std::vector<std::vector<int>>& users, std::vector<int>* takes_over,
                std::vector<bool>* taken) {
  for (size_t v = 0; v < program.values.size(); ++v) {
    const int input = program.values[v].takes;
    if (input < 0 || (*taken)[Index(input)] || users[v].empty()) continue;
    const std::vector<int>& readers = users[Index(input)];
    const bool apart = std::all_of(users[v].begin(), users[v].end(), [&](int writer) {
      return program.ops[Index(writer)].loop < 0 &&
             std::all_of(readers.begin(), readers.end(), [&](int reader) {
               return program.ops[Index(reader)].loop < 0 &&
                      (reader == writer || order.Before(order.End(reader), writer));
             });
    });
    if (!apart) continue;
    (*takes_over)[v] = input;
    (*taken)[Index(input)] = true;
  }
}

}  // namespace

std::vector<std::vector<TakeOver>> MayTakeOver(const LoweredProgram& program) {
  std::vector<std::vector<TakeOver>> all(program.ops.size());
  std::vector<std::vector<int>> users;
  if (!program.collectives.empty()) users = UsersOf(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    for (const InPlacePair& pair : op.in_place) {
      if (!Fits(program, op, pair)) continue;
      const int read = op.params[Index(pair.read)].value;
      const bool at_start =
          op.kind == LoweredKind::kCollectiveStart && EndsAtStart(program, op, users[Index(read)]);
      all[i].push_back(
          {op.params[Index(pair.write)].value, read, program.values[Index(read)].bytes, at_start});
    }
  }
  return all;
}

std::vector<int> TakesOver(const LoweredProgram& program, const StreamOrder& order,
                           const std::vector<Life>& lives) {
  const std::vector<std::vector<int>> users = UsersOf(program);
  const std::vector<std::vector<TakeOver>> take_overs = MayTakeOver(program);
  std::vector<int> takes_over(program.values.size(), -1);
  std::vector<bool> taken(program.values.size(), false);
  TakeInputs(program, order, users, &takes_over, &taken);
  for (size_t step = 0; step < program.ops.size(); ++step) {
    const int now = static_cast<int>(step), end = order.End(now);
    for (const TakeOver& pair : take_overs[step]) {
      const size_t w = Index(pair.write), r = Index(pair.read);
      if (taken[r] || takes_over[w] >= 0 || lives[w].first != now || lives[r].last != end) continue;
      const auto own = [&](int user) { return user == now || user == end; };
      const bool alone =
          std::all_of(users[r].begin(), users[r].end(),
                      [&](int user) { return own(user) || order.Before(order.End(user), now); }) &&
          std::all_of(users[w].begin(), users[w].end(),
                      [&](int user) { return own(user) || order.Before(end, user); });
      // The next round of a loop reads again what is not its own.
      const bool again = program.ops[step].loop >= 0 && (!lives[w].local || !lives[r].local);
      if (!alone || again) continue;
      takes_over[w] = pair.read;
      taken[r] = true;
    }
  }
  return takes_over;
}

}  // namespace rondo
