#include "tests/cuda/make_cubin.h"

#include <cstring>

#include "formats/machine_code/binary_digest.h"

namespace rondo {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kProgramBits = 1, kSymbols = 2, kStrings = 3, kNoBytes = 8, kInfo = 0x70000000;

void Put(Bytes* to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to->push_back(static_cast<uint8_t>(i < 8 ? value >> (8 * i) : 0));
}

// Adds a text to a string table. Returns its offset.
uint32_t Intern(Bytes* table, const std::string& text) {
  if (table->empty()) table->push_back(0);
  const auto at = static_cast<uint32_t>(table->size());
  table->insert(table->end(), text.begin(), text.end());
  table->push_back(0);
  return at;
}

void Attribute(Bytes* to, uint8_t kind, const std::vector<uint32_t>& words) {
  Put(to, 4, 1);
  Put(to, kind, 1);
  Put(to, 4 * words.size(), 2);
  for (uint32_t word : words) Put(to, word, 4);
}

struct Section {
  std::string name;
  uint32_t type = 0, link = 0, info = 0;
  Bytes bytes;
  uint64_t entry_bytes = 0, size = 0;  // size: for sections without bytes
};

// The section .nv.info.F: parameters from last to first, then limits, as NVIDIA's compilers write it.
Bytes InfoOf(const FunctionNeeds& needs) {
  Bytes out;
  std::vector<uint32_t> offsets;
  uint32_t end = 0;
  for (uint32_t bytes : needs.params) {
    const uint32_t alignment = bytes >= 64 ? 64 : bytes;
    end = (end + alignment - 1) / alignment * alignment;
    offsets.push_back(end);
    end += bytes;
  }
  for (size_t i = needs.params.size(); i-- > 0;)
    Attribute(&out, 0x17, {0, offsets[i] << 16 | static_cast<uint32_t>(i), needs.params[i] << 18 | 0x1f000});
  if (needs.cluster > 0) Attribute(&out, 0x3d, {needs.cluster, 1, 1});
  if (needs.most_threads > 0) Attribute(&out, 0x05, {needs.most_threads, 1, 1});
  if (needs.exact_threads > 0) Attribute(&out, 0x10, {needs.exact_threads, 1, 1});
  Put(&out, 3, 1);
  Put(&out, 0x19, 1);
  Put(&out, end, 2);
  return out;
}

std::vector<Section> SectionsOf(const std::vector<CubinFunction>& functions) {
  std::vector<Section> sections(4);
  sections[1] = {".shstrtab", kStrings, 0, 0, {}, 0, 0};
  sections[2] = {".symtab", kSymbols, 3, 0, Bytes(24, 0), 24, 0};
  sections[3] = {".strtab", kStrings, 0, 0, {}, 0, 0};
  Section registers = {".nv.info", kInfo, 2, 0, {}, 0, 0};
  for (uint32_t f = 0; f < functions.size(); ++f) {
    const CubinFunction& function = functions[f];
    const uint32_t symbol = f + 1, text = static_cast<uint32_t>(sections.size());
    sections.push_back({".text." + function.entry, kProgramBits, 2, symbol, Bytes(128, 0), 0, 0});
    sections.push_back({".nv.info." + function.entry, kInfo, 2, text, InfoOf(function.needs), 0, 0});
    if (function.needs.shared > 0)
      sections.push_back({".nv.shared." + function.entry, kNoBytes, 0, text, {}, 0, function.needs.shared});
    Attribute(&registers.bytes, 0x2f, {symbol, function.needs.registers});
    Bytes& symbols = sections[2].bytes;
    Put(&symbols, Intern(&sections[3].bytes, function.entry), 4);
    Put(&symbols, 0x12, 1);  // a global function
    Put(&symbols, 0x10, 1);  // that can be launched
    Put(&symbols, text, 2);
    Put(&symbols, 0, 8);
    Put(&symbols, 128, 8);
  }
  Intern(&sections[3].bytes, "");
  sections.push_back(registers);
  return sections;
}

}  // namespace

std::vector<uint8_t> MakeCubin(int architecture, const std::vector<CubinFunction>& functions, bool cuda12) {
  std::vector<Section> sections = SectionsOf(functions);
  std::vector<uint32_t> names(sections.size());
  for (size_t i = 1; i < sections.size(); ++i) names[i] = Intern(&sections[1].bytes, sections[i].name);
  Bytes out(64, 0), table(64, 0);
  for (size_t i = 1; i < sections.size(); ++i) {
    const Section& section = sections[i];
    Put(&table, names[i], 4);
    Put(&table, section.type, 4);
    Put(&table, 0, 16);  // flags, address
    Put(&table, out.size(), 8);
    Put(&table, section.type == kNoBytes ? section.size : section.bytes.size(), 8);
    Put(&table, section.link, 4);
    Put(&table, section.info, 4);
    Put(&table, 1, 8);
    Put(&table, section.entry_bytes, 8);
    out.insert(out.end(), section.bytes.begin(), section.bytes.end());
    out.resize((out.size() + 15) / 16 * 16);
  }
  Bytes header = {0x7f, 'E', 'L', 'F', 2, 1, 1, static_cast<uint8_t>(cuda12 ? 0x33 : 0x41), 8};
  header.resize(16);
  const auto number = static_cast<uint64_t>(architecture);
  Put(&header, 2, 2);
  Put(&header, 190, 2);
  Put(&header, 1, 4);
  Put(&header, 0, 16);  // entry, segments
  Put(&header, out.size(), 8);
  Put(&header, cuda12 ? number << 16 | number : number << 8, 4);
  Put(&header, 64, 2);
  Put(&header, 56, 2);
  Put(&header, 0, 2);
  Put(&header, 64, 2);
  Put(&header, sections.size(), 2);
  Put(&header, 1, 2);
  std::memcpy(out.data(), header.data(), header.size());
  out.insert(out.end(), table.begin(), table.end());
  return out;
}

std::vector<uint32_t> PassedParams(uint32_t addresses, size_t maps) {
  std::vector<uint32_t> params(addresses, 8);
  params.insert(params.end(), maps, 128);
  params.insert(params.end(), {8, 4});
  return params;
}

void SealBinaries(PlanData* plan, Arena& arena) {
  std::vector<CodeModule> modules(plan->modules.begin(), plan->modules.end());
  for (CodeModule& module : modules) {
    const std::vector<uint64_t> codes = CodeDigests(module);
    std::vector<KernelBinary> binaries(module.binaries.begin(), module.binaries.end());
    for (size_t k = 0; k < binaries.size(); ++k)
      binaries[k].digest = BinaryDigest(plan->kernels[k], module, binaries[k], codes);
    std::vector<KernelAlternative> others(module.alternatives.begin(), module.alternatives.end());
    for (KernelAlternative& other : others)
      other.binary.digest = BinaryDigest(plan->kernels[other.kernel], module, other.binary, codes);
    module.binaries = arena.Copy(binaries);
    module.alternatives = arena.Copy(others);
  }
  plan->modules = arena.Copy(modules);
}

}  // namespace rondo
