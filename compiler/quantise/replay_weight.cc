#include "compiler/quantise/replay_weight.h"

#include "compiler/quantise/weight_rounding.h"

namespace rondo {

Status WeightReplay::Pack(const WeightValue& value, const LiveWeight& weight) {
  if (packed_ == value.bytes.data() && packing_ == weight.packing) return Status::Ok();
  const WeightPacking& packing = weight.packing;
  Buffer whole;
  whole.dtype = packing.from;
  whole.shape = weight.shape;
  std::vector<uint8_t> room;
  RONDO_ASSIGN_OR_RETURN(const Span<const uint8_t> bytes,
                         BytesOfWeight(value, {weight.name, weight.shape}, whole, &room));
  ir::ConstantData data;
  data.dtype = packing.from;
  data.shape = weight.shape;
  data.bytes = {bytes.data(), bytes.size()};
  const PackedShape shape = packing.ShapeOf(weight.shape);
  const int64_t columns = weight.shape[1];
  const passes::WeightLayout layout{shape.n, shape.k, packing.dim == 1 ? columns : 1,
                                    packing.dim == 1 ? 1 : columns};
  double lost = 0;
  matrix_ = passes::RoundWeights(data, layout, {packing.type, shape.block, packing.scale_type()}, &lost);
  packed_ = value.bytes.data();
  packing_ = packing;
  if (matrix_ != nullptr && lost < 1) return Status::Ok();
  packed_ = nullptr;
  return Status::Error(Code::kInvalidArgument, "weight \"%s\" has numbers that %s, and the plan has it as %s",
                       value.name.c_str(),
                       matrix_ == nullptr ? "are not finite" : "are too small to be rounded",
                       Name(packing.type));
}

Result<Span<const uint8_t>> WeightReplay::BytesOf(const WeightValue& value, const LiveWeight& weight,
                                                  const Buffer& buffer, std::vector<uint8_t>* room) {
  if (weight.packing.type == PackedType::kNone) return BytesOfWeight(value, weight, buffer, room);
  RONDO_RETURN_IF_ERROR(Pack(value, weight));
  const ir::ConstantData& part = weight.scales ? *matrix_->scales : *matrix_->codes;
  const WeightValue stored{value.name, part.dtype, part.shape, {part.bytes.data(), part.bytes.size()}};
  RONDO_ASSIGN_OR_RETURN(const Span<const uint8_t> bytes,
                         BytesOfWeight(stored, {weight.name, part.shape, weight.first}, buffer, room));
  if (room->empty()) room->assign(bytes.begin(), bytes.end());
  return Span<const uint8_t>(room->data(), room->size());
}

}  // namespace rondo
