#include <algorithm>
#include <numeric>

#include "compiler/schedule/communication_passes.h"

namespace rondo {
namespace {

constexpr int kFarthest = 400;       // the farthest distance of a candidate from the collective, in ops
constexpr double kLeastGain = 1e-6;  // share of the run's time

class Mover {
 public:
  Mover(const Estimates& estimates, int only, Arrangement* arrangement, int64_t* work)
      : estimates_(estimates), only_(only), a_(*arrangement), work_(*work), now_(Look()) {}

  // Tries all collectives, the most exposed first; false if nothing got better.
  bool Round() {
    std::vector<int> collectives(static_cast<size_t>(a_.collectives()));
    std::iota(collectives.begin(), collectives.end(), 0);
    std::stable_sort(collectives.begin(), collectives.end(),
                     [&](int x, int y) { return Exposed(x) > Exposed(y); });
    bool better = false;
    for (int c : collectives) better |= (only_ < 0 || c == only_) && HideMore(c);
    return better;
  }

 private:
  Timeline Look() {
    work_ -= int64_t{a_.size()} * estimates_.devices;
    return estimates_.Of(a_.order());
  }
  double Exposed(int c) const { return now_.collectives[static_cast<size_t>(c)].exposed; }
  bool IsCompute(int op) const { return a_.program().ops[static_cast<size_t>(op)].collective < 0; }

  bool HideMore(int c) {
    bool better = false;
    for (bool moved = true; moved && Exposed(c) > kLeastGain * now_.end && work_ > 0;) {
      moved = TakeFromBehind(a_.wait(c)) || TakeFromAhead(a_.start(c));
      better |= moved;
    }
    return better;
  }

  // Moves an op from behind the wait that does not depend on it.
  bool TakeFromBehind(int wait_op) {
    const int wait = a_.position(wait_op);
    const int end = std::min(a_.size(), wait + kFarthest);
    for (int p = wait + 1; p < end && work_ > 0; ++p) {
      const int op = a_.order()[static_cast<size_t>(p)];
      if (IsCompute(op) && a_.Earliest(op) <= wait && Try(op, wait)) return true;
    }
    return false;
  }

  // Moves an op from before the start that the start does not need.
  bool TakeFromAhead(int start_op) {
    const int start = a_.position(start_op);
    const int end = std::max(-1, start - kFarthest);
    for (int p = start - 1; p > end && work_ > 0; --p) {
      const int op = a_.order()[static_cast<size_t>(p)];
      if (IsCompute(op) && a_.Latest(op) >= start && Try(op, start)) return true;
    }
    return false;
  }

  // Keeps the move if the run ends earlier.
  bool Try(int op, int to) {
    const int from = a_.position(op);
    if (!a_.Move(op, to)) return false;
    Timeline timeline = Look();
    if (timeline.end >= now_.end * (1 - kLeastGain)) {
      a_.MoveBack(op, from);
      return false;
    }
    now_ = std::move(timeline);
    return true;
  }

  const Estimates& estimates_;
  const int only_;
  Arrangement& a_;
  int64_t& work_;
  Timeline now_;
};

}  // namespace

void MoveComputeBesideCollectives(const Estimates& estimates, int only, Arrangement* arrangement,
                                  int64_t* work) {
  Mover mover(estimates, only, arrangement, work);
  while (*work > 0 && mover.Round()) {
  }
}

}  // namespace rondo
