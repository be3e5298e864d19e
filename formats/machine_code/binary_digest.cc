#include "formats/machine_code/binary_digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <type_traits>
#include <utility>

namespace rondo {
namespace {

// Appends plain values to a text. Every sequence is preceded by its length, so that different structures give
// different texts.
class Bytes {
 public:
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) Bytes& operator<<(T value) {
    if constexpr (std::is_same_v<T, float>) {
      return Raw(std::bit_cast<uint32_t>(value));
    } else if constexpr (std::is_same_v<T, double>) {
      return Raw(std::bit_cast<uint64_t>(value));
    } else {
      return Raw(static_cast<uint64_t>(value));
    }
  }
  Bytes& operator<<(std::string_view text) {
    *this << text.size();
    text_.append(text);
    return *this;
  }
  Bytes& operator<<(const TapeInst& inst) {
    return *this << inst.op << inst.type << inst.arg << inst.a << inst.b << inst.c
                 << std::bit_cast<uint64_t>(inst.imm.i);
  }
  Bytes& operator<<(const Indirect& indirect) {
    return *this << indirect.operand << indirect.wrap << indirect.fault << indirect.stride << indirect.extent;
  }
  Bytes& operator<<(const Guard& guard) {
    return *this << guard.stride << guard.offset << guard.extent << guard.strides;
  }
  Bytes& operator<<(const Operand& operand) {
    return *this << operand.param << operand.dtype << operand.mode << operand.absent << operand.offset
                 << operand.strides << operand.indirects << operand.guards;
  }
  Bytes& operator<<(const Stage& stage) { return *this << stage.per_row << stage.tape; }
  Bytes& operator<<(const Part& part) {
    *this << part.skeleton << part.sequential << part.combine << part.nan_to_zero;
    *this << part.outer << part.m << part.n << part.reduced << part.features;
    *this << part.lhs << part.keys << part.values << part.mask << part.limit;
    *this << part.scale << part.softcap << part.tf32 << part.acc_type << part.loops << part.operands
          << part.rhs;
    *this << part.prologue << part.body << part.stages << part.scalars << part.kept << part.epilogue;
    if (part.packed.type != PackedType::kNone) {
      *this << part.packed.type << part.packed.dtype << part.packed.block << part.packed.zero << part.scales
            << part.zeros;
    }
    if (!part.when.empty()) *this << part.when;
    return *this;
  }
  Bytes& operator<<(const TensorMap& map) {
    *this << map.param << map.offset << map.dtype << map.rank << map.swizzle;
    for (uint64_t extent : map.extents) *this << extent;
    for (uint64_t stride : map.strides) *this << stride;
    for (uint32_t box : map.box) *this << box;
    return *this;
  }
  Bytes& operator<<(const MatmulMatrix& matrix) {
    return *this << matrix.param << matrix.offset << matrix.dtype << matrix.outer_stride
                 << matrix.inner_stride << matrix.batch_stride;
  }
  Bytes& operator<<(const LibraryMatmul& matmul) {
    *this << matmul.lhs << matmul.rhs << matmul.out << matmul.addend << matmul.bias;
    *this << matmul.batches << matmul.m << matmul.n << matmul.k;
    return *this << matmul.tf32 << matmul.epilogue << matmul.workspace_bytes << matmul.algorithm;
  }
  template <typename T>
  Bytes& operator<<(Span<T> span) {
    *this << span.size();
    for (const auto& element : span) *this << element;
    return *this;
  }
  std::string Take() { return std::move(text_); }

 private:
  template <typename T>
  Bytes& Raw(T bits) {
    for (size_t i = 0; i < sizeof bits; ++i) text_ += static_cast<char>(bits >> (8 * i));
    return *this;
  }
  std::string text_;
};

}  // namespace

std::string KernelStructure(const Kernel& kernel) {
  Bytes bytes;
  bytes << kernel.label << kernel.num_params << kernel.workspace_param << kernel.workspace_bytes
        << kernel.parts;
  return bytes.Take();
}

uint64_t KernelDigest(const Kernel& kernel) {
  Kernel plain = kernel;
  plain.label = {};
  // The workspace parameter comes after all operands' parameters.
  if (plain.workspace_param != kNoOperand) --plain.num_params;
  plain.workspace_param = kNoOperand;
  plain.workspace_bytes = 0;
  return TextDigest(KernelStructure(plain));
}

uint64_t TextDigest(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::vector<uint64_t> CodeDigests(const CodeModule& module) {
  std::vector<uint64_t> digests;
  for (const Span<const uint8_t>& code : module.codes)
    digests.push_back(XXH3_64bits(code.data(), code.size()));
  return digests;
}

uint64_t BinaryDigest(const Kernel& kernel, const CodeModule& module, const KernelBinary& binary,
                      const std::vector<uint64_t>& codes) {
  Bytes bytes;
  bytes << std::string_view(KernelStructure(kernel)) << module.architecture << module.compiler;
  bytes << binary.kind << binary.choice << binary.text_digest << binary.entry << binary.grid << binary.shared
        << binary.waits << (binary.block == 0 ? module.block : binary.block) << binary.tensor_maps
        << binary.assumes;
  const bool function = binary.kind == BinaryKind::kFunction;
  if (function && binary.code < codes.size()) bytes << codes[binary.code];
  if (!function && binary.matmul != nullptr) bytes << *binary.matmul;
  const uint64_t digest = TextDigest(bytes.Take());
  return digest == 0 ? 1 : digest;
}

}  // namespace rondo
