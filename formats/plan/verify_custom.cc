// Custom ops: their arguments, aliases and attributes, and the steps that call them.
#include <cinttypes>

#include "core/rondo_op.h"
#include "formats/plan/verifier.h"
#include "formats/plan/verify_internal.h"

namespace rondo::plan {
namespace {

// Checks that extents are not negative and that the byte count does not overflow.
Status VerifyDense(DType dtype, const Shape& shape, uint64_t* bytes) {
  if (static_cast<int>(dtype) >= kNumDTypes)
    return RONDO_BROKEN("dtype %d is unknown", static_cast<int>(dtype));
  if (shape.rank < 0 || shape.rank > RONDO_OP_MAX_RANK)
    return RONDO_BROKEN("rank %d is not within 0 to %d", shape.rank, RONDO_OP_MAX_RANK);
  *bytes = static_cast<uint64_t>(ByteSize(dtype));
  bool zero = false;
  for (int64_t dim : shape) {
    if (dim < 0) return RONDO_BROKEN("extent %" PRId64 " is negative", dim);
    zero |= dim == 0;
    if (dim != 0 &&
        (__builtin_mul_overflow(*bytes, static_cast<uint64_t>(dim), bytes) || *bytes > kMaxRegionBytes)) {
      return RONDO_BROKEN("it has more than %" PRIu64 " bytes", kMaxRegionBytes);
    }
  }
  if (zero) *bytes = 0;
  return Status::Ok();
}

Status VerifyAttribute(const CustomAttribute& a) {
  if (a.name.empty()) return RONDO_BROKEN("it has no name");
  if (a.kind > AttributeKind::kTensor) return RONDO_BROKEN("kind %d is unknown", static_cast<int>(a.kind));
  const struct {
    size_t count;
    AttributeKind one, many;
  } lists[] = {{a.ints.size(), AttributeKind::kInt, AttributeKind::kInts},
               {a.floats.size(), AttributeKind::kFloat, AttributeKind::kFloats},
               {a.texts.size(), AttributeKind::kString, AttributeKind::kStrings}};
  for (const auto& list : lists) {
    const bool fits = a.kind == list.many || list.count == (a.kind == list.one ? 1 : 0);
    if (!fits) return RONDO_BROKEN("%zu values do not make kind %d", list.count, static_cast<int>(a.kind));
  }
  uint64_t bytes = 0;
  if (a.kind == AttributeKind::kTensor) RONDO_RETURN_IF_ERROR(VerifyDense(a.dtype, a.shape, &bytes));
  if (a.data.size() == bytes) return Status::Ok();
  return RONDO_BROKEN("%zu bytes of data; its type needs %" PRIu64, a.data.size(), bytes);
}

// Verifies one argument, and an output against the input whose memory it uses.
Status VerifyArgument(const CustomOp& op, size_t index) {
  const CustomArgument& a = op.arguments[index];
  const bool input = index < op.num_inputs;
  if (a.mode > Mode::kReadWrite) return RONDO_BROKEN("mode %d is unknown", static_cast<int>(a.mode));
  if (a.absent) {
    if (input && a.mode == Mode::kRead && a.alias == kNone) return Status::Ok();
    return RONDO_BROKEN("only a read input may be left out");
  }
  uint64_t bytes = 0;
  RONDO_RETURN_IF_ERROR(VerifyDense(a.dtype, a.shape, &bytes));
  if (input) {
    if (a.mode == Mode::kWrite) return RONDO_BROKEN("an input is read");
    return a.alias == kNone ? Status::Ok() : RONDO_BROKEN("an input aliases nothing; it names %u", a.alias);
  }
  if (a.mode == Mode::kReadWrite && (a.alias != kNone || a.dtype != DType::kU8))
    return RONDO_BROKEN("an output is written, or passed through");
  if (a.alias == kNone) {
    return a.mode != Mode::kRead ? Status::Ok() : RONDO_BROKEN("a passed output names its input");
  }
  if (a.alias >= op.num_inputs) return RONDO_BROKEN("it aliases input %u of %u", a.alias, op.num_inputs);
  const CustomArgument& of = op.arguments[a.alias];
  if (of.absent || of.dtype != a.dtype || !(of.shape == a.shape)) {
    return RONDO_BROKEN("it aliases input %u, which is %s", a.alias, "of another type");
  }
  if ((of.mode == Mode::kReadWrite) != (a.mode == Mode::kWrite)) {
    return RONDO_BROKEN("it aliases input %u, which is %s", a.alias,
                        of.mode == Mode::kReadWrite ? "changed: it is the new version" : "not changed");
  }
  return Status::Ok();
}

Status VerifyCustomOp(const CustomOp& op) {
  if (op.domain.empty() || op.name.empty())
    return RONDO_BROKEN("it has no %s", op.name.empty() ? "name" : "domain");
  if (op.version == 0) return RONDO_BROKEN("it has version 0");
  if (op.graph_safe != op.reason.empty()) {
    return RONDO_BROKEN(op.graph_safe ? "it is graph-safe, but says why not"
                                      : "it is not graph-safe, and does not say why");
  }
  if (op.arguments.size() > 2 * kMaxCustomArguments || op.num_inputs > kMaxCustomArguments ||
      op.num_inputs >= op.arguments.size() || op.arguments.size() - op.num_inputs > kMaxCustomArguments) {
    return RONDO_BROKEN("%u inputs among %zu arguments: at most %zu, and 1 to %zu outputs", op.num_inputs,
                        op.arguments.size(), kMaxCustomArguments, kMaxCustomArguments);
  }
  uint32_t versions[kMaxCustomArguments] = {};
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const bool input = i < op.num_inputs;
    RONDO_RETURN_IF_ERROR(
        VerifyArgument(op, i).At("%s %zu", input ? "input" : "output", input ? i : i - op.num_inputs));
    if (!input && op.arguments[i].alias != kNone) ++versions[op.arguments[i].alias];
  }
  for (uint32_t i = 0; i < op.num_inputs; ++i) {
    const bool changed = op.arguments[i].mode == Mode::kReadWrite;
    if (versions[i] > 1 || (changed && versions[i] == 0)) {
      return RONDO_BROKEN("input %u is aliased by %u outputs", i, versions[i]);
    }
  }
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    RONDO_RETURN_IF_ERROR(VerifyAttribute(op.attributes[i]).At("attribute %zu", i));
  }
  return Status::Ok();
}

}  // namespace

Status VerifyCustomOps(const PlanData& plan) {
  for (size_t i = 0; i < plan.custom_ops.size(); ++i) {
    const std::string_view name = plan.custom_ops[i].name;
    RONDO_RETURN_IF_ERROR(VerifyCustomOp(plan.custom_ops[i])
                              .At("custom op %zu \"%.*s\"", i, static_cast<int>(name.size()), name.data()));
  }
  return Status::Ok();
}

Status VerifyAliasedBindings(const PlanData& plan, const CustomOp& op, const Step& step) {
  for (size_t i = op.num_inputs; i < op.arguments.size(); ++i) {
    const uint32_t alias = op.arguments[i].alias;
    if (alias == kNone) continue;
    const Binding &own = step.bindings[i], &other = step.bindings[alias];
    const Buffer &a = plan.buffers[own.buffer], &b = plan.buffers[other.buffer];
    const bool same = own.buffer == other.buffer;
    // A new version may be a separate buffer that takes over the old one's memory.
    const bool taken_over = op.arguments[i].mode == Mode::kWrite && a.aliases == other.buffer;
    if ((same || taken_over) && a.offset + own.offset == b.offset + other.offset) continue;
    return RONDO_BROKEN("output %zu is input %u's memory, bound elsewhere", i - op.num_inputs, alias);
  }
  return Status::Ok();
}

}  // namespace rondo::plan
