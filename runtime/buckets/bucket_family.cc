#include "runtime/buckets/bucket_family.h"

#include <algorithm>
#include <utility>

namespace rondo {
namespace {

using PaddedPort = BucketFamily::PaddedPort;

Status Contradicts(const std::string& family, const char* what) {
  return Status::Error(Code::kCorrupt, "buckets of \"%.200s\": %s", family.c_str(), what);
}

// The ports of one direction, with what the note says about them.
Status PortsOf(const BucketNote& note, bool outputs, std::vector<BucketPort> given,
               std::vector<PaddedPort>* ports) {
  for (BucketPort& port : given) {
    ports->push_back({std::move(port), {}, static_cast<uint32_t>(ports->size()), kNone});
    for (uint32_t l = 0; l < note.lengths.size() && !outputs; ++l) {
      PaddedPort& made = ports->back();
      if (note.lengths[l].input.empty() || note.lengths[l].input != made.plan.name) continue;
      if (made.plan.dtype != DType::kI64 || made.plan.shape.rank != 0)
        return Contradicts(note.family, "an input that takes a length is no i64 []");
      made.length = l;
    }
  }
  std::stable_partition(ports->begin(), ports->end(),
                        [](const PaddedPort& port) { return port.length == kNone; });
  std::vector<int64_t> rooms;
  for (const BucketLength& length : note.lengths) rooms.push_back(length.room);
  for (const BucketDim& dim : note.dims) {
    if (dim.output != outputs) continue;
    const auto port = std::find_if(ports->begin(), ports->end(),
                                   [&](const PaddedPort& p) { return p.plan.name == dim.port; });
    if (port == ports->end()) continue;  // belongs to another device, or was dropped
    if (dim.dim >= static_cast<uint32_t>(port->plan.shape.rank))
      return Contradicts(note.family, "a port has fewer dimensions than its note says");
    if (dim.Of(rooms.data()) != port->plan.shape[static_cast<int>(dim.dim)])
      return Contradicts(note.family, "a port has another size than its note says");
    port->dims.push_back(dim);
  }
  return Status::Ok();
}

// Whether both have the same ports, in the same order.
bool SamePorts(const std::vector<PaddedPort>& a, const std::vector<PaddedPort>& b) {
  const auto given = [](const std::vector<PaddedPort>& ports) {
    return std::find_if(ports.begin(), ports.end(), [](const PaddedPort& p) { return p.length != kNone; });
  };
  return std::equal(a.begin(), given(a), b.begin(), given(b),
                    [](const PaddedPort& x, const PaddedPort& y) { return x.plan.name == y.plan.name; });
}

bool LessRoom(const BucketFamily::Bucket& a, const BucketFamily::Bucket& b) { return a.rooms < b.rooms; }

template <typename Ports>
uint32_t Find(const Ports& ports, std::string_view name) {
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (ports[i].plan.name == name) return ports[i].length == kNone ? i : kNone;
  }
  return kNone;
}

}  // namespace

Shape BucketFamily::PaddedPort::ShapeOf(const Choice& choice) const {
  Shape shape = plan.shape;
  for (const BucketDim& dim : dims) shape[static_cast<int>(dim.dim)] = dim.Of(choice.lengths);
  return shape;
}

Result<BucketFamily> BucketFamily::Make(std::vector<BucketProgram> programs) {
  BucketFamily family;
  family.name_ = programs[0].note.family;
  for (const BucketLength& length : programs[0].note.lengths) family.lengths_.push_back(length.name);
  if (family.lengths_.size() > kMostLengths) return Contradicts(family.name_, "more than 8 lengths");
  for (BucketProgram& program : programs) {
    Bucket& bucket = family.buckets_.emplace_back();
    bucket.program = program.program;
    for (size_t l = 0; l < program.note.lengths.size(); ++l) {
      if (l >= family.lengths_.size() || program.note.lengths[l].name != family.lengths_[l])
        return Contradicts(family.name_, "programs have different lengths");
      bucket.rooms.push_back(program.note.lengths[l].room);
    }
    if (bucket.rooms.size() != family.lengths_.size())
      return Contradicts(family.name_, "programs have different lengths");
    RONDO_RETURN_IF_ERROR(PortsOf(program.note, false, std::move(program.inputs), &bucket.inputs));
    RONDO_RETURN_IF_ERROR(PortsOf(program.note, true, std::move(program.outputs), &bucket.outputs));
  }
  std::sort(family.buckets_.begin(), family.buckets_.end(), LessRoom);
  for (size_t b = 1; b < family.buckets_.size(); ++b) {
    const Bucket &one = family.buckets_[b - 1], &next = family.buckets_[b];
    if (one.rooms == next.rooms) return Contradicts(family.name_, "two programs have the same room");
    if (!SamePorts(one.inputs, next.inputs) || !SamePorts(one.outputs, next.outputs))
      return Contradicts(family.name_, "programs have different ports");
  }
  RONDO_RETURN_IF_ERROR(family.FindReadings());
  RONDO_RETURN_IF_ERROR(family.MakeGrid());
  return family;
}

// The largest bucket has room for more than one of each length, so that its note says how all dims are made
// up.
Status BucketFamily::FindReadings() {
  const Bucket& largest = buckets_.back();
  readings_.resize(lengths_.size());
  for (uint32_t l = 0; l < lengths_.size(); ++l) {
    bool found = largest.rooms[l] == 1;
    for (uint32_t i = 0; i < largest.inputs.size(); ++i) {
      for (const BucketDim& dim : largest.inputs[i].dims) {
        const bool reads = !found && !largest.inputs[i].plan.is_state && dim.terms.size() == 1 &&
                           dim.terms[0].length == l && dim.over == 1 && dim.terms[0].times > 0;
        if (!reads) continue;
        readings_[l] = {i, dim.dim, dim.terms[0].times, dim.plus};
        found = true;
      }
    }
    if (!found) return Contradicts(name_, "a length is no dimension of an input");
    if (largest.rooms[l] == 1) readings_[l].times = 0;
  }
  return Status::Ok();
}

Status BucketFamily::MakeGrid() {
  rooms_.resize(lengths_.size());
  size_t cells = 1;
  for (size_t l = 0; l < lengths_.size(); ++l) {
    for (const Bucket& bucket : buckets_) rooms_[l].push_back(bucket.rooms[l]);
    std::sort(rooms_[l].begin(), rooms_[l].end());
    rooms_[l].erase(std::unique(rooms_[l].begin(), rooms_[l].end()), rooms_[l].end());
    cells *= rooms_[l].size();
    if (cells > buckets_.size()) break;
  }
  // Buckets are in order, and must be all combinations.
  if (cells != buckets_.size()) return Contradicts(name_, "not all combinations of lengths are there");
  return Status::Ok();
}

Result<BucketFamily::Choice> BucketFamily::ChooseFor(Span<const int64_t> lengths) const {
  Choice choice;
  size_t cell = 0;
  for (size_t l = 0; l < lengths_.size(); ++l) {
    const std::vector<int64_t>& rooms = rooms_[l];
    choice.lengths[l] = lengths[l];
    const auto room = std::lower_bound(rooms.begin(), rooms.end(), lengths[l]);
    if (lengths[l] < 1 || room == rooms.end()) {
      return Status::Error(Code::kInvalidArgument,
                           "\"%.100s\" is %lld; the buckets of \"%.100s\" are for 1 to %lld",
                           lengths_[l].c_str(), static_cast<long long>(lengths[l]), name_.c_str(),
                           static_cast<long long>(rooms.back()));
    }
    cell = cell * rooms.size() + static_cast<size_t>(room - rooms.begin());
  }
  choice.bucket = static_cast<uint32_t>(cell);
  return choice;
}

Status BucketFamily::Check(const Choice& choice, const PaddedPort& port, const Shape& shape) const {
  const Shape wanted = port.ShapeOf(choice);
  if (wanted == shape) return Status::Ok();
  char given[128], expected[128];
  std::string lengths;
  for (size_t l = 0; l < lengths_.size(); ++l)
    lengths += (l == 0 ? "" : ", ") + lengths_[l] + "=" + std::to_string(choice.lengths[l]);
  return Status::Error(Code::kInvalidArgument, "input \"%.100s\" has shape %s; with %.200s it is %s",
                       port.plan.name.c_str(), Format(shape, given, sizeof given), lengths.c_str(),
                       Format(wanted, expected, sizeof expected));
}

Result<BucketFamily::Choice> BucketFamily::Choose(Span<const Input> inputs) const {
  const std::vector<PaddedPort>& ports = buckets_.back().inputs;
  int64_t lengths[kMostLengths];
  bool known[kMostLengths] = {};
  const auto number_of = [&](const Input& input) {
    return input.name.empty() ? input.index : Find(ports, input.name);
  };
  for (const Input& input : inputs) {
    const uint32_t at = number_of(input);
    if (at >= ports.size()) {
      return Status::Error(Code::kNotFound, "\"%.200s\" has no input \"%.*s\"", name_.c_str(),
                           static_cast<int>(std::min<size_t>(input.name.size(), 200)), input.name.data());
    }
    for (size_t l = 0; l < lengths_.size(); ++l) {
      const Reading& reading = readings_[l];
      if (reading.times == 0 || reading.input != at) continue;
      if (reading.dim >= static_cast<uint32_t>(input.shape.rank)) {
        return Status::Error(Code::kInvalidArgument, "input \"%.200s\" has %d dimensions; the model's has %d",
                             ports[at].plan.name.c_str(), input.shape.rank, ports[at].plan.shape.rank);
      }
      const int64_t dim = std::max<int64_t>(input.shape[static_cast<int>(reading.dim)], 0) - reading.plus;
      lengths[l] = dim % reading.times == 0 ? dim / reading.times : 0;
      known[l] = true;
    }
  }
  for (size_t l = 0; l < lengths_.size(); ++l) {
    if (readings_[l].times == 0) {
      lengths[l] = 1;
    } else if (!known[l]) {
      return Status::Error(Code::kInvalidArgument,
                           "input \"%.200s\", which says what \"%.100s\" is, is not given",
                           ports[readings_[l].input].plan.name.c_str(), lengths_[l].c_str());
    }
  }
  RONDO_ASSIGN_OR_RETURN(const Choice choice, ChooseFor({lengths, lengths_.size()}));
  for (const Input& input : inputs)
    RONDO_RETURN_IF_ERROR(Check(choice, buckets_.back().inputs[number_of(input)], input.shape));
  return choice;
}

Result<BucketFamily::Choice> BucketFamily::ChooseTogether(Span<const BucketPart> parts,
                                                          uint32_t length) const {
  if (parts.empty() || parts.size() > kMostParts || length >= lengths_.size()) {
    return Status::Error(Code::kInvalidArgument,
                         "%zu parts of a run along length %u; \"%.100s\" takes 1 to %zu along one of %zu",
                         parts.size(), length, name_.c_str(), kMostParts, lengths_.size());
  }
  Choice all;
  for (size_t p = 0; p < parts.size(); ++p) {
    auto own = Choose(parts[p].inputs);
    if (!own.ok()) return own.status().At("part %zu", p);
    for (size_t l = 0; l < lengths_.size(); ++l) {
      if (p == 0 || l == length) {
        all.lengths[l] += own->lengths[l];
      } else if (all.lengths[l] != own->lengths[l]) {
        return Status::Error(
            Code::kInvalidArgument,
            "part %zu has \"%.100s\" %lld, part 0 %lld: parts of a run differ in \"%.100s\" alone", p,
            lengths_[l].c_str(), static_cast<long long>(own->lengths[l]),
            static_cast<long long>(all.lengths[l]), lengths_[length].c_str());
      }
    }
  }
  return ChooseFor({all.lengths, lengths_.size()});
}

uint32_t BucketFamily::FindLength(std::string_view name) const {
  for (uint32_t l = 0; l < lengths_.size(); ++l) {
    if (lengths_[l] == name) return l;
  }
  return kNone;
}

uint32_t BucketFamily::FindInput(std::string_view name) const { return Find(buckets_.back().inputs, name); }
uint32_t BucketFamily::FindOutput(std::string_view name) const { return Find(buckets_.back().outputs, name); }

Result<std::vector<BucketFamily>> FamiliesOf(std::vector<BucketProgram> programs) {
  std::vector<BucketFamily> families;
  for (size_t first = 0; first < programs.size(); ++first) {
    const std::string name = programs[first].note.family;
    if (name.empty()) continue;  // taken
    std::vector<BucketProgram> own;
    for (size_t i = first; i < programs.size(); ++i) {
      if (programs[i].note.family != name) continue;
      own.push_back(std::move(programs[i]));
      programs[i].note.family.clear();
    }
    RONDO_ASSIGN_OR_RETURN(BucketFamily family, BucketFamily::Make(std::move(own)));
    families.push_back(std::move(family));
  }
  return families;
}

Result<std::vector<BucketFamily>> FamiliesOf(const PlanData& plan) {
  std::vector<BucketProgram> programs;
  for (uint32_t p = 0; p < CountPrograms(plan); ++p) {
    const Program& program = plan.programs[p];
    BucketProgram found;
    found.program = p;
    bool is_bucket = false;
    const auto describe = [&](Span<const Port> ports, std::vector<BucketPort>* to) {
      for (const Port& port : ports) {
        const Buffer& buffer = plan.buffers[port.buffer];
        to->push_back({std::string(port.name), buffer.dtype, buffer.shape, port.is_state});
        if (is_bucket || buffer.source >= plan.sources.size()) continue;
        std::optional<BucketNote> note = ParseBucketNote(plan.sources[buffer.source]);
        is_bucket = note.has_value();
        if (is_bucket) found.note = std::move(*note);
      }
    };
    describe(program.inputs, &found.inputs);
    describe(program.outputs, &found.outputs);
    if (is_bucket) programs.push_back(std::move(found));
  }
  return FamiliesOf(std::move(programs));
}

std::map<std::string, int64_t> RoomsOf(const PlanData& plan, uint32_t program) {
  std::map<std::string, int64_t> rooms;
  const Result<std::vector<BucketFamily>> families = FamiliesOf(plan);
  if (!families.ok()) return rooms;
  for (const BucketFamily& family : *families) {
    for (const BucketFamily::Bucket& bucket : family.buckets()) {
      for (const PaddedPort& port : bucket.inputs) {
        if (bucket.program == program && port.length != kNone)
          rooms[port.plan.name] = bucket.rooms[port.length];
      }
    }
  }
  return rooms;
}

Result<BucketFamily> FindFamily(Result<std::vector<BucketFamily>> families, std::string_view name) {
  if (!families.ok()) return families.status();
  std::string names;
  for (BucketFamily& family : *families) {
    if (family.name() == name || (name.empty() && families->size() == 1)) return std::move(family);
    names += (names.empty() ? "\"" : "\", \"") + family.name();
  }
  if (names.empty())
    return Status::Error(Code::kNotFound,
                         "the plan has no buckets: compile it with several sizes of a dimension, as in "
                         "--shape batch=1,4,16");
  return Status::Error(Code::kNotFound, "the plan has buckets of %.400s\"; \"%.*s\" is none of them",
                       names.c_str(), static_cast<int>(name.size() < 200 ? name.size() : 200), name.data());
}

}  // namespace rondo
