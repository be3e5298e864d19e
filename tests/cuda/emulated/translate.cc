#include "tests/cuda/emulated/translate.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

namespace rondo::emulated {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The position after the string or character literal that begins at `at`.
size_t SkipQuoted(const std::string& text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

// The position after the parenthesis that closes the one at `open`; npos if there is none. `colons` gets the
// colons between them outside inner parentheses.
size_t SkipParentheses(const std::string& text, size_t open, std::vector<size_t>* colons) {
  int depth = 0;
  for (size_t at = open; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = SkipQuoted(text, at);
      continue;
    }
    if (c == '(') ++depth;
    if (c == ')' && --depth == 0) return at + 1;
    if (c == ':' && depth == 1) colons->push_back(at);
    ++at;
  }
  return std::string::npos;
}

bool IsBlank(const std::string& text) {
  for (char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0 && c != '\\') return false;
  }
  return true;
}

// Translates `asm volatile("..." : outputs : inputs : clobbers)` to `simt_machine->Ptx("...", {outputs,
// inputs})`.
std::string AsmCall(const std::string& inside, const std::vector<size_t>& colons) {
  std::vector<std::string> sections;
  size_t begin = 0;
  for (size_t k = 0; k <= colons.size(); ++k) {
    const size_t end = k < colons.size() ? colons[k] : inside.size();
    sections.push_back(inside.substr(begin, end - begin));
    begin = end + 1;
  }
  std::string operands;
  for (size_t k = 1; k < sections.size() && k < 3; ++k) {
    if (IsBlank(sections[k])) continue;
    operands += (operands.empty() ? "" : ", ") + sections[k];
  }
  return "simt_machine->Ptx(" + sections[0] + ", {" + operands + "})";
}

bool TranslateAsm(const std::string& from, std::string* to, std::string* error) {
  for (size_t at = 0; at < from.size();) {
    const char c = from[at];
    if (c == '/' && from.compare(at, 2, "//") == 0) {
      at = from.find('\n', at);
      if (at == std::string::npos) break;
      continue;
    }
    if (c == '"' || c == '\'') {
      const size_t end = SkipQuoted(from, at);
      to->append(from, at, end - at);
      at = end;
      continue;
    }
    if (from.compare(at, 3, "asm") == 0 && (at == 0 || !IsWord(from[at - 1])) && !IsWord(from[at + 3])) {
      const size_t open = from.find('(', at);
      std::vector<size_t> colons;
      const size_t end = open == std::string::npos ? open : SkipParentheses(from, open, &colons);
      if (end == std::string::npos) {
        *error = "asm without its closing parenthesis: " + from.substr(at, 80);
        return false;
      }
      for (size_t& colon : colons) colon -= open + 1;
      *to += AsmCall(from.substr(open + 1, end - open - 2), colons);
      at = end;
      continue;
    }
    *to += c;
    ++at;
  }
  return true;
}

// Replaces each include by its text, the first time only.
bool Expand(const std::string& text, const std::map<std::string, std::string>& headers,
            std::set<std::string>* seen, std::string* out, std::string* error) {
  static const std::regex include("^\\s*#include \"([^\"]+)\"");
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    std::smatch match;
    if (line.find("#include") == std::string::npos || !std::regex_search(line, match, include)) {
      *out += line + "\n";
      continue;
    }
    const auto header = headers.find(match[1]);
    if (header == headers.end()) {
      *error = "no header \"" + match[1].str() + "\" was handed in";
      return false;
    }
    if (seen->insert(match[1]).second && !Expand(header->second, headers, seen, out, error)) return false;
  }
  return true;
}

std::vector<KernelWords> KernelsOf(const std::string& text) {
  static const std::regex entry(
      "__global__\\s+void\\s+((?:__launch_bounds__|__cluster_dims__|\\([^)]*\\)|\\s)*)(\\w+)\\s*\\(");
  static const std::regex bounds("__launch_bounds__\\((\\d+)"), cluster("__cluster_dims__\\((\\d+)");
  std::vector<KernelWords> kernels;
  for (std::sregex_iterator at(text.begin(), text.end(), entry), end; at != end; ++at) {
    KernelWords words;
    const std::string attributes = (*at)[1];
    std::smatch match;
    words.name = (*at)[2];
    if (std::regex_search(attributes, match, bounds)) words.most_threads = std::stoul(match[1]);
    if (std::regex_search(attributes, match, cluster)) words.cluster = std::stoul(match[1]);
    kernels.push_back(words);
  }
  return kernels;
}

}  // namespace

bool Translate(const std::string& text, const std::map<std::string, std::string>& headers, int architecture,
               bool specific, Translation* out, std::string* error) {
  std::string whole, translated;
  std::set<std::string> seen;
  if (!Expand(text, headers, &seen, &whole, error) || !TranslateAsm(whole, &translated, error)) return false;
  out->kernels = KernelsOf(translated);
  // An operand's constraint and its value: "=r"(x).
  translated =
      std::regex_replace(translated, std::regex("\"([=+]?[rlhfn])\"\\s*\\("), "simt_operand(\"$1\", ");
  // g++ has no arrays without an extent in a section.
  translated = std::regex_replace(translated, std::regex("extern __shared__ [^;]*?(\\w+)\\[\\];"),
                                  "\n#define $1 (simt_thread->dynamic_shared)\n");
  translated = std::regex_replace(translated, std::regex("extern \"C\" __global__"), "__global__");
  out->text = "#define SIMT_KERNELS\n#define __CUDACC_RTC__\n#define __CUDA_ARCH__ " +
              std::to_string(architecture * 10) + "\n";
  if (specific) out->text += "#define __CUDA_ARCH_FEAT_SM" + std::to_string(architecture) + "_ALL\n";
  // An unnamed namespace keeps the names local to the library. Its uninitialised variables are the kernel's
  // shared memory, and one variable that aligns it.
  out->text += "#include \"tests/cuda/emulated/simt.h\"\nnamespace {\n" + translated +
               "\nchar simt_alignment[128] __attribute__((used, aligned(128)));\n}\n"
               "extern \"C\" __attribute__((visibility(\"hidden\"))) char __bss_start[], _end[];\n"
               "static const simt::KernelEntry simt_kernels[] = {\n";
  for (const KernelWords& kernel : out->kernels)
    out->text += "SimtEntry<&" + kernel.name + ">::Of(\"" + kernel.name + "\", " +
                 std::to_string(std::max(kernel.cluster, 1u)) + "),\n";
  out->text +=
      "};\nextern \"C\" __attribute__((visibility(\"default\"))) const simt::Library simt_library = {\n"
      "&simt_machine, &simt_thread, __bss_start, _end, simt_kernels, " +
      std::to_string(out->kernels.size()) + "};\n";
  return true;
}

}  // namespace rondo::emulated
