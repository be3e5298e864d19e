// A model with caches of a fixed length, imported with the number of cached positions as a run-time size.
#include <algorithm>
#include <set>

#include "compiler/import/cached_attention.h"
#include "compiler/import/decompose.h"
#include "compiler/import/fixed_caches.h"
#include "compiler/import/import.h"
#include "compiler/import/importer.h"
#include "compiler/import/select_by_text_length.h"
#include "compiler/ir/port_names.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo {
namespace importer {

// `status`, attributed to the node of `why`.
static Status FromNodeOf(const Status& why, const Status& status) {
  return why.source_node()[0] == '\0' ? status : status.FromNode(why.source_node());
}

namespace {

// The import of a model whose input shapes contain the lengths of its caches.
class CachedImport {
 public:
  CachedImport(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
               const CachePorts& ports, int64_t length, int64_t rows, ImportReport* report)
      : model_(model), options_(options), ports_(ports), length_(length), rows_(rows), report_(report) {}

  Result<ir::Graph> Fixed() {
    Result<ir::Graph> fixed = Fix();
    if (fixed.ok() && !notes_.begins) return fixed;
    Result<ir::Graph> begun = Begun();
    if (begun.ok()) return begun;
    if (!fixed.ok() && OnlyBegins()) return Begins(fixed.status());
    return fixed;
  }

  // Whether the message of Fixed asks which input is a mask over positions.
  bool asks_for_mask() const { return notes_.asks_for_mask; }

 private:
  // The options for `past` cached positions and `total` positions including the run's own.
  ImportOptions Bound(ImportOptions bound, const ir::Size& past, const ir::Size& total) const {
    BindPast(*model_, ports_, past, total, &bound);
    for (const std::string& mask : ports_.total_inputs) {  // given with the caches' length: `total`
      const auto given = bound.input_shapes.find(mask);
      if (given != bound.input_shapes.end() && !given->second.empty() && given->second.back() == length_)
        given->second.back() = total;
    }
    return bound;
  }
  bool Imports(int64_t total) const {
    ImportOptions bound = Bound(options_, total - rows_, total);
    bound.shapes_only = true;
    return ImportModel(model_, bound, nullptr).ok();
  }

  Result<ir::Graph> Fix() {
    const ir::Size past = ir::Size::Name("past", 0, length_ - rows_, length_ - rows_);
    const ImportOptions bound = Bound(options_, past, past + rows_);
    ImportReport said;
    ir::Graph graph;
    ir::Sizes sizes(&graph);
    CachedCount count;
    Importer run(model_, bound, &said, &graph);
    run.Follow(&sizes, [&](ir::Builder* b) {
      count = CountCached(b, ports_, length_, rows_);
      sizes.SetNode(past, count.node);
    });
    const Status imported = run.Run();
    if (!imported.ok()) return Imports(length_) ? Explained(imported) : imported;
    RemoveDeadBut(&graph, count.node);
    RONDO_RETURN_IF_ERROR(FixCaches(&graph, &sizes, ports_, length_, past, rows_, count, &notes_));
    for (const std::string& name : notes_.grown) {
      said.remarks.push_back("the output \"" + name + "\" has an element for each of " +
                             std::to_string(length_) +
                             " positions; those behind the last one that a run knows are 0");
    }
    if (report_ != nullptr) *report_ = std::move(said);
    return graph;
  }

  // Imports a model that reads no cache and whose masks cover only the run's own positions: the branch
  // without a past of a merged decoder. Its rows become the caches' first rows, and the first elements of a
  // mask of all positions count. The number of a run's tokens is not the text's length if the text goes on
  // after the run or ends within it, so that number is a size by which a value may be chosen.
  Result<ir::Graph> Begun() {
    if (const std::vector<std::string> masks = ports_.MasksToShow(); !masks.empty())
      return UnclearMask(masks[0]);
    const std::string kRows = "a run's rows";  // no name of a model's
    const ir::Size rows = ir::Size::Name(kRows, 1, length_, rows_);
    ImportOptions of_rows = options_;
    ImportReport said;
    ir::Graph graph;
    ir::Sizes sizes(&graph, true);
    ir::NodeId count = ir::kNoNode;
    const bool named = BindRows(*model_, ports_, rows, &of_rows);
    const ImportOptions followed = Bound(of_rows, length_, rows), plain = Bound(options_, length_, rows_);
    Importer run(model_, followed, &said, &graph);
    run.Follow(&sizes, [&](ir::Builder* b) {
      count = b->Input(kRows, DType::kI64, Shape{});
      sizes.SetNode(rows, count);
    });
    if (!named || !run.Run().ok()) {
      said = {};
      RONDO_ASSIGN_OR_RETURN(graph, ImportModel(model_, plain, &said));
      count = ir::kNoNode;
      if (named)
        said.remarks.push_back("what the model makes of the number of tokens that begin a text is as for " +
                               std::to_string(rows_) + ", however many the text has");
    }
    if (count != ir::kNoNode) graph.inputs.pop_back();
    std::erase(said.unused_inputs, kRows);
    graph.RemoveDead();
    ir::Builder b(&graph);
    b.SetSources({"--cache-length"});
    b.SetAnnotations({});
    for (const GrowingCache& cache : ports_.caches) {
      if (!BeginCache(b, cache))
        return Status::Error(Code::kUnsupported, "\"%s\" is read, or not begun", cache.past.c_str());
    }
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const std::vector<std::string>& masks = ports_.total_inputs;
      if (std::find(masks.begin(), masks.end(), graph.inputs[i].name) != masks.end()) WidenMask(b, i);
    }
    if (count != ir::kNoNode) {
      SelectByTextLength(&b, b.Scalar(DType::kI64, 0), rows_, {{count, 0}});
      graph.Replace(count, b.Scalar(DType::kI64, static_cast<double>(rows_)));
    }
    graph.RemoveDead();
    graph.Compact();
    if (report_ != nullptr) *report_ = std::move(said);
    return graph;
  }

  // Writes the run's rows to the beginning of the cache. False if the model reads the cache or the shapes
  // differ.
  bool BeginCache(ir::Builder& b, const GrowingCache& cache) const {
    ir::Graph& graph = b.graph();
    const int at = UnreadCache(graph, cache), present = ir::FindPort(graph.outputs, cache.present);
    if (at < 0 || present < 0) return false;
    const NodeId input = graph.inputs[static_cast<size_t>(at)].node,
                 output = graph.outputs[static_cast<size_t>(present)].node;
    const Shape whole = b.shape(input), rows = b.shape(output);
    if (rows.rank != whole.rank || rows[cache.axis] != rows_ ||
        !(WithDim(rows, cache.axis, length_) == whole) || b.dtype(input) != b.dtype(output)) {
      return false;
    }
    BeginWithOutput(b, input, static_cast<size_t>(present), cache.axis);
    return true;
  }

  // Gives input number `at` an element for every position; the model reads the first ones.
  void WidenMask(ir::Builder& b, size_t at) const {
    ir::Graph& graph = b.graph();
    const ir::GraphInput old = graph.inputs[at];
    const Shape shape = b.shape(old.node);
    const int axis = shape.rank - 1;
    if (axis < 0 || shape[axis] != rows_) return;
    const NodeId whole = b.Input(old.name, b.dtype(old.node), WithDim(shape, axis, length_));
    graph.inputs.pop_back();
    graph.node(whole).As<ir::InputAttrs>().index = static_cast<int>(at);
    graph.inputs[at].node = whole;
    graph.Replace(old.node, b.Slice(whole, axis, 0, 1, rows_));
  }

  // Whether the model can only be imported with nothing cached. Such models stretch a mask of the run's
  // positions over all positions.
  bool OnlyBegins() const { return rows_ > 1 && !Imports(rows_ + 1) && Imports(rows_); }
  Status Begins(const Status& why) const {
    const Status status =
        Status::Error(why.code(),
                      "--cache-length %lld: %s: the model takes %lld positions at once only where none are "
                      "cached; compile it "
                      "for one position a run (--shape), which takes a prompt as well, or export it with "
                      "GroupQueryAttention",
                      static_cast<long long>(length_), why.message(), static_cast<long long>(rows_));
    return FromNodeOf(why, status);
  }

  // Explains that a value is unknown which was fixed in the model's own export.
  Status Explained(const Status& why) const {
    const Status status = Status::Error(
        why.code(),
        "--cache-length %lld: %s (how much is cached decides it in each run); export the model with "
        "GroupQueryAttention or a cache of a fixed length, or compile it for one number of cached positions "
        "(--shape)",
        static_cast<long long>(length_), why.message());
    return FromNodeOf(why, status);
  }

  const std::shared_ptr<onnx::Model>& model_;
  const ImportOptions& options_;
  const CachePorts& ports_;
  const int64_t length_, rows_;
  ImportReport* report_;
  FixedNotes notes_;  // of the last Fix
};

}  // namespace
}  // namespace importer

Result<ir::Graph> ImportWithFixedCaches(const std::shared_ptr<onnx::Model>& model,
                                        const ImportOptions& options, int64_t length,
                                        const std::vector<std::pair<std::string, std::string>>& states,
                                        ImportReport* report, FixedCaches* caches) {
  *caches = {};
  std::set<std::string> others;  // symbols given that are not the length of such a cache
  for (const auto& [symbol, value] : options.symbols) {
    if (!(value == length)) others.insert(symbol);
  }
  for (const onnx::ValueInfoProto& input : model->proto().graph().input()) {
    const auto given = options.input_shapes.find(input.name());
    const auto& dims = input.type().tensor_type().shape().dim();
    if (given != options.input_shapes.end() && !given->second.empty() && !dims.empty() &&
        !(given->second.back() == length))
      others.insert(dims.rbegin()->dim_param());
  }
  const importer::CachePorts ports =
      importer::FindGrowingCaches(*model, states, others, options.position_masks);
  caches->states_to_try = importer::StatesToTry(*model, ports);
  ImportOptions growing = options;
  growing.open_dims_hint = "";
  if (!caches->states_to_try.empty()) {
    const char* known =
        ports.caches.empty() ? "no cache is known by its name" : "not all caches are known by their names";
    growing.open_dims_hint =
        std::string("; ") + known + ": say which input becomes which output, as in " + caches->states_to_try;
  } else if (!ports.caches.empty() && ports.masks.empty() && options.position_masks.empty()) {
    growing.open_dims_hint = ", or, of a mask over all cached positions, --position-mask INPUT";
  }
  if (ports.caches.empty()) return ImportModel(model, growing, report);
  for (const importer::GrowingCache& cache : ports.caches) {
    caches->inputs.push_back(cache.past);
    const bool given = options.input_shapes.count(cache.past) != 0;
    for (const std::string& name : ports.past_symbols) {
      if (!given && options.symbols.count(name) == 0) continue;
      return Status::Error(Code::kInvalidArgument,
                           "--cache-length says how long \"%s\" is; --shape %s says so as well",
                           cache.past.c_str(), given ? cache.past.c_str() : name.c_str());
    }
  }
  RONDO_ASSIGN_OR_RETURN(int64_t rows, importer::RowsOfRun(*model, ports, options));
  if (rows < 1 || rows >= length) {
    return Status::Error(Code::kInvalidArgument,
                         "--cache-length %lld: a run adds %lld positions; the cache must be longer than that",
                         static_cast<long long>(length), static_cast<long long>(rows));
  }
  growing.growing.insert(caches->inputs.begin(), caches->inputs.end());
  growing.rows_of_run = rows;
  importer::CachedImport imports(model, growing, ports, length, rows, report);
  Result<ir::Graph> fixed = imports.Fixed();
  if (fixed.ok()) return fixed;
  const Status& why = fixed.status();
  const std::vector<std::string> unclear = ports.MasksToShow();
  if (!unclear.empty() && !imports.asks_for_mask()) {
    const Status status = Status::Error(why.code(),
                                        "%s; if \"%s\" is no mask over cached positions, say so by "
                                        "--position-mask NAME (none, where there is none)",
                                        why.message(), unclear[0].c_str());
    return importer::FromNodeOf(why, status);
  }
  if (caches->states_to_try.empty()) return fixed;
  const Status status =
      Status::Error(why.code(), "%s; if caches are named otherwise than rondo knows, say which: %s",
                    why.message(), caches->states_to_try.c_str());
  return importer::FromNodeOf(why, status);
}

std::string NoteOnGrowingCaches(const onnx::Model& model, const ir::Graph& graph) {
  const importer::CachePorts ports = importer::FindGrowingCaches(model, {});
  for (const importer::GrowingCache& cache : ports.caches) {
    const int input = ir::FindPort(graph.inputs, cache.past),
              output = ir::FindPort(graph.outputs, cache.present);
    if (input < 0 || output < 0) continue;
    const Shape &from = graph.node(graph.inputs[static_cast<size_t>(input)].node).shape,
                &to = graph.node(graph.outputs[static_cast<size_t>(output)].node).shape;
    if (from.rank != to.rank || from[cache.axis] >= to[cache.axis]) continue;
    return "caches grow: \"" + cache.past + "\" has " + std::to_string(from[cache.axis]) + " positions, \"" +
           cache.present + "\" " + std::to_string(to[cache.axis]) + "; this program is for exactly " +
           std::to_string(from[cache.axis]) +
           " cached positions, and does not keep them: --cache-length N keeps up to N, updated in place";
  }
  return "";
}

}  // namespace rondo
