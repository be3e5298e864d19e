#include "compiler/schedule/expand_loops.h"

#include <algorithm>

#include "compiler/ir/loop.h"
#include "compiler/ir/node_annotation.h"

namespace rondo {
namespace {

// Expands one loop into the program.
class Expansion {
 public:
  Expansion(LoweredProgram* program, const LoweredOp& op)
      : program_(*program), op_(op), loop_(*op.rounds), info_(*loop_.info) {
    size_t spare = info_.inputs.size() + info_.outputs.size();
    other_.assign(info_.outputs.size(), -1);
    for (size_t o = 0; o < info_.outputs.size(); ++o) {
      if (loop_.carrier[o] < 0 || loop_.in_place[o]) continue;
      other_[o] = op.params[spare++].value;
      by_turns_ = true;
    }
    for (const ir::LoopInput& in : info_.inputs) {
      first_alone_ |= in.kind == ir::LoopInputKind::kCarried && info_.outputs[in.next].rows;
    }
    AddValues();
  }

  // `deps`: the new ops that must precede the loop. Returns the ops that end the loop: each of its other ops
  // precedes one of them.
  std::vector<int> Run(const std::vector<int>& deps) {
    before_ = deps;
    int64_t t = 0;
    if (first_alone_) Round(t++, 0, -1);
    const int64_t unit = by_turns_ ? 2 : 1, trips = (info_.trips - t) / unit;
    if (trips > 1) {
      const int number = static_cast<int>(program_.loops.size());
      program_.loops.push_back(trips);
      for (int64_t u = 0; u < unit; ++u) Round(t + u, unit, number);
      t += trips * unit;
    }
    while (t < info_.trips) Round(t++, 0, -1);
    return before_;
  }

 private:
  struct Place {
    int value = -1;
    int64_t offset = 0, stride = 0;
  };
  struct Role {
    int input = -1, output = -1;  // of the loop
    int value = -1;               // otherwise the program's value
  };

  int In(size_t k) const { return op_.params[k].value; }
  int Out(size_t o) const { return op_.params[info_.inputs.size() + o].value; }

  void AddValues() {
    roles_.resize(loop_.body.values.size());
    for (size_t k = 0; k < loop_.body.inputs.size(); ++k)
      roles_[static_cast<size_t>(loop_.body.inputs[k].value)].input = static_cast<int>(k);
    for (size_t o = 0; o < loop_.body.outputs.size(); ++o)
      roles_[static_cast<size_t>(loop_.body.outputs[o].value)].output = static_cast<int>(o);
    for (size_t v = 0; v < roles_.size(); ++v) {
      if (roles_[v].input >= 0 || roles_[v].output >= 0) continue;
      const LoweredValue& value = loop_.body.values[v];
      const auto same =
          std::find_if(program_.values.begin(), program_.values.end(), [&](const LoweredValue& other) {
            return value.constant != nullptr && other.constant == value.constant;
          });
      roles_[v].value = static_cast<int>(same - program_.values.begin());
      if (same == program_.values.end()) program_.values.push_back(value);
    }
  }

  // Row `t` of a value that the loop holds for all rounds; the stride is for rounds t, t + step, ...
  Place RowOf(int value, int64_t bytes, bool backward, int64_t t, int64_t step) const {
    const int64_t row = backward ? info_.trips - 1 - t : t;
    return {value, row * bytes, (backward ? -step : step) * bytes};
  }

  // Where round `t` leaves output `o` if only the last round's value is kept. The last round writes the
  // result.
  Place Handed(size_t o, int64_t t) const {
    return {loop_.in_place[o] || (info_.trips - 1 - t) % 2 == 0 ? Out(o) : other_[o]};
  }

  Place Of(int body_value, int64_t t, int64_t step) const {
    const Role& role = roles_[static_cast<size_t>(body_value)];
    const int64_t bytes = loop_.body.values[static_cast<size_t>(body_value)].bytes;
    if (role.output >= 0) {
      const size_t o = static_cast<size_t>(role.output);
      return info_.outputs[o].rows ? RowOf(Out(o), bytes, info_.outputs[o].backward, t, step) : Handed(o, t);
    }
    if (role.input < 0) return {role.value};
    const size_t k = static_cast<size_t>(role.input);
    const ir::LoopInput& in = info_.inputs[k];
    if (in.kind == ir::LoopInputKind::kWhole) return {In(k)};
    if (in.kind == ir::LoopInputKind::kRow) return RowOf(In(k), bytes, in.backward, t, step);
    const ir::LoopOutput& from = info_.outputs[in.next];
    if (!from.rows) return Handed(in.next, t - 1);
    return t == 0 ? Place{In(k)} : RowOf(Out(in.next), bytes, from.backward, t - 1, step);
  }

  // The ops of round `t`, or, as part of loop `number`, of all rounds t, t + step, ... Ops without deps in
  // the round run after all ops made before.
  void Round(int64_t t, int64_t step, int number) {
    const int first = static_cast<int>(program_.ops.size());
    std::vector<bool> ends(loop_.body.ops.size(), true);
    for (const LoweredOp& body : loop_.body.ops) {
      LoweredOp op = body;
      for (LoweredBinding& param : op.params) {
        const Place place = Of(param.value, t, step);
        param.value = place.value;
        param.byte_offset += static_cast<uint64_t>(place.offset);
        param.stride = number < 0 ? 0 : place.stride;
      }
      for (int& d : op.deps) {
        ends[static_cast<size_t>(d)] = false;
        d += first;
      }
      if (op.deps.empty()) op.deps = before_;
      op.loop = number;
      if (op.sources.empty()) op.sources = op_.sources;
      // A loop has one stream and one region. Its nodes keep their own other annotations.
      op.annotations.erase(kRegionKey);
      for (const auto& [key, value] : op_.annotations) {
        if (key == "stream") op.annotations[key] = value;
        op.annotations.emplace(key, value);
      }
      program_.ops.push_back(std::move(op));
    }
    if (ends.empty()) return;
    before_.clear();
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i]) before_.push_back(first + static_cast<int>(i));
    }
  }

  LoweredProgram& program_;
  const LoweredOp& op_;
  const LoweredLoop& loop_;
  const ir::LoopInfo& info_;
  std::vector<Role> roles_;  // by value of the body
  std::vector<int> other_;   // by output: its place in every other round; -1: none
  std::vector<int> before_;  // the ops that end what was made so far
  bool by_turns_ = false, first_alone_ = false;
};

}  // namespace

std::string ExpandLoops(LoweredProgram* program) {
  std::vector<LoweredOp> given = std::move(program->ops);
  program->ops.clear();
  std::vector<std::vector<int>> ends(given.size());  // the last new ops of each op
  int64_t rounds = 0, loops = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    std::vector<int> deps;
    for (int d : given[i].deps) {
      const std::vector<int>& is = ends[static_cast<size_t>(d)];
      deps.insert(deps.end(), is.begin(), is.end());
    }
    given[i].deps = std::move(deps);
    if (given[i].kind == LoweredKind::kLoop) {
      ends[i] = Expansion(program, given[i]).Run(given[i].deps);
      program->body_arenas.push_back(given[i].rounds->body.arena);
      rounds += given[i].rounds->info->trips;
      ++loops;
    } else {
      ends[i] = {static_cast<int>(program->ops.size())};
      program->ops.push_back(std::move(given[i]));
    }
  }
  return std::to_string(loops) + " loops of " + std::to_string(rounds) + " rounds; " +
         std::to_string(given.size()) + " -> " + std::to_string(program->ops.size()) + " ops";
}

}  // namespace rondo
