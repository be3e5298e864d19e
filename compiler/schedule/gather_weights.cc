#include "compiler/schedule/gather_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/memory/stream_lives.h"
#include "compiler/schedule/keep_together.h"
#include "compiler/schedule/weight_shares.h"
#include "compiler/shard/describe.h"

namespace rondo {
namespace {

constexpr int64_t kWorthGathering = 16 << 10;  // bytes of a weight, for any model
constexpr int64_t kSmallPart = 1000;           // a weight below a thousandth of all weights is small
constexpr int64_t kLeast = 256;
constexpr size_t kLongestPeriod = 4096;

// Whether nothing may run between two adjacent ops.
bool GoTogether(const LoweredOp& before, const LoweredOp& op) {
  return (op.loop >= 0 && op.loop == before.loop) || ir::ShareAPlace(RegionOf(op), RegionOf(before));
}

// A step, or the steps of a loop or region, with the weights that it reads.
struct Item {
  size_t first = 0, end = 0;
  std::vector<int> needs;    // values, ascending
  std::vector<int> gathers;  // those of `needs` that are gathered for it
  int unit = -1;
};

// The repeating layer: the shortest run of items that repeats itself over more than half of all items.
// Returns [begin, end) of its first occurrence, or nothing.
std::pair<size_t, size_t> FindLayer(const std::vector<int>& kinds) {
  std::pair<size_t, size_t> layer = {0, 0};
  size_t covered = kinds.size() / 2;
  for (size_t period = 1; period <= std::min(kinds.size() / 2, kLongestPeriod); ++period) {
    size_t run = 0;
    for (size_t i = 0; i + period < kinds.size(); ++i) {
      run = kinds[i] == kinds[i + period] ? run + 1 : 0;
      if (run < period || run + period <= covered) continue;
      covered = run + period;
      const size_t begin = i + 1 - run;
      layer = {begin, begin + period};
    }
  }
  return layer;
}

// Weights of a unit that one collective gathers.
struct GatheredSet {
  int unit = -1;
  std::vector<int> weights;  // values, in the order of their use
  WeightRow row;
  bool done = false;
};

class Gathering {
 public:
  Gathering(const WeightSharing& sharing, LoweredProgram* program) : sharing_(sharing), p_(*program) {}

  // The weights of each gather, by KeyOf.
  std::vector<std::vector<std::string>> Together() {
    Decide();
    std::vector<std::vector<std::string>> keys;
    for (const GatheredSet& set : sets_) {
      keys.emplace_back();
      for (int v : set.weights) keys.back().push_back(KeyOf(v));
    }
    return keys;
  }

  GatheredWeights Run() {
    Decide();
    Rebuild();
    Describe();
    return std::move(out_);
  }

 private:
  void Decide() {
    FindWorthwhile();
    FindItems();
    out_.layer = BytesOfALayer();
    FindUnits();
    FindSets();
  }

  const LoweredValue& Value(int v) const { return p_.values[static_cast<size_t>(v)]; }
  // Names a weight among the programs of a device; "" if it has no name.
  std::string KeyOf(int v) const {
    const ir::ConstantData& data = *Value(v).constant;
    if (data.name.empty()) return "";
    return data.name + "|" + std::to_string(data.shape.elements()) + "|" +
           std::to_string(data.synthetic_key) + "|" + std::to_string(data.synthetic_run) + "|" +
           std::to_string(data.synthetic_step);
  }
  // Whether the value is this device's own share of a table that is read by index.
  bool IsShare(int v) const { return Value(v).constant != nullptr && Value(v).constant->part_of != nullptr; }
  bool IsWorthwhile(int v) const { return worthwhile_[static_cast<size_t>(v)]; }

  void FindWorthwhile() {
    worthwhile_.assign(p_.values.size(), false);
    std::vector<bool> bound(p_.values.size(), false);
    for (const LoweredOp& op : p_.ops) {
      for (const LoweredBinding& param : op.params) {
        if (Value(param.value).kind != BufferKind::kConstant || bound[static_cast<size_t>(param.value)])
          continue;
        bound[static_cast<size_t>(param.value)] = true;
        if (IsShare(param.value)) out_.held += Value(param.value).bytes;
        all_ += IsShare(param.value) ? Value(param.value).constant->part_of->byte_size()
                                     : Value(param.value).bytes;
      }
    }
    const int64_t least = std::clamp(all_ / kSmallPart, kLeast, kWorthGathering);
    for (size_t v = 0; v < bound.size(); ++v) {
      const bool share = bound[v] && IsShare(static_cast<int>(v));
      worthwhile_[v] = bound[v] && !share && p_.values[v].bytes >= least;
      if (bound[v] && !share && !worthwhile_[v]) small_ += p_.values[v].bytes;
    }
  }

  void FindItems() {
    for (size_t i = 0; i < p_.ops.size();) {
      Item item;
      item.first = i;
      do {
        for (const LoweredBinding& param : p_.ops[i].params) {
          if (IsWorthwhile(param.value)) item.needs.push_back(param.value);
        }
        ++i;
      } while (i < p_.ops.size() && GoTogether(p_.ops[i - 1], p_.ops[i]));
      item.end = i;
      std::sort(item.needs.begin(), item.needs.end());
      item.needs.erase(std::unique(item.needs.begin(), item.needs.end()), item.needs.end());
      items_.push_back(std::move(item));
    }
  }

  int64_t BytesOf(const std::vector<int>& values) const {
    int64_t bytes = 0;
    for (int v : values) bytes += GatheredBytes(v);
    return bytes;
  }
  int64_t OwnElements(int v) const {
    return (Value(v).shape.elements() + sharing_.devices - 1) / sharing_.devices;
  }
  int64_t OwnElements(const GatheredSet& set) const {
    return (set.row.elements + sharing_.devices - 1) / sharing_.devices;
  }
  int64_t OwnBytes(const GatheredSet& set) const {
    return OwnElements(set) * ByteSize(Value(set.weights[0]).dtype);
  }
  std::vector<WeightData> DataOf(const GatheredSet& set) const {
    std::vector<WeightData> data;
    for (int v : set.weights) data.push_back(Value(v).constant);
    return data;
  }
  int64_t GatheredBytes(int v) const { return OwnElements(v) * sharing_.devices * ByteSize(Value(v).dtype); }

  int64_t BytesOfALayer() const {
    std::vector<int> kinds;
    std::vector<const Item*> readers;
    std::map<std::vector<int64_t>, int> kind_of;
    int64_t most = 0;
    for (const Item& item : items_) {
      if (item.needs.empty()) continue;
      std::vector<int64_t> sizes;
      for (int v : item.needs) sizes.push_back(Value(v).bytes);
      kinds.push_back(kind_of.emplace(std::move(sizes), static_cast<int>(kind_of.size())).first->second);
      readers.push_back(&item);
      most = std::max(most, BytesOf(item.needs));
    }
    const auto [begin, end] = FindLayer(kinds);
    if (begin == end) return most;
    std::vector<int> values;
    for (size_t i = begin; i < end; ++i)
      values.insert(values.end(), readers[i]->needs.begin(), readers[i]->needs.end());
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return BytesOf(values);
  }

  // Assigns units along the order. An item's weight is there if the item's unit or the previous one gathers
  // it.
  void FindUnits() {
    std::map<int, int> in_unit;  // by value: the last unit that gathers it
    for (Item& item : items_) {
      if (item.needs.empty()) continue;
      const auto missing = [&](int current) {
        std::vector<int> values;
        for (int v : item.needs) {
          const auto there = in_unit.find(v);
          if (there == in_unit.end() || there->second < current - 1) values.push_back(v);
        }
        return values;
      };
      int current = static_cast<int>(out_.units.size()) - 1;
      item.gathers = missing(current);
      const int64_t more = BytesOf(item.gathers);
      if (current < 0 ||
          (more > 0 && out_.units.back().bytes > 0 && out_.units.back().bytes + more > out_.layer)) {
        out_.units.emplace_back();
        item.gathers = missing(++current);
      }
      item.unit = current;
      out_.units.back().bytes += BytesOf(item.gathers);
      for (int v : item.gathers) in_unit[v] = current;
    }
  }

  // Puts small weights of a unit into one set. A weight that several units gather is alone, so that a device
  // holds its share once.
  void FindSets() {
    std::map<int, int> gathers;  // by value
    for (const Item& item : items_) {
      for (int v : item.gathers) ++gathers[v];
    }
    std::map<DType, size_t> open;  // sets of the unit at hand
    for (const Item& item : items_) {
      for (int v : item.gathers) {
        const int64_t bytes = OwnElements(v) * ByteSize(Value(v).dtype);
        const bool small =
            bytes <= sharing_.together.each && gathers[v] == 1 && sharing_.apart.count(KeyOf(v)) == 0;
        const auto known = open.find(Value(v).dtype);
        const bool joins = small && known != open.end() && sets_[known->second].unit == item.unit &&
                           bytes + OwnBytes(sets_[known->second]) <= sharing_.together.total;
        const size_t set = joins ? known->second : sets_.size();
        if (!joins) sets_.push_back({item.unit, {}, {}});
        if (small) open[Value(v).dtype] = set;
        sets_[set].weights.push_back(v);
        sets_[set].row = RowOf(DataOf(sets_[set]));
        set_of_[{item.unit, v}] = set;
      }
    }
    for (GatheredUnit& unit : out_.units) unit.bytes = 0;
    for (const GatheredSet& set : sets_)
      out_.units[static_cast<size_t>(set.unit)].bytes += OwnBytes(set) * sharing_.devices;
    for (size_t u = 0; u < out_.units.size(); ++u) {
      const int64_t next = u + 1 < out_.units.size() ? out_.units[u + 1].bytes : 0;
      out_.at_once = std::max(out_.at_once, out_.units[u].bytes + next);
    }
  }

  // ----------------------------------------------------------------------------------- the new program

  // All of a weight, where it begins in the value, and the unit for which it is there.
  struct There {
    int value = -1;
    uint64_t offset = 0;  // bytes
    int wait = -1, unit = -1;
  };

  void Rebuild() {
    std::vector<LoweredOp> old = std::move(p_.ops);
    old_collectives_ = std::move(p_.collectives);
    p_.ops.clear();
    p_.collectives.clear();
    readers_.resize(out_.units.size());
    std::vector<int> moved(old.size());                        // by op: its new number
    std::vector<int> renumbered(old_collectives_.size(), -1);  // by collective: its new number
    for (Item& item : items_) {
      for (int v : item.gathers) Gather(&sets_[set_of_.at({item.unit, v})], old[item.first]);
      for (size_t i = item.first; i < item.end; ++i) {
        LoweredOp& op = old[i];
        for (int& dep : op.deps) dep = moved[static_cast<size_t>(dep)];
        moved[i] = static_cast<int>(p_.ops.size());
        Bind(&op);
        if (op.collective >= 0) Renumber(&op, &renumbered);
        p_.ops.push_back(std::move(op));
      }
    }
  }

  // Makes the op read the gathered weights, after they have arrived.
  void Bind(LoweredOp* op) {
    for (LoweredBinding& param : op->params) {
      if (static_cast<size_t>(param.value) >= worthwhile_.size() || !IsWorthwhile(param.value)) continue;
      const There& there = there_.at(param.value);
      param.value = there.value;
      param.byte_offset += there.offset;
      op->deps.push_back(there.wait);
      std::vector<int>& readers = readers_[static_cast<size_t>(there.unit)];
      const int number = static_cast<int>(p_.ops.size());
      if (readers.empty() || readers.back() != number) readers.push_back(number);
    }
    Tidy(&op->deps);
  }

  void Renumber(LoweredOp* op, std::vector<int>* renumbered) {
    int& number = (*renumbered)[static_cast<size_t>(op->collective)];
    if (op->kind == LoweredKind::kCollectiveStart) {
      number = static_cast<int>(p_.collectives.size());
      p_.collectives.push_back(std::move(old_collectives_[static_cast<size_t>(op->collective)]));
      FollowLastStart(op);
    }
    op->collective = number;
  }

  void Gather(GatheredSet* set, const LoweredOp& reader) {
    if (std::exchange(set->done, true)) return;
    const int v = set->weights[0], unit = set->unit;
    const int share = AddShare(*set), whole = AddWhole(*set);
    LoweredOp start;
    start.kind = LoweredKind::kCollectiveStart;
    start.collective = static_cast<int>(p_.collectives.size());
    start.stream = reader.stream;
    start.params = {{share, 0, Mode::kRead}, {whole, 0, Mode::kWrite}};
    start.sources = {"AllGather of the shares of " + NameOf(*set) + ", for " +
                     (reader.sources.empty() ? "a step" : reader.sources.front())};
    if (unit >= 2) start.deps = readers_[static_cast<size_t>(unit - 2)];
    FollowLastStart(&start);
    p_.collectives.push_back({CollectiveOp::kAllGather, Value(v).dtype, Value(share).bytes, sharing_.group});
    const int at = static_cast<int>(p_.ops.size());
    LoweredOp wait = start;
    wait.kind = LoweredKind::kCollectiveWait;
    wait.deps = {at};
    p_.ops.push_back(std::move(start));
    p_.ops.push_back(std::move(wait));
    for (size_t w = 0; w < set->weights.size(); ++w) {
      const int64_t offset = set->row.places[w] * ByteSize(Value(v).dtype);
      there_[set->weights[w]] = {whole, static_cast<uint64_t>(offset), at + 1, unit};
    }
    out_.units[static_cast<size_t>(unit)].values.push_back(whole);
  }

  void FollowLastStart(LoweredOp* start) {
    if (last_start_ >= 0) start->deps.push_back(last_start_);
    Tidy(&start->deps);
    last_start_ = static_cast<int>(p_.ops.size());
  }
  static void Tidy(std::vector<int>* deps) {
    std::sort(deps->begin(), deps->end());
    deps->erase(std::unique(deps->begin(), deps->end()), deps->end());
  }

  std::string NameOf(const GatheredSet& set) const {
    const auto quoted = [&](int v) { return "\"" + Value(v).name + "\""; };
    if (set.weights.size() == 1) return "weight " + quoted(set.weights[0]);
    return std::to_string(set.weights.size()) + " weights, " + quoted(set.weights.front()) + " to " +
           quoted(set.weights.back());
  }

  // The device's share: one value, even if it is gathered several times.
  int AddShare(const GatheredSet& set) {
    const auto [known, added] = shares_.emplace(set.weights[0], -1);
    if (!added) return known->second;
    LoweredValue share = Value(set.weights[0]);
    share.constant = ShareOfRow(DataOf(set), OwnElements(set), sharing_.devices, sharing_.rank);
    share.shape = share.constant->shape;
    share.bytes = share.constant->byte_size();
    if (set.weights.size() > 1) share.name = NameOf(set);
    out_.held += share.bytes;
    return known->second = Add(std::move(share));
  }
  int AddWhole(const GatheredSet& set) {
    LoweredValue whole = Value(set.weights[0]);
    whole.kind = BufferKind::kTemporary;
    whole.constant = nullptr;
    whole.bytes = OwnBytes(set) * sharing_.devices;
    if (set.weights.size() > 1) {
      whole.name = NameOf(set);
      whole.shape = Shape({OwnElements(set) * sharing_.devices});
    }
    return Add(std::move(whole));
  }
  int Add(LoweredValue value) {
    p_.values.push_back(std::move(value));
    return static_cast<int>(p_.values.size()) - 1;
  }

  void Describe() {
    using shard::BytesText;
    out_.held += small_;
    size_t together = 0;
    std::set<int> distinct;
    for (const GatheredSet& set : sets_) {
      together += set.weights.size() > 1 ? set.weights.size() : 0;
      distinct.insert(set.weights.begin(), set.weights.end());
    }
    out_.text = std::to_string(sharing_.devices) + " devices share the weights; each holds " +
                BytesText(out_.held) + " of " + BytesText(all_);
    if (small_ > 0) out_.text += " (" + BytesText(small_) + " of it in small ones, whole)";
    out_.text += " and makes " + std::to_string(sets_.size()) + " gathers of " +
                 std::to_string(distinct.size()) + " weights";
    if (together > 0) out_.text += " (" + std::to_string(together) + " small ones several at a time)";
    out_.text += ", in " + std::to_string(out_.units.size()) + " units of a layer (" + BytesText(out_.layer) +
                 ") at most, or of one step; two units at once are at most " + BytesText(out_.at_once) +
                 ": weights take " + BytesText(out_.held + out_.at_once) + " at their peak";
  }

  const WeightSharing& sharing_;
  LoweredProgram& p_;
  GatheredWeights out_;
  int64_t all_ = 0, small_ = 0;   // bytes of all weights, of those that stay whole
  std::vector<bool> worthwhile_;  // by value of the original program
  std::vector<Item> items_;
  std::vector<GatheredSet> sets_;                 // in the order of their gathers
  std::map<std::pair<int, int>, size_t> set_of_;  // by unit and value
  std::vector<LoweredCollective> old_collectives_;
  std::map<int, There> there_;             // by value: the last place of all of it
  std::map<int, int> shares_;              // by the first value of a set: the device's share
  std::vector<std::vector<int>> readers_;  // by unit: ops
  int last_start_ = -1;                    // of a collective
};

}  // namespace

GatheredWeights GatherWeights(const WeightSharing& sharing, LoweredProgram* program) {
  if (sharing.devices <= 1) return {};
  return Gathering(sharing, program).Run();
}

void GatherAlike(const std::vector<WeightSharing*>& sharing,
                 const std::vector<const LoweredProgram*>& programs) {
  if (programs.size() < 2) return;
  std::vector<LoweredProgram> looked_at;
  for (const LoweredProgram* program : programs) looked_at.push_back(*program);
  std::set<std::string> apart = {""};
  for (size_t before = 0; before != apart.size();) {
    before = apart.size();
    std::map<std::string, std::vector<std::string>> set_of;
    std::vector<std::vector<std::vector<std::string>>> sets;
    for (size_t p = 0; p < programs.size(); ++p) {
      sharing[p]->apart = apart;
      sets.push_back(Gathering(*sharing[p], &looked_at[p]).Together());
    }
    for (const auto& of_program : sets) {
      std::set<std::string> seen;
      for (const std::vector<std::string>& set : of_program) {
        for (const std::string& key : set) {
          const auto [known, added] = set_of.emplace(key, set);
          if (seen.insert(key).second && known->second == set) continue;
          apart.insert(set.begin(), set.end());
          apart.insert(known->second.begin(), known->second.end());
        }
      }
    }
  }
}

std::string GatheredBeyondTwoUnits(const GatheredWeights& gathered, const LoweredProgram& program) {
  if (gathered.units.empty()) return "";
  const StreamOrder order(program);
  const StreamLives lives(program, order, Lifetimes(program));
  const auto name = [&](int v) { return "\"" + program.values[static_cast<size_t>(v)].name + "\""; };
  for (size_t u = 0; u < gathered.units.size(); ++u) {
    for (size_t later = u + 2; later < gathered.units.size(); ++later) {
      for (int a : gathered.units[u].values) {
        for (int b : gathered.units[later].values) {
          if (lives.Before(static_cast<size_t>(a), static_cast<size_t>(b))) continue;
          return "weight " + name(a) + " of unit " + std::to_string(u) + " may still be in use when " +
                 name(b) + " of unit " + std::to_string(later) + " is gathered";
        }
      }
    }
  }
  return "";
}

}  // namespace rondo
