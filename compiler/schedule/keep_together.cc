#include "compiler/schedule/keep_together.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <vector>

#include "compiler/ir/node_annotation.h"
#include "compiler/schedule/least_memory.h"

namespace rondo {
namespace {

using Places = std::vector<std::vector<std::string>>;  // by op: the places that hold it, outermost first

// Divides ops into units that run together: the ops of a place, those of a loop, and what must run between
// them. An op that must run between ops of a place joins the place.
class Units {
 public:
  // `level`: the number of places that hold all of these ops.
  Units(const LoweredProgram& program, std::vector<int> ops, size_t level, Places* places)
      : p_(program), ops_(std::move(ops)), level_(level), places_(*places), unit_(program.ops.size(), -1) {
    for (int i : ops_) unit_[static_cast<size_t>(i)] = i;
    std::map<std::string, int> first;
    std::map<int, int> first_of_loop;
    for (int i : ops_) {
      if (const std::string place = PlaceOf(i); !place.empty())
        Join(first.emplace(place, i).first->second, i);
      const int loop = p_.ops[static_cast<size_t>(i)].loop;
      if (loop >= 0) Join(first_of_loop.emplace(loop, i).first->second, i);
    }
    while (JoinCycles()) {
    }
    std::map<int, std::string> place_of;  // by unit
    for (const auto& [place, op] : first) place_of.emplace(Root(op), place);
    for (int i : ops_) {
      const auto place = place_of.find(Root(i));
      if (place == place_of.end() || PlaceOf(i) == place->second) continue;
      std::vector<std::string>& all = places_[static_cast<size_t>(i)];
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(level_), place->second);
    }
  }

  // Appends units as early as their deps allow, in the order of their last ops, and likewise the ops in each
  // place.
  void AppendTo(std::vector<int>* order) {
    std::map<int, std::vector<int>> members, later;
    std::map<int, int> waits;
    for (int i : ops_) members[Root(i)].push_back(i);
    for (const auto& [unit, before] : Edges()) {
      later[before].push_back(unit);
      ++waits[unit];
    }
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
    for (const auto& [unit, ops] : members) {
      if (waits.count(unit) == 0) ready.emplace(ops.back(), unit);
    }
    while (!ready.empty()) {
      const int unit = ready.top().second;
      ready.pop();
      const std::vector<int>& ops = members[unit];
      if (PlaceOf(ops[0]).empty()) {
        order->insert(order->end(), ops.begin(), ops.end());
      } else {
        Units(p_, ops, level_ + 1, &places_).AppendTo(order);
      }
      for (int next : later[unit]) {
        if (--waits[next] == 0) ready.emplace(members[next].back(), next);
      }
    }
  }

 private:
  std::string PlaceOf(int op) const {
    const std::vector<std::string>& all = places_[static_cast<size_t>(op)];
    return all.size() > level_ ? all[level_] : "";
  }
  int Root(int op) {
    while (unit_[static_cast<size_t>(op)] != op) {
      int& up = unit_[static_cast<size_t>(op)];
      up = unit_[static_cast<size_t>(up)];
      op = up;
    }
    return op;
  }
  void Join(int a, int b) { unit_[static_cast<size_t>(Root(b))] = Root(a); }

  // {unit, a unit that it waits for}, each once.
  std::set<std::pair<int, int>> Edges() {
    std::set<std::pair<int, int>> edges;
    for (int i : ops_) {
      for (int d : p_.ops[static_cast<size_t>(i)].deps) {
        if (unit_[static_cast<size_t>(d)] >= 0 && Root(d) != Root(i)) edges.emplace(Root(i), Root(d));
      }
    }
    return edges;
  }

  // Joins units that wait for each other, and all units between them; false if there are none. A unit that is
  // never free, in either direction, is on a cycle or between two cycles.
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
  const std::vector<int> ops_;  // ascending
  const size_t level_;
  Places& places_;
  std::vector<int> unit_;  // by op: a link towards the first op of its unit; -1: not one of `ops_`
};

}  // namespace

std::string RegionOf(const LoweredOp& op) {
  const auto region = op.annotations.find(kRegionKey);
  return region == op.annotations.end() ? "" : region->second;
}

std::string KeepTogether(LoweredProgram* program) {
  Places places;
  std::map<std::string, int> said;  // ops by the places that hold them
  for (const LoweredOp& op : program->ops) {
    places.push_back(ir::PlacesIn(RegionOf(op)));
    if (!places.back().empty()) ++said[RegionOf(op)];
  }
  if (said.empty()) return "nothing is to be kept together";
  std::vector<int> ops(program->ops.size()), order;
  std::iota(ops.begin(), ops.end(), 0);
  Units(*program, ops, 0, &places).AppendTo(&order);
  int added = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    const std::string region = ir::RegionOfPlaces(places[i]);
    if (region == RegionOf(program->ops[i])) continue;
    program->ops[i].annotations[kRegionKey] = region;
    ++added;
  }
  Reorder(order, program);
  std::string text;
  for (const auto& [region, count] : said)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + (count == 1 ? " step in " : " steps in ") +
            region;
  return text + (added > 0 ? "; with " + std::to_string(added) + " between them" : "");
}

std::string RegionParted(const LoweredProgram& program) {
  std::set<std::vector<std::string>> over;
  std::vector<std::string> now;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const std::vector<std::string> places = ir::PlacesIn(RegionOf(program.ops[i]));
    size_t shared = 0;
    while (shared < std::min(now.size(), places.size()) && now[shared] == places[shared]) ++shared;
    for (; now.size() > shared; now.pop_back()) over.insert(now);
    for (; shared < places.size(); ++shared) {
      now.push_back(places[shared]);
      if (over.count(now) == 0) continue;
      const LoweredOp& before = program.ops[i - 1];
      return "op " + std::to_string(i - 1) + (before.sources.empty() ? "" : " (" + before.sources[0] + ")") +
             " stands between ops of " + ir::RegionOfPlaces(now);
    }
  }
  return "";
}

}  // namespace rondo
