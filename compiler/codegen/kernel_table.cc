#include "compiler/codegen/kernel_table.h"

#include <bit>
#include <cctype>
#include <string_view>
#include <type_traits>

#include "core/plan.h"

namespace rondo {
namespace {

// Appends plain values to a text. Every sequence goes with its length, so that no two structures run
// together.
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
    return *this;
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

uint32_t KernelTable::Add(const Kernel& kernel) {
  const auto [entry, added] =
      numbers_.try_emplace(KernelStructure(kernel), static_cast<uint32_t>(kernels_.size()));
  if (added) kernels_.push_back(kernel);
  return entry->second;
}

std::string KernelName(const Kernel& kernel, uint32_t number) {
  std::string name = "k";
  name += std::to_string(number);
  name += '_';
  if (kernel.label.empty()) return name + Name(kernel.parts[0].skeleton);
  for (char c : kernel.label) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

}  // namespace rondo
