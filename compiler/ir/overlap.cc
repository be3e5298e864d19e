#include "compiler/ir/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <vector>

namespace rondo::ir {

namespace {

struct Term {
  int64_t stride, most;  // stride * x for 0 <= x <= most; stride > 0
};

// sum of all terms = target
class Equation {
 public:
  // Adds sign * (what the view shows) to the terms.
  void Add(const View& view, int64_t sign) {
    LoopNest nest(view.shape());
    std::optional<AffineMap> map;
    if (RefineLoops(view, &nest)) map = MapOver(view, nest);
    if (!map) return Add(View{{view.steps.begin(), view.steps.end() - 1}}, sign);
    target_ -= sign * map->offset;
    const std::vector<int64_t> extents = nest.extents();
    for (size_t l = 0; l < extents.size(); ++l) {
      const int64_t stride = sign * map->strides[l], most = extents[l] - 1;
      empty_ = empty_ || most < 0;
      if (stride < 0) target_ -= stride * most;  // counted from the other end
      if (stride != 0 && most > 0) terms_.push_back({std::abs(stride), most});
    }
  }

  bool MayHold() {
    if (empty_) return false;
    Join();
    reach_ = {0};
    divisor_ = {0};
    for (const Term& term : terms_) {
      reach_.push_back(reach_.back() + term.stride * term.most);
      divisor_.push_back(std::gcd(divisor_.back(), term.stride));
    }
    return Search(terms_.size(), target_);
  }

 private:
  // A term whose stride is a multiple of a smaller one, within its reach, makes it longer: together they take
  // every multiple of the smaller stride.
  void Join() {
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.stride < b.stride; });
    std::vector<Term> joined;
    for (const Term& term : terms_) {
      const auto into = std::find_if(joined.begin(), joined.end(), [&](const Term& smaller) {
        return term.stride % smaller.stride == 0 && term.stride / smaller.stride <= smaller.most + 1;
      });
      if (into == joined.end())
        joined.push_back(term);
      else
        into->most += term.stride / into->stride * term.most;
    }
    terms_ = std::move(joined);
  }

  // Whether the first `count` terms can have this sum.
  bool Search(size_t count, int64_t sum) {
    if (sum < 0 || sum > reach_[count]) return false;
    if (count == 0 || ++steps_ > kOverlapSteps) return true;
    if (sum % divisor_[count] != 0) return false;
    const auto [stride, most] = terms_[count - 1];
    const int64_t rest = std::max<int64_t>(0, sum - reach_[count - 1]);
    for (int64_t x = (rest + stride - 1) / stride; x <= std::min(most, sum / stride); ++x) {
      if (Search(count - 1, sum - x * stride)) return true;
    }
    return false;
  }

  std::vector<Term> terms_;  // by rising stride
  int64_t target_ = 0;
  bool empty_ = false;                    // a view shows nothing
  std::vector<int64_t> reach_, divisor_;  // greatest sum of the terms before one, and what divides it
  int steps_ = 0;
};

}  // namespace

bool MayOverlap(const View& a, const View& b) {
  Equation equation;
  equation.Add(a, 1);
  equation.Add(b, -1);
  return equation.MayHold();
}

}  // namespace rondo::ir
