#include "compiler/import/cache_ports.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "compiler/import/dim_expression.h"
#include "compiler/ir/port_names.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

namespace {

using Dim = onnx::TensorShapeProto::Dimension;

template <typename List>
bool Contains(const List& list, const std::string& name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}
void AddOnce(std::vector<std::string>* list, const std::string& name) {
  if (!Contains(*list, name)) list->push_back(name);
}

const onnx::TensorShapeProto& ShapeOf(const onnx::ValueInfoProto& info) {
  return info.type().tensor_type().shape();
}

// Exporters that write every dimension as a name write 16 as "16".
std::string TextOf(const Dim& dim) {
  return dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param();
}
bool Same(const Dim& a, const Dim& b) { return TextOf(a) == TextOf(b); }

// The axis along which `present` is longer than `past`: the only one that differs, or the one whose name says
// so. -1 if there is none.
int GrowingAxis(const onnx::ValueInfoProto& past, const onnx::ValueInfoProto& present) {
  const auto &from = ShapeOf(past), &to = ShapeOf(present);
  int only = -1, named = -1, differ = 0;
  for (int d = 0; d < from.dim_size(); ++d) {
    const bool says = from.dim(d).dim_param().find("past") != std::string::npos;
    const bool told = to.dim_size() == from.dim_size();
    if (told && Same(from.dim(d), to.dim(d))) continue;
    if (told || says) only = d, ++differ;
    if (says) named = d;
  }
  // Keys and values of an encoder's output are named for the encoder; their length does not grow.
  if (from.dim_size() < 3 || past.name().find(".encoder.") != std::string::npos) return -1;
  return differ == 1 ? only : named;
}

// The nodes that read each name, without those in functions.
using Readers = std::map<std::string, std::vector<const onnx::NodeProto*>>;
Readers ReadersOf(const onnx::GraphProto& graph) {
  Readers readers;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& name : node.input()) readers[name].push_back(&node);
  }
  return readers;
}

// `cache` under all its names: its own, and those of casts, which converters to f16 leave at ports.
std::vector<std::string> NamesOf(const std::string& cache, const Readers& readers) {
  std::vector<std::string> names = {cache};
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = readers.find(names[i]);
    if (found == readers.end()) continue;
    for (const onnx::NodeProto* node : found->second) {
      const bool same = node->op_type() == "Cast" || node->op_type() == "Identity";
      if (same && node->output_size() == 1) AddOnce(&names, node->output(0));
    }
  }
  return names;
}

// Whether a mask or its length is named for attention to an encoder's output ("encoder_attention_mask",
// "cross_attention_mask").
bool IsOfEncoder(const std::string& name) {
  return name.find("encoder") != std::string::npos || name.find("cross") != std::string::npos;
}

bool IsNamedMask(const std::string& name) { return name.find("mask") != std::string::npos; }

// The symbol that forms the whole last dim of an input named as a mask and occurs in no other input. The mask
// then has a length of its own, that of all positions. "" if there is none, or if the length is another one:
// one of `others`, or the encoder's.
std::string OwnLength(const onnx::GraphProto& graph, const onnx::ValueInfoProto& mask,
                      const std::set<std::string>& others) {
  const auto& shape = ShapeOf(mask);
  if (shape.dim_size() < 2 || !IsNamedMask(mask.name())) return "";
  const std::string& text = shape.dim(shape.dim_size() - 1).dim_param();
  if (SymbolsOf(text) != std::vector<std::string>{text}) return "";
  if (others.count(text) != 0 || IsOfEncoder(mask.name()) || IsOfEncoder(text)) return "";
  for (const onnx::ValueInfoProto& other : graph.input()) {
    if (IsNamedMask(other.name())) continue;
    for (const Dim& dim : ShapeOf(other).dim()) {
      if (Contains(SymbolsOf(dim.dim_param()), text)) return "";
    }
  }
  return text;
}

bool IsOperatorWithCache(const onnx::NodeProto& node) {
  return node.domain() == "com.microsoft" && node.op_type() == "GroupQueryAttention";
}

int64_t IntOf(const onnx::NodeProto& node, const char* name, int64_t otherwise) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return attribute.i();
  }
  return otherwise;
}

// The integers of a constant, which is an initializer or a node; none if `name` is something else.
std::vector<int64_t> NumbersOf(const onnx::GraphProto& graph, const std::string& name) {
  const onnx::TensorProto* tensor = nullptr;
  for (const onnx::TensorProto& t : graph.initializer()) {
    if (t.name() == name) tensor = &t;
  }
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() != "Constant" || node.output_size() == 0 || node.output(0) != name) continue;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() == "value") tensor = &attribute.t();
    }
  }
  if (tensor == nullptr || tensor->data_type() != onnx::TensorProto::INT64) return {};
  std::vector<int64_t> numbers(tensor->int64_data().begin(), tensor->int64_data().end());
  if (numbers.empty()) {
    numbers.resize(tensor->raw_data().size() / sizeof(int64_t));
    std::memcpy(numbers.data(), tensor->raw_data().data(), numbers.size() * sizeof(int64_t));
  }
  return numbers;
}

// The columns of the matrix that a matmul takes as B: a constant, possibly behind a dequantisation, casts and
// transposes. 0 if that is unknown.
int64_t ColumnsOfWeight(const onnx::GraphProto& graph, std::string name, bool turned) {
  constexpr int kMostSteps = 8;
  for (int step = 0; step < kMostSteps; ++step) {
    for (const onnx::TensorProto& weight : graph.initializer()) {
      if (weight.name() == name) return weight.dims_size() == 2 ? weight.dims(turned ? 0 : 1) : 0;
    }
    const auto gives = [&](const onnx::NodeProto& node) { return Contains(node.output(), name); };
    const auto made = std::find_if(graph.node().begin(), graph.node().end(), gives);
    if (made == graph.node().end() || made->input_size() == 0) return 0;
    const std::string& op = made->op_type();
    if (op == "Transpose") {
      turned = !turned;
    } else if (op != "DequantizeLinear" && op != "Cast" && op != "Identity") {
      return 0;
    }
    name = made->input(0);
  }
  return 0;
}

// The columns of the matmul whose result becomes `name` through additions, norms and reshapes. 0 if that is
// unknown.
int64_t ColumnsOf(const onnx::GraphProto& graph, std::string name) {
  constexpr int kMostSteps = 16;
  for (int step = 0; step < kMostSteps; ++step) {
    const auto gives = [&](const onnx::NodeProto& node) { return Contains(node.output(), name); };
    const auto made = std::find_if(graph.node().begin(), graph.node().end(), gives);
    if (made == graph.node().end() || made->input_size() == 0) return 0;
    if (made->op_type() == "Split") {
      const auto which =
          std::find(made->output().begin(), made->output().end(), name) - made->output().begin();
      const std::vector<int64_t> sizes =
          made->input_size() < 2 ? std::vector<int64_t>() : NumbersOf(graph, made->input(1));
      return which < std::ssize(sizes) ? sizes[static_cast<size_t>(which)] : 0;
    }
    if (made->op_type() == "MatMulNBits") return IntOf(*made, "N", 0);
    if (made->op_type().starts_with("MatMulBlockQuantized") && made->input_size() >= 2)
      return ColumnsOfWeight(graph, made->input(1), true);
    const char* products[] = {"MatMul", "Gemm", "MatMulInteger", "MatMulIntegerToFloat",
                              "DynamicQuantizeMatMul"};
    if (Contains(products, made->op_type())) {
      if (made->input_size() < 2) return 0;
      return ColumnsOfWeight(graph, made->input(1), IntOf(*made, "transB", 0) != 0);
    }
    name = made->input(0);
  }
  return 0;
}

// The head size of `cache`, which `reader` reads by one of its `names`. It follows from the rows appended to
// the cached keys or values: those of an attention operator, possibly packed with its queries, or the other
// part of a concatenation. 0 if that is unknown.
int64_t HeadSizeOf(const onnx::GraphProto& graph, const onnx::NodeProto& reader,
                   const onnx::ValueInfoProto& cache, const std::vector<std::string>& names) {
  int64_t heads = 0;
  std::string rows;
  if (IsOperatorWithCache(reader)) {
    const int64_t of_keys = IntOf(reader, "kv_num_heads", 0);
    const bool packed = reader.input_size() < 2 || reader.input(1).empty();
    if (reader.input_size() == 0 || of_keys < 1) return 0;
    heads = packed ? IntOf(reader, "num_heads", 0) + 2 * of_keys : of_keys;
    rows = reader.input(packed ? 0 : 1);
  } else if (reader.op_type() == "MultiHeadAttention" && reader.input_size() > 1) {
    heads = IntOf(reader, "num_heads", 0);
    rows = reader.input(1);
  } else if (reader.op_type() == "Concat" && reader.input_size() == 2 && Contains(names, reader.input(0))) {
    heads = ShapeOf(cache).dim(1).dim_value();
    rows = reader.input(1);
  }
  if (heads < 1 || rows.empty()) return 0;
  const int64_t columns = ColumnsOf(graph, rows);
  return columns % heads == 0 ? columns / heads : 0;
}

// The model input that a GroupQueryAttention takes as seqlens_k, possibly through casts and reshapes. "" if
// the model computes the lengths, or if some of a run's rows belong to no text.
std::string LengthsOf(const onnx::GraphProto& graph, const onnx::NodeProto& attention) {
  constexpr int kLengths = 5, kQueryLengths = 16, kMostSteps = 8;
  const bool partly = attention.input_size() > kQueryLengths && !attention.input(kQueryLengths).empty();
  if (partly || attention.input_size() <= kLengths) return "";
  std::string name = attention.input(kLengths);
  for (int step = 0; step < kMostSteps; ++step) {
    for (const onnx::ValueInfoProto& input : graph.input()) {
      if (input.name() == name) return name;
    }
    const auto gives = [&](const onnx::NodeProto& node) { return Contains(node.output(), name); };
    const auto made = std::find_if(graph.node().begin(), graph.node().end(), gives);
    const char* forms[] = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"};
    if (made == graph.node().end() || !Contains(forms, made->op_type())) return "";
    name = made->input(0);
  }
  return "";
}

}  // namespace

CachePorts FindGrowingCaches(const onnx::Model& model,
                             const std::vector<std::pair<std::string, std::string>>& states,
                             const std::set<std::string>& others,
                             const std::vector<std::string>& position_masks) {
  const onnx::GraphProto& graph = model.proto().graph();
  std::map<std::string, const onnx::ValueInfoProto*> outputs;
  for (const onnx::ValueInfoProto& output : graph.output()) outputs.emplace(output.name(), &output);
  CachePorts ports;
  const Readers readers = ReadersOf(graph);
  for (const onnx::ValueInfoProto& input : graph.input()) {
    std::vector<std::string> names = ir::StateOutputNames(input.name());
    for (const auto& [in, out] : states) {
      if (in == input.name()) names = {out};
    }
    const auto named = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return name != input.name() && outputs.count(name) != 0;
    });
    if (named == names.end()) continue;
    const onnx::ValueInfoProto& output = *outputs.at(*named);
    const int axis = GrowingAxis(input, output);
    if (axis < 0) continue;
    ports.caches.push_back({input.name(), *named, axis});
    const std::string& past = ShapeOf(input).dim(axis).dim_param();
    if (!past.empty()) AddOnce(&ports.past_symbols, past);
    if (axis < ShapeOf(output).dim_size() && !ShapeOf(output).dim(axis).dim_param().empty())
      AddOnce(&ports.total_texts, ShapeOf(output).dim(axis).dim_param());
    const std::string& size = ShapeOf(input).dim(ShapeOf(input).dim_size() - 1).dim_param();
    const std::vector<std::string> forms = NamesOf(input.name(), readers);
    for (const std::string& form : forms) {
      const auto found = readers.find(form);
      if (found == readers.end()) continue;
      for (const onnx::NodeProto* reader : found->second) {
        if (IsOperatorWithCache(*reader)) ports.lengths = LengthsOf(graph, *reader);
        const int64_t known = size.empty() ? 0 : HeadSizeOf(graph, *reader, input, forms);
        if (known > 0) ports.head_sizes.emplace(size, known);
      }
    }
  }
  std::set<std::string> caches;
  for (const GrowingCache& cache : ports.caches) caches.insert(cache.past);
  std::set<std::string> own_lengths;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const auto& shape = ShapeOf(input);
    if (caches.count(input.name()) != 0) continue;
    const bool told = Contains(position_masks, input.name());
    if (caches.empty() || shape.dim_size() == 0) continue;
    const std::string& last = shape.dim(shape.dim_size() - 1).dim_param();
    if (told && !last.empty()) AddOnce(&ports.total_texts, last);
    const std::string own = position_masks.empty() ? OwnLength(graph, input, others) : "";
    if (!own.empty() && !Contains(ports.total_texts, own)) own_lengths.insert(own);
    if (own_lengths.count(own) != 0) {
      ports.total_inputs.push_back(input.name());
      ports.likely_masks.push_back(input.name());
      continue;
    }
    for (int d = 0; d < shape.dim_size(); ++d) {
      const std::string& text = shape.dim(d).dim_param();
      const std::vector<std::string> symbols = SymbolsOf(text);
      const bool of_past = !text.empty() && !Contains(ports.past_symbols, text) &&
                           std::any_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
                             return Contains(ports.past_symbols, symbol);
                           });
      if (of_past) AddOnce(&ports.total_texts, text);
      if (!Contains(ports.total_texts, text) || d + 1 != shape.dim_size()) continue;
      ports.total_inputs.push_back(input.name());
      if (told || IsNamedMask(input.name())) ports.masks.push_back(input.name());
    }
  }
  ports.total_texts.insert(ports.total_texts.end(), own_lengths.begin(), own_lengths.end());
  ports.masks.insert(ports.masks.end(), ports.likely_masks.begin(), ports.likely_masks.end());
  return ports;
}

std::vector<std::string> CachePorts::MasksToShow() const {
  std::vector<std::string> names = likely_masks;
  names.erase(std::remove(names.begin(), names.end(), "attention_mask"), names.end());
  return names;
}

std::string StatesToTry(const onnx::Model& model, const CachePorts& ports) {
  const onnx::GraphProto& graph = model.proto().graph();
  std::set<std::string> taken;
  for (const GrowingCache& cache : ports.caches) taken.insert({cache.past, cache.present});
  std::string first;
  int count = 0;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const onnx::ValueInfoProto* best = nullptr;
    for (const onnx::ValueInfoProto& output : graph.output()) {
      const int axis =
          taken.count(input.name()) + taken.count(output.name()) == 0 &&
                  input.type().tensor_type().elem_type() == output.type().tensor_type().elem_type() &&
                  ShapeOf(input).dim_size() == ShapeOf(output).dim_size()
              ? GrowingAxis(input, output)
              : -1;
      if (axis < 0 || ShapeOf(input).dim(axis).has_dim_value()) continue;
      if (best == nullptr ||
          ir::LettersApart(output.name(), input.name()) < ir::LettersApart(best->name(), input.name()))
        best = &output;
    }
    if (best == nullptr) continue;
    taken.insert(best->name());
    if (count++ == 0) first = "--state " + input.name() + ":" + best->name();
  }
  if (count > 1) first += " (" + std::to_string(count) + " inputs look like caches)";
  return first;
}

namespace {

// The input with a run's positions (null if there is none), and their axis.
struct TokensPort {
  const onnx::ValueInfoProto* input = nullptr;
  int axis = 1;
};
// The first input of several dimensions that is neither a cache nor a mask: tokens [batch, positions], or
// data of each position, [3, batch, positions].
TokensPort TokensOf(const onnx::Model& model, const CachePorts& ports) {
  const auto is_cache = [&](const onnx::ValueInfoProto& input) {
    return std::any_of(ports.caches.begin(), ports.caches.end(),
                       [&](const GrowingCache& cache) { return cache.past == input.name(); });
  };
  std::set<std::string> batches;
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    if (is_cache(input) && ShapeOf(input).dim_size() > 0) batches.insert(ShapeOf(input).dim(0).dim_param());
  }
  batches.erase("");
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    const int dims = ShapeOf(input).dim_size();
    if (dims < 2 || Contains(ports.total_inputs, input.name()) || is_cache(input)) continue;
    return {&input, dims > 2 && batches.count(ShapeOf(input).dim(1).dim_param()) != 0 ? 2 : 1};
  }
  return {};
}

}  // namespace

Result<int64_t> RowsOfRun(const onnx::Model& model, const CachePorts& ports, const ImportOptions& options) {
  std::map<std::string, ir::Size> symbols = options.symbols;
  for (const std::string& past : ports.past_symbols) symbols[past] = 0;
  std::vector<std::string> missing;
  for (const std::string& text : ports.total_texts) {
    if (SymbolsOf(text) == std::vector<std::string>{text}) continue;
    if (const auto rows = EvaluateDim(text, symbols, &missing); rows && rows->extent() > 0)
      return rows->extent();
  }
  const TokensPort tokens = TokensOf(model, ports);
  if (tokens.input != nullptr) {
    if (const auto given = options.input_shapes.find(tokens.input->name());
        given != options.input_shapes.end())
      return given->second[static_cast<size_t>(tokens.axis)].extent();
    const Dim& dim = ShapeOf(*tokens.input).dim(tokens.axis);
    if (dim.has_dim_value()) return dim.dim_value();
    if (const auto rows = EvaluateDim(dim.dim_param(), symbols, &missing)) return rows->extent();
  }
  std::string list;
  for (const std::string& name : missing) list += (list.empty() ? "\"" : ", \"") + name + "\"";
  return Status::Error(
      Code::kInvalidArgument,
      "--cache-length needs to know how many positions a run adds: give --shape NAME=VALUE for %s",
      list.empty() ? "the tokens" : list.c_str());
}

bool BindRows(const onnx::Model& model, const CachePorts& ports, const ir::Size& rows,
              ImportOptions* options) {
  const TokensPort tokens = TokensOf(model, ports);
  if (tokens.input == nullptr) return false;
  const std::string& symbol = ShapeOf(*tokens.input).dim(tokens.axis).dim_param();
  if (SymbolsOf(symbol) != std::vector<std::string>{symbol}) return false;
  options->symbols[symbol] = rows;
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    const auto given = options->input_shapes.find(input.name());
    if (given == options->input_shapes.end()) continue;
    for (int d = 0; d < ShapeOf(input).dim_size() && d < std::ssize(given->second); ++d) {
      if (ShapeOf(input).dim(d).dim_param() == symbol) given->second[static_cast<size_t>(d)] = rows;
    }
  }
  return true;
}

void BindPast(const onnx::Model& model, const CachePorts& ports, const ir::Size& past, const ir::Size& total,
              ImportOptions* options) {
  for (const std::string& symbol : ports.past_symbols) options->symbols[symbol] = past;
  for (const std::string& text : ports.total_texts) options->symbols[text] = total;
  for (const auto& [symbol, size] : ports.head_sizes) options->symbols.emplace(symbol, size);
  // Caches whose lengths are numbers instead of names.
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    for (const GrowingCache& cache : ports.caches) {
      if (cache.past != input.name() || !ShapeOf(input).dim(cache.axis).dim_param().empty()) continue;
      ir::Dims dims;
      std::vector<std::string> missing;
      for (const Dim& dim : ShapeOf(input).dim()) {
        dims.push_back(dim.has_dim_value()
                           ? ir::Size(dim.dim_value())
                           : EvaluateDim(dim.dim_param(), options->symbols, &missing).value_or(1));
      }
      dims[static_cast<size_t>(cache.axis)] = past;
      options->input_shapes[input.name()] = dims;
    }
  }
}

}  // namespace rondo::importer
