// Contractions and convolutions: the template that fits the shape; the plain ones are a thread an output
// point, or a warp where the reduced loop is the contiguous one.
#include <algorithm>
#include <cstdlib>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

// Asks all templates what they offer, and writes the best.
Result<bool> PartText::FastProduct() {
  struct Template {
    std::vector<ProductOffer> (PartText::*offer)(const ProductShape&) const;
    Status (PartText::*write)(const ProductShape&, const ProductChoice&);
  };
  constexpr Template kTemplates[] = {
      {&PartText::OfferSkinny, &PartText::SkinnyProduct},
      {&PartText::OfferSkinnyFloats, &PartText::SkinnyFloats},
      {&PartText::OfferBulk, &PartText::BulkProduct},
      {&PartText::OfferTiles, &PartText::TileProduct},
      {&PartText::OfferTf32Tiles, &PartText::Tf32Product},
      {&PartText::OfferFloatTiles, &PartText::FloatProduct},
  };
  const std::optional<ProductShape> shape = ShapeOfProduct(part_, params_);
  if (!shape) return false;
  std::vector<const Template*> from;  // of each offer
  for (const Template& one : kTemplates) {
    for (const ProductOffer& offer : (this->*one.offer)(*shape)) {
      offers_.push_back(offer);
      from.push_back(&one);
    }
  }
  if (offers_.empty()) return false;
  const size_t best = BestOffer(offers_, target_.product);
  choice_ = offers_[best].choice;
  RONDO_RETURN_IF_ERROR((this->*from[best]->write)(*shape, choice_));
  return true;
}

Status PartText::Contraction() {
  RONDO_ASSIGN_OR_RETURN(const bool fast, FastProduct());
  return fast ? Status::Ok() : PlainContraction();
}

Status PartText::Convolution() {
  RONDO_ASSIGN_OR_RETURN(const bool fast, FastProduct());
  if (fast) return Status::Ok();
  RONDO_ASSIGN_OR_RETURN(const bool windows, Windows());
  return windows ? Status::Ok() : PlainConvolution();
}

Status PartText::PlainContraction() {
  if (std::optional<DotShape> shape = ShapeOfDots()) return Dots(*shape);
  headers_.insert({"reductions", "scalar"});
  Line("wait_for_earlier();");
  size_t first = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size();
  int64_t points = Points(0, first), depth = Points(first, all);
  std::string type = TypeText(part_.acc_type);
  const Operand& rhs = part_.operands[part_.rhs[0]];
  bool warp = rhs.strides[all - 1] == 1 && depth >= 32;
  int64_t points_a_block = warp ? kCudaBlock / 32 : kCudaBlock;
  Line("const u64 point = (u64)block * " + std::to_string(points_a_block) + " + threadIdx.x" +
       (warp ? " / 32;" : ";"));
  Line("if (point >= " + std::to_string(points) + "ull) return;");
  Decode("point", 0, first);
  for (size_t j = 0; j < part_.rhs.size(); ++j) Line(type + " acc" + std::to_string(j) + " = 0;");
  Line("for (i64 k = " + std::string(warp ? "threadIdx.x % 32" : "0") + "; k < " + std::to_string(depth) +
       "; k += " + (warp ? "32" : "1") + ") {");
  Decode("k", first, all);
  std::string lhs = "lhs";
  if (part_.prologue.empty()) {
    Load(part_.lhs, lhs);
  } else {
    lhs = WriteTape(part_.prologue, "q");
  }
  for (size_t j = 0; j < part_.rhs.size(); ++j) {
    std::string n = std::to_string(j);
    Load(part_.rhs[j], "rhs" + n);
    Line("acc" + n + " = op_add(acc" + n + ", op_mul((" + type + ")" + lhs + ", (" + type + ")rhs" + n +
         "));");
  }
  Line("}");
  if (warp) {
    for (size_t j = 0; j < part_.rhs.size(); ++j) {
      std::string n = std::to_string(j);
      Line("acc" + n + " = reduce<Sum, 32>(acc" + n + ");");
    }
    Line("if (threadIdx.x % 32 != 0) return;");
  }
  for (size_t l = first; l < all; ++l)
    Line("const i64 i" + std::to_string(l) + " = 0; (void)i" + std::to_string(l) + ";");
  WriteTape(part_.epilogue, "r");
  return SetBlocks((points + points_a_block - 1) / points_a_block);
}

Status PartText::PlainConvolution() {
  headers_.insert({"elements", "scalar"});
  Line("wait_for_earlier();");
  size_t first = static_cast<size_t>(EpilogueLoops(part_)), all = part_.loops.size();
  int64_t points = Points(0, first);
  std::string type = TypeText(part_.acc_type);
  bool max = part_.combine == Combine::kMax;
  Line("const u64 point = (u64)block * 256 + threadIdx.x;");
  Line("if (point >= " + std::to_string(points) + "ull) return;");
  // Neighbouring threads write neighbouring elements.
  std::vector<size_t> order;
  for (size_t l = 0; l < first; ++l) order.push_back(l);
  for (const Operand& operand : part_.operands) {
    if (operand.mode == Mode::kRead) continue;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::abs(operand.strides[a]) > std::abs(operand.strides[b]);
    });
    break;
  }
  DecodeLoops("point", order);
  std::string lowest =
      part_.acc_type == TapeType::kI64 ? "(i64)0x8000000000000000ull" : "bits_float(0xff800000u)";
  Line(type + " acc0 = " + (max ? lowest : "0") + "; i64 present = 0;");
  Open(first, all);
  const Operand& input = part_.operands[part_.lhs];
  Line("{");
  Address(input);
  Line("if (ok) { ++present;");
  Line("const " + type + " x = ld_" + std::string(rondo::Name(input.dtype)) + "(p" +
       std::to_string(input.param) + ", a);");
  if (!part_.rhs.empty()) {
    Load(part_.rhs[0], "w");
    Line("acc0 = op_add(acc0, op_mul(x, (" + type + ")w));");
  } else {
    Line(max ? "acc0 = op_max(acc0, x);" : "acc0 = op_add(acc0, x);");
  }
  Line("} }");
  Close(all - first);
  if (part_.combine == Combine::kMean) Line("acc0 = acc0 / (" + type + ")present;");
  for (size_t l = first; l < all; ++l)
    Line("const i64 i" + std::to_string(l) + " = 0; (void)i" + std::to_string(l) + ";");
  WriteTape(part_.epilogue, "r");
  return SetBlocks((points + kCudaBlock - 1) / kCudaBlock);
}

}  // namespace rondo::cuda
