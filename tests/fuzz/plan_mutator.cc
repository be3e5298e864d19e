#include "tests/fuzz/plan_mutator.h"

#include <algorithm>
#include <cstring>

#include "core/arena.h"
#include "formats/plan/certificate.h"
#include "formats/plan/decode.h"
#include "formats/plan/encode.h"
#include "tests/fuzz/plan_bytes.h"
#include "tests/fuzz/plan_fields.h"

namespace rondo::fuzz {
namespace {

int64_t Load(const Field& field) {
  uint64_t value = 0;
  std::memcpy(&value, field.at, field.bytes);
  return static_cast<int64_t>(value);
}
void Store(const Field& field, int64_t value) { std::memcpy(field.at, &value, field.bytes); }

int64_t NewIndex(const Field& field, Random& random) {
  switch (random.Below(8)) {
    case 0: return static_cast<int64_t>(field.range);
    case 1: return -1;  // none
    case 2: return random.Integer(Load(field));
    default: return static_cast<int64_t>(random.Below(field.range));
  }
}

// Removes, repeats, swaps or overwrites entries. Works for any T, because a Span is a pointer and a count.
void ChangeList(const Field& field, Arena& arena, Random& random) {
  using Raw = Span<const uint8_t>;
  Raw list;
  std::memcpy(static_cast<void*>(&list), field.at, sizeof(list));
  const size_t n = field.entries, entry = field.entry;
  const uint8_t* from = list.data();
  const size_t at = random.Below(n), other = random.Below(n);
  auto make = [&](size_t count) { return static_cast<uint8_t*>(arena.Allocate(count * entry, 16)); };
  uint8_t* to = make(n + 1);
  if (n == 0 || to == nullptr) return;
  size_t count = n;
  switch (random.Below(5)) {
    case 0:  // remove an entry
      std::memcpy(to, from, at * entry);
      std::memcpy(to + at * entry, from + (at + 1) * entry, (n - at - 1) * entry);
      count = n - 1;
      break;
    case 1:  // repeat an entry
      std::memcpy(to, from, (at + 1) * entry);
      std::memcpy(to + (at + 1) * entry, from + at * entry, (n - at) * entry);
      count = n + 1;
      break;
    case 2:  // swap two entries
      std::memcpy(to, from, n * entry);
      std::memcpy(to + at * entry, from + other * entry, entry);
      std::memcpy(to + other * entry, from + at * entry, entry);
      break;
    case 3:  // overwrite an entry
      std::memcpy(to, from, n * entry);
      std::memcpy(to + at * entry, from + other * entry, entry);
      break;
    default:  // cut
      std::memcpy(to, from, at * entry);
      count = at;
      break;
  }
  list = Raw(to, count);
  std::memcpy(field.at, static_cast<const void*>(&list), sizeof(list));
}

void ChangeText(const Field& field, const std::vector<Field>& all, Random& random) {
  std::string_view& text = *static_cast<std::string_view*>(field.at);
  const Field& other = all[random.Below(all.size())];
  switch (random.Below(4)) {
    case 0: text = ""; break;
    case 1: text = text.substr(0, random.Below(text.size() + 1)); break;
    case 2: text = "../%s%n\xff\xfe \"quoted\""; break;
    default:
      if (other.kind == FieldKind::kText) text = *static_cast<std::string_view*>(other.at);
      break;
  }
}

// A new number is often another number of the plan: a neighbour's stride, another buffer's offset.
int64_t NewNumber(const Field& field, const std::vector<Field>& all, Random& random) {
  if (random.OneIn(3)) {
    const Field& other = all[random.Below(all.size())];
    if (other.kind == FieldKind::kNumber) return Load(other);
  }
  int64_t old = Load(field);
  if (field.bytes == 8)
    return random.OneIn(4) ? old + 64 * (1 - 2 * static_cast<int64_t>(random.Below(2))) : random.Integer(old);
  return random.Integer(old);
}

void Change(const Field& field, const std::vector<Field>& all, Arena& arena, Random& random) {
  switch (field.kind) {
    case FieldKind::kIndex: Store(field, NewIndex(field, random)); return;
    case FieldKind::kNumber: Store(field, NewNumber(field, all, random)); return;
    case FieldKind::kEnum:
      *static_cast<uint8_t*>(field.at) =
          static_cast<uint8_t>(random.OneIn(16) ? random.Next() : random.Below(field.range + 1));
      return;
    case FieldKind::kFlag: *static_cast<bool*>(field.at) ^= true; return;
    case FieldKind::kReal:
      if (field.bytes == 8) {
        *static_cast<double*>(field.at) = random.Real(*static_cast<double*>(field.at));
      } else {
        *static_cast<float*>(field.at) = static_cast<float>(random.Real(*static_cast<float*>(field.at)));
      }
      return;
    case FieldKind::kText: ChangeText(field, all, random); return;
    case FieldKind::kList: ChangeList(field, arena, random); return;
  }
}

// A random field; each group of fields is equally likely.
const Field& Pick(const std::vector<Field>& fields, Random& random) {
  std::vector<uint32_t> groups;
  for (const Field& field : fields) groups.push_back(field.group);
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  const uint32_t group = groups[random.Below(groups.size())];
  std::vector<const Field*> members;
  for (const Field& field : fields) {
    if (field.group == group) members.push_back(&field);
  }
  return *members[random.Below(members.size())];
}

// Makes the certificates right again, so that changed collectives get past them. They are digests.
void Certify(PlanData* plan, Random& random) {
  for (const Program& program : plan->programs) {
    if (program.certificates.empty() || random.OneIn(8)) continue;
    for (uint32_t device = 0; device < program.certificates.size(); ++device) {
      const_cast<uint64_t&>(program.certificates[device]) = OrderCertificate(program, device);
    }
  }
}

bool MutateFields(PlanParts* parts, Random& random) {
  Arena arena;
  PlanData plan;
  const Bytes aligned = parts->flatbuffer;  // the copy is aligned to 16 bytes
  if (!DecodePlan({aligned.data(), aligned.size()}, {parts->code.data(), parts->code.size()}, arena, &plan)
           .ok())
    return false;
  for (uint64_t changes = 1 + (random.OneIn(2) ? random.Below(3) : 0); changes > 0; --changes) {
    const std::vector<Field> fields = FieldsOf(&plan);
    Change(Pick(fields, random), fields, arena, random);
  }
  const auto keep_room = [](const Shape& shape) {  // a Shape holds no more dims
    const_cast<Shape&>(shape).rank = std::clamp(shape.rank, 0, kMaxRank);
  };
  for (const Buffer& buffer : plan.buffers) keep_room(buffer.shape);
  for (const CustomOp& op : plan.custom_ops) {
    for (const CustomArgument& a : op.arguments) keep_room(a.shape);
    for (const CustomAttribute& a : op.attributes) keep_room(a.shape);
  }
  Certify(&plan, random);
  return EncodePlan(plan, &parts->flatbuffer).ok();
}

}  // namespace

Bytes MutatePlan(Span<const uint8_t> file, Random& random) {
  const uint64_t way = random.Below(100);
  PlanParts parts;
  if (way < 5 || !TakeApart(file, &parts)) {
    Bytes bytes = MutateBytes(file, random);
    if (random.OneIn(2)) Reseal(&bytes);
    return bytes;
  }
  if (way < 15 || !MutateFields(&parts, random)) parts.flatbuffer = MutateBytes(parts.flatbuffer, random);
  return Seal(parts);
}

}  // namespace rondo::fuzz
