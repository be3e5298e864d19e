#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "compiler/schedule/communication_passes.h"

namespace rondo {
namespace {

constexpr size_t kMostTried = 48;  // the most ready ops that are tried as the next op
constexpr size_t kWidest = 400;    // the most orders that are kept
constexpr size_t kWidthTimesOps = 50'000;
constexpr size_t kMostCopied = 4000;  // ops of the largest program for which several orders are kept

// The time from each op's beginning to the end of the run if no other op delayed it.
std::vector<double> WaysToTheEnd(const Arrangement& a, const Estimates& estimates) {
  const std::vector<TimedStep>& steps = estimates.steps.steps;
  std::vector<double> way(steps.size(), 0);
  const std::vector<LoweredOp>& ops = a.program().ops;
  for (size_t i = steps.size(); i-- > 0;) {
    const bool start = ops[i].kind == LoweredKind::kCollectiveStart;
    for (int user : a.After(static_cast<int>(i))) {
      const size_t u = static_cast<size_t>(user);
      // After a start, only the collective's own wait depends on its time.
      const bool waits =
          start && ops[u].kind == LoweredKind::kCollectiveWait && ops[u].collective == ops[i].collective;
      way[i] = std::max(way[i], way[u] + (waits ? steps[i].time : 0));
    }
    if (start && !estimates.peers.remain.empty())
      way[i] =
          std::max(way[i], steps[i].time + estimates.peers.remain[static_cast<size_t>(ops[i].collective)]);
    if (!start) way[i] += steps[i].time;
  }
  return way;
}

// The first ops of an order, and their times.
struct Prefix {
  LiveBytes live;
  std::vector<int> ready;
  std::vector<int> waiting;                       // by op: deps that have not run
  std::vector<double> streams, left;              // by stream: when it is free; the compute that has not run
  std::vector<double> ends;                       // by op
  std::vector<std::pair<int, double>> in_flight;  // collectives and their ends
  double last_collective = 0;
  uint64_t ops = 0;  // the set of ops, as a hash
  int trace = -1;    // index into BeamSearch::trace_
};

// A prefix with one more op.
struct Child {
  size_t parent;
  int op;
  double end;     // lower bound on the end of the run
  int64_t live;   // live bytes after the op
  double stream;  // when the op's stream is free
  uint64_t ops;
};

class BeamSearch {
 public:
  BeamSearch(const Arrangement& a, const MemoryModel& model, const Estimates& estimates, int64_t limit)
      : a_(a),
        steps_(estimates.steps.steps),
        peers_(estimates.peers),
        limit_(limit),
        way_(WaysToTheEnd(a, estimates)) {
    const size_t count = steps_.size();
    width_ = count > kMostCopied ? 1 : std::clamp<size_t>(kWidthTimesOps / (count + 1), 1, kWidest);
    Prefix first{LiveBytes(model), {}, {}, {}, {}, std::vector<double>(count, 0), {}, 0, 0, -1};
    for (size_t i = 0; i < count; ++i) {
      const int op = static_cast<int>(i);
      first.waiting.push_back(static_cast<int>(a.Before(op).size()));
      if (Op(op).stream >= first.streams.size()) first.streams.resize(Op(op).stream + size_t{1}, 0);
      first.left.resize(first.streams.size(), 0);
      if (Op(op).collective < 0) first.left[Op(op).stream] += steps_[i].time;
    }
    beam_.push_back(std::move(first));
  }

  std::optional<std::vector<int>> Run() {
    size_t placed = 0;
    for (size_t first = 0; first < steps_.size(); first = end_) {
      const int segment = a_.segment(static_cast<int>(first));
      end_ = first;
      while (end_ < steps_.size() && a_.segment(static_cast<int>(end_)) == segment) ++end_;
      for (Prefix& prefix : beam_) {
        for (size_t i = first; i < end_; ++i) {
          if (prefix.waiting[i] == 0) prefix.ready.push_back(static_cast<int>(i));
        }
      }
      for (; placed < end_; ++placed) {
        if (!Grow()) return std::nullopt;
      }
    }
    std::vector<int> order;
    for (int at = beam_[0].trace; at >= 0; at = trace_[static_cast<size_t>(at)].second)
      order.push_back(trace_[static_cast<size_t>(at)].first);
    std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  const LoweredOp& Op(int op) const { return a_.program().ops[static_cast<size_t>(op)]; }
  bool IsStart(int op) const { return Op(op).kind == LoweredKind::kCollectiveStart; }
  static uint64_t HashOf(int op) {
    uint64_t z = (static_cast<uint64_t>(op) + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  // When the op can begin; for a wait, when it ends.
  double Time(const Prefix& prefix, int op) const {
    double begin = prefix.streams[Op(op).stream];
    for (int d : a_.Before(op)) begin = std::max(begin, prefix.ends[static_cast<size_t>(d)]);
    if (Op(op).kind != LoweredKind::kCollectiveWait) return begin;
    for (const auto& [collective, end] : prefix.in_flight) {
      if (collective == Op(op).collective) begin = std::max(begin, end);
    }
    return begin;
  }

  static double Of(const std::vector<double>& times, int collective) {
    return times.empty() ? 0 : times[static_cast<size_t>(collective)];
  }
  // When the collective of `start`, an op enqueued at `time`, begins.
  double Begin(const Prefix& prefix, int start, double time) const {
    return std::max({time, prefix.last_collective, Of(peers_.arrive, Op(start).collective)});
  }

  // The child with `op` next; its `end` is a lower bound on the end of the run.
  Child ChildOf(size_t parent, int op, int64_t live) const {
    const Prefix& prefix = beam_[parent];
    const double time = Time(prefix, op),
                 compute = Op(op).collective < 0 ? steps_[static_cast<size_t>(op)].time : 0;
    Child child = {parent,
                   op,
                   (IsStart(op) ? Begin(prefix, op, time) : time) + way_[static_cast<size_t>(op)],
                   live,
                   time + compute,
                   prefix.ops ^ HashOf(op)};
    for (size_t s = 0; s < prefix.streams.size(); ++s) {
      const bool own = s == Op(op).stream;
      child.end = std::max(child.end,
                           (own ? child.stream : prefix.streams[s]) + prefix.left[s] - (own ? compute : 0));
    }
    for (const auto& [collective, end] : prefix.in_flight) {
      const double remain = Of(peers_.remain, collective);
      child.end = std::max(child.end, end + std::max(remain, way_[static_cast<size_t>(a_.wait(collective))]));
    }
    for (int other : prefix.ready) {
      if (other != op)
        child.end = std::max(
            child.end, child.stream * (Op(other).stream == Op(op).stream) + way_[static_cast<size_t>(other)]);
    }
    return child;
  }

  void AddChildren(size_t parent, std::vector<Child>* children) const {
    const Prefix& prefix = beam_[parent];
    std::vector<std::tuple<double, bool, double, int>> tried;
    for (int op : prefix.ready)
      tried.emplace_back(Time(prefix, op), !IsStart(op), -way_[static_cast<size_t>(op)], op);
    if (tried.size() > kMostTried) {
      std::nth_element(tried.begin(), tried.begin() + kMostTried, tried.end());
      tried.resize(kMostTried);
    }
    for (const auto& [time, no_start, way, op] : tried) {
      const LiveBytes::Effect effect = prefix.live.Try(op);
      if (effect.during <= limit_) children->push_back(ChildOf(parent, op, effect.after));
    }
  }

  // Drops children for which another child with the same ops is at least as good in every respect.
  void DropDominated(std::vector<Child>* children) const {
    std::unordered_map<uint64_t, std::vector<size_t>> same;
    std::vector<Child> kept;
    for (const Child& child : *children) {
      std::vector<size_t>& others = same[child.ops];
      const bool dominated =
          std::any_of(others.begin(), others.end(), [&](size_t k) { return NoLater(kept[k], child); });
      if (dominated) continue;
      others.push_back(kept.size());
      kept.push_back(child);
    }
    *children = std::move(kept);
  }
  // Whether nothing in `a` ends later than in `b`, which has the same ops, and `a` holds no more bytes.
  bool NoLater(const Child& a, const Child& b) const {
    const Prefix &x = beam_[a.parent], &y = beam_[b.parent];
    if (x.streams.size() > 1 || a.end > b.end || a.stream > b.stream || a.live > b.live) return false;
    const auto end_of = [&](const Prefix& prefix, const Child& child, int collective) {
      for (const auto& [other, end] : prefix.in_flight) {
        if (other == collective) return end;
      }
      const int start = a_.start(collective);
      return Begin(prefix, start, child.stream) + steps_[static_cast<size_t>(start)].time;
    };
    for (int c = 0; c < a_.collectives(); ++c) {
      const bool flies =
          std::any_of(x.in_flight.begin(), x.in_flight.end(), [&](const auto& f) { return f.first == c; }) ||
          (IsStart(a.op) && Op(a.op).collective == c);
      if (flies && end_of(x, a, c) > end_of(y, b, c)) return false;
    }
    return x.last_collective <= y.last_collective;
  }

  void Place(Prefix* prefix, int op) {
    const size_t i = static_cast<size_t>(op);
    const double time = Time(*prefix, op);
    prefix->ends[i] = time;
    if (IsStart(op)) {
      prefix->last_collective = Begin(*prefix, op, time) + steps_[i].time;
      prefix->in_flight.emplace_back(Op(op).collective, prefix->last_collective);
    } else if (Op(op).collective >= 0) {
      std::erase_if(prefix->in_flight, [&](const auto& flies) { return flies.first == Op(op).collective; });
    } else {
      prefix->ends[i] += steps_[i].time;
      prefix->left[Op(op).stream] -= steps_[i].time;
    }
    prefix->streams[Op(op).stream] = prefix->ends[i];
    prefix->live.Run(op);
    prefix->ops ^= HashOf(op);
    trace_.emplace_back(op, prefix->trace);
    prefix->trace = static_cast<int>(trace_.size()) - 1;
    std::erase(prefix->ready, op);
    for (int user : a_.After(op)) {
      if (--prefix->waiting[static_cast<size_t>(user)] == 0 && static_cast<size_t>(user) < end_)
        prefix->ready.push_back(user);
    }
  }

  // Appends one op to every prefix; false if every op takes too much memory.
  bool Grow() {
    std::vector<Child> children;
    for (size_t p = 0; p < beam_.size(); ++p) AddChildren(p, &children);
    if (children.empty()) return false;
    std::stable_sort(children.begin(), children.end(), [](const Child& x, const Child& y) {
      return std::tie(x.end, x.stream, x.live) < std::tie(y.end, y.stream, y.live);
    });
    if (width_ == 1) {
      Place(&beam_[0], children[0].op);
      return true;
    }
    DropDominated(&children);
    if (children.size() > width_) children.resize(width_);
    std::vector<Prefix> next;
    next.reserve(children.size());
    for (const Child& child : children) {
      next.push_back(beam_[child.parent]);
      Place(&next.back(), child.op);
    }
    beam_ = std::move(next);
    return true;
  }

  const Arrangement& a_;
  const std::vector<TimedStep>& steps_;
  const PeerTimes& peers_;
  const int64_t limit_;
  const std::vector<double> way_;
  size_t width_ = 1;
  std::vector<Prefix> beam_;                // best first
  std::vector<std::pair<int, int>> trace_;  // ops, each with the index of the previous one in its prefix
  size_t end_ = 0;                          // end of the segment
};

}  // namespace

std::optional<std::vector<int>> BeamOrder(const Arrangement& arrangement, const MemoryModel& model,
                                          const Estimates& estimates, int64_t limit) {
  return BeamSearch(arrangement, model, estimates, limit).Run();
}

}  // namespace rondo
