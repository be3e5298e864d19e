#include "compiler/memory/antichain.h"

#include <algorithm>
#include <limits>

namespace rondo {
namespace {

// Flow from each element, as a giver of its weight, to elements after it, as takers of up to their weight.
// Stored by pair, so that it can be taken back.
class Flow {
 public:
  Flow(const std::vector<int64_t>& weights, const std::vector<std::vector<int>>& after, int64_t work)
      : after_(after),
        before_(after.size()),
        given_(after.size()),
        left_(weights),
        room_(weights),
        work_(work) {
    for (size_t a = 0; a < after.size(); ++a) {
      given_[a].assign(after[a].size(), 0);
      for (size_t k = 0; k < after[a].size(); ++k)
        before_[static_cast<size_t>(after[a][k])].push_back({static_cast<int>(a), k});
    }
  }

  // False if the work limit is reached.
  bool Maximise() {
    while (work_ > 0 && Layer()) {
      giver_at_.assign(after_.size(), 0);
      taker_at_.assign(after_.size(), 0);
      for (size_t a = 0; a < after_.size(); ++a) {
        for (int64_t passed = 1; passed > 0 && left_[a] > 0 && work_ > 0;) {
          passed = Give(a, left_[a]);
          left_[a] -= passed;
          total_ += passed;
        }
      }
    }
    return work_ > 0;
  }
  int64_t total() const { return total_; }

 private:
  struct Pair {
    int giver;
    size_t at;  // in after_[giver]
  };
  static constexpr int kFar = std::numeric_limits<int>::max();

  // Numbers givers and takers by their distance from a giver with weight left; false if none of them reaches
  // a taker with room.
  bool Layer() {
    giver_.assign(after_.size(), kFar);
    taker_.assign(after_.size(), kFar);
    std::vector<int> queue;
    for (size_t a = 0; a < after_.size(); ++a) {
      if (left_[a] == 0) continue;
      giver_[a] = 0;
      queue.push_back(static_cast<int>(a));
    }
    bool reached = false;
    for (size_t i = 0; i < queue.size(); ++i) {
      const size_t a = static_cast<size_t>(queue[i]);
      work_ -= static_cast<int64_t>(after_[a].size());
      for (int next : after_[a]) {
        const size_t b = static_cast<size_t>(next);
        if (taker_[b] != kFar) continue;
        taker_[b] = giver_[a] + 1;
        reached |= room_[b] > 0;
        work_ -= static_cast<int64_t>(before_[b].size());
        for (const Pair& pair : before_[b]) {
          const size_t other = static_cast<size_t>(pair.giver);
          if (giver_[other] != kFar || given_[other][pair.at] == 0) continue;
          giver_[other] = taker_[b] + 1;
          queue.push_back(pair.giver);
        }
      }
    }
    return reached;
  }

  // Passes up to `most` from giver `a` on, along layers. Recursion is as deep as there are layers.
  int64_t Give(size_t a, int64_t most) {
    for (size_t& k = giver_at_[a]; k < after_[a].size(); ++k) {
      const size_t b = static_cast<size_t>(after_[a][k]);
      if (--work_ <= 0) return 0;
      if (taker_[b] != giver_[a] + 1) continue;
      const int64_t passed = Take(b, most);
      if (passed == 0) continue;
      given_[a][k] += passed;
      return passed;
    }
    return 0;
  }

  // Taker `b` keeps it, or another giver takes back its gift here and passes it on elsewhere.
  int64_t Take(size_t b, int64_t most) {
    if (room_[b] > 0) {
      const int64_t kept = std::min(most, room_[b]);
      room_[b] -= kept;
      return kept;
    }
    for (size_t& k = taker_at_[b]; k < before_[b].size(); ++k) {
      const Pair pair = before_[b][k];
      const size_t other = static_cast<size_t>(pair.giver);
      int64_t& given = given_[other][pair.at];
      if (--work_ <= 0) return 0;
      if (giver_[other] != taker_[b] + 1 || given == 0) continue;
      const int64_t passed = Give(other, std::min(most, given));
      given -= passed;
      if (passed > 0) return passed;
    }
    return 0;
  }

  const std::vector<std::vector<int>>& after_;
  std::vector<std::vector<Pair>> before_;
  std::vector<std::vector<int64_t>> given_;  // along after_
  std::vector<int64_t> left_, room_;         // of givers, of takers
  std::vector<int> giver_, taker_;           // layers
  std::vector<size_t> giver_at_, taker_at_;  // next pair to try in this layering
  int64_t work_, total_ = 0;
};

}  // namespace

std::optional<int64_t> HeaviestAntichain(const std::vector<int64_t>& weights,
                                         const std::vector<std::vector<int>>& after, int64_t work) {
  Flow flow(weights, after, work);
  if (!flow.Maximise()) return std::nullopt;
  int64_t sum = -flow.total();
  for (int64_t weight : weights) sum += weight;
  return sum;
}

}  // namespace rondo
