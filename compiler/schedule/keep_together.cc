#include "compiler/schedule/keep_together.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <vector>

#include "compiler/schedule/least_memory.h"

namespace rondo {
namespace {

constexpr std::string_view kPrefix = "together ";

// Ops that go as one: a region's, a loop's, and what must run between them.
class Units {
 public:
  explicit Units(const LoweredProgram& program) : p_(program), unit_(program.ops.size()) {
    std::iota(unit_.begin(), unit_.end(), 0);
    std::map<std::string, int> first;
    std::map<int, int> first_of_loop;
    for (int i = 0; i < Count(); ++i) {
      const LoweredOp& op = p_.ops[static_cast<size_t>(i)];
      const std::string region = RegionOf(op);
      if (!region.empty()) Join(first.emplace(region, i).first->second, i);
      if (op.loop >= 0) Join(first_of_loop.emplace(op.loop, i).first->second, i);
    }
    while (JoinCycles()) {
    }
  }

  int Of(int op) { return Root(op); }

  // Units as early as their deps allow, those first whose last op stood first.
  std::vector<int> Order() {
    const auto count = static_cast<size_t>(Count());
    std::vector<std::vector<int>> members(count), later(count);
    std::vector<int> waits(count, 0);
    for (const auto& [unit, before] : Edges()) {
      later[static_cast<size_t>(before)].push_back(unit);
      ++waits[static_cast<size_t>(unit)];
    }
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
    for (int i = 0; i < Count(); ++i) members[static_cast<size_t>(Root(i))].push_back(i);
    const auto offer = [&](int unit) { ready.emplace(members[static_cast<size_t>(unit)].back(), unit); };
    for (int i = 0; i < Count(); ++i) {
      if (Root(i) == i && waits[static_cast<size_t>(i)] == 0) offer(i);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      const int unit = ready.top().second;
      ready.pop();
      order.insert(order.end(), members[static_cast<size_t>(unit)].begin(),
                   members[static_cast<size_t>(unit)].end());
      for (int next : later[static_cast<size_t>(unit)]) {
        if (--waits[static_cast<size_t>(next)] == 0) offer(next);
      }
    }
    return order;
  }

 private:
  int Count() const { return static_cast<int>(unit_.size()); }
  int Root(int op) {
    while (unit_[static_cast<size_t>(op)] != op) {
      int& up = unit_[static_cast<size_t>(op)];
      up = unit_[static_cast<size_t>(up)];
      op = up;
    }
    return op;
  }
  void Join(int a, int b) { unit_[static_cast<size_t>(Root(b))] = Root(a); }

  // {unit, one it waits for}, each once.
  std::set<std::pair<int, int>> Edges() {
    std::set<std::pair<int, int>> edges;
    for (int i = 0; i < Count(); ++i) {
      for (int d : p_.ops[static_cast<size_t>(i)].deps) {
        if (Root(d) != Root(i)) edges.emplace(Root(i), Root(d));
      }
    }
    return edges;
  }

  // Of units that wait for one another, and all that stands between, one; false if there are none. What never
  // gets its turn, forwards and backwards, is on a cycle or between two.
  bool JoinCycles() {
    const std::set<std::pair<int, int>> edges = Edges();
    std::set<std::pair<int, int>> left = edges;
    for (bool backwards : {false, true}) {
      std::map<int, std::vector<int>> later;
      std::map<int, int> waits;
      for (const auto& [unit, before] : left) {
        later[backwards ? unit : before].push_back(backwards ? before : unit);
        ++waits[backwards ? before : unit];
        waits.try_emplace(backwards ? unit : before, 0);
      }
      std::vector<int> free;
      for (const auto& [unit, count] : waits) {
        if (count == 0) free.push_back(unit);
      }
      for (size_t next = 0; next < free.size(); ++next) {
        for (int unit : later[free[next]]) {
          if (--waits[unit] == 0) free.push_back(unit);
        }
      }
      const std::set<int> done(free.begin(), free.end());
      std::erase_if(left,
                    [&](const auto& edge) { return done.count(edge.first) + done.count(edge.second) > 0; });
    }
    for (const auto& [unit, before] : left) Join(before, unit);
    return !left.empty();
  }

  const LoweredProgram& p_;
  std::vector<int> unit_;  // by op: towards its unit's first
};

}  // namespace

std::string RegionOf(const LoweredOp& op) {
  const auto keep = op.annotations.find("keep");
  return keep == op.annotations.end() || keep->second.rfind(kPrefix, 0) != 0 ? "" : keep->second;
}

std::string KeepTogether(LoweredProgram* program) {
  std::map<std::string, int> said;  // by region: ops
  for (const LoweredOp& op : program->ops) {
    if (const std::string region = RegionOf(op); !region.empty()) ++said[region];
  }
  if (said.empty()) return "nothing is to be kept together";
  Units units(*program);
  std::map<int, std::string> region_of;  // by unit
  for (size_t i = 0; i < program->ops.size(); ++i) {
    const std::string region = RegionOf(program->ops[i]);
    if (!region.empty()) region_of.emplace(units.Of(static_cast<int>(i)), region);
  }
  int added = 0;
  for (size_t i = 0; i < program->ops.size(); ++i) {
    const auto region = region_of.find(units.Of(static_cast<int>(i)));
    if (region == region_of.end() || RegionOf(program->ops[i]) == region->second) continue;
    added += RegionOf(program->ops[i]).empty();
    program->ops[i].annotations["keep"] = region->second;
  }
  Reorder(units.Order(), program);
  std::string text;
  for (const auto& [region, count] : said)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + (count == 1 ? " step " : " steps ") + region;
  return text + (added > 0 ? "; with " + std::to_string(added) + " between them" : "");
}

std::string RegionParted(const LoweredProgram& program) {
  std::set<std::string> over;
  std::string now;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const std::string region = RegionOf(program.ops[i]);
    if (region == now) continue;
    if (!now.empty()) over.insert(now);
    if (over.count(region) != 0) {
      const LoweredOp& before = program.ops[i - 1];
      return "op " + std::to_string(i - 1) + (before.sources.empty() ? "" : " (" + before.sources[0] + ")") +
             " stands between ops that are kept " + region;
    }
    now = region;
  }
  return "";
}

}  // namespace rondo
