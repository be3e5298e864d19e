#include "compiler/schedule/arrangement.h"

#include <algorithm>
#include <numeric>

namespace rondo {
namespace {

std::vector<int> AsGiven(size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

Arrangement::Arrangement(const LoweredProgram& program, const MemoryModel& model,
                         const std::vector<int>& segments, int64_t limit)
    : program_(program),
      segments_(segments),
      limit_(limit),
      before_(program.ops.size()),
      after_(program.ops.size()),
      starts_(program.collectives.size(), -1),
      waits_(program.collectives.size(), -1),
      first_of_(program.ops.size()),
      end_of_(program.ops.size()),
      curve_(model, AsGiven(program.ops.size())) {
  int last_start = -1;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    const int number = static_cast<int>(i);
    before_[i] = op.deps;
    if (op.kind == LoweredKind::kCollectiveStart) {
      if (last_start >= 0) before_[i].push_back(last_start);
      last_start = starts_[static_cast<size_t>(op.collective)] = number;
    }
    if (op.kind == LoweredKind::kCollectiveWait) waits_[static_cast<size_t>(op.collective)] = number;
    for (int d : before_[i]) after_[static_cast<size_t>(d)].push_back(number);
    const bool new_one = i == 0 || segments_[i] != segments_[i - 1];
    first_of_[i] = new_one ? number : first_of_[i - 1];
  }
  for (size_t i = program.ops.size(); i-- > 0;) {
    const bool last = i + 1 == program.ops.size() || segments_[i + 1] != segments_[i];
    end_of_[i] = last ? static_cast<int>(i) + 1 : end_of_[i + 1];
  }
}

void Arrangement::Take(const std::vector<int>& order) { curve_.Take(order); }

int Arrangement::KeptFromEarlier(int op) const {
  int by = -1, latest = first_of_[static_cast<size_t>(op)] - 1;
  for (int d : Before(op)) {
    if (position(d) <= latest) continue;
    latest = position(d);
    by = d;
  }
  return by;
}

int Arrangement::KeptFromLater(int op) const {
  int by = -1, earliest = end_of_[static_cast<size_t>(op)];
  for (int user : After(op)) {
    if (position(user) >= earliest) continue;
    earliest = position(user);
    by = user;
  }
  return by;
}

int Arrangement::Earliest(int op) const {
  const int by = KeptFromEarlier(op);
  return by < 0 ? first_of_[static_cast<size_t>(op)] : position(by) + 1;
}

int Arrangement::Latest(int op) const {
  const int by = KeptFromLater(op);
  return by < 0 ? end_of_[static_cast<size_t>(op)] - 1 : position(by) - 1;
}

bool Arrangement::Move(int op, int to) {
  const int from = position(op);
  if (from == to) return true;
  if (curve_.Move(from, to) <= limit_) return true;
  curve_.Move(to, from);
  return false;
}

}  // namespace rondo
