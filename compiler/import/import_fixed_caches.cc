// A model with caches of a fixed length: imported for three numbers of positions, which FixCaches compares.
#include <algorithm>
#include <set>

#include "compiler/import/cached_attention.h"
#include "compiler/import/chosen_by_length.h"
#include "compiler/import/decompose.h"
#include "compiler/import/fixed_caches.h"
#include "compiler/import/import.h"
#include "compiler/import/lengths_in_run.h"
#include "compiler/ir/port_names.h"
#include "compiler/ir/walk.h"
#include "core/scalar.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo {
namespace importer {

// `status`, said of the node that `why` is of.
static Status FromNodeOf(const Status& why, const Status& status) {
  return why.source_node()[0] == '\0' ? status : status.FromNode(why.source_node());
}

namespace {

// The imports of one model whose caches' lengths are shapes of its own.
class ImportThree {
 public:
  ImportThree(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
              const CachePorts& ports, int64_t length, int64_t rows, ImportReport* report)
      : model_(model), options_(options), ports_(ports), length_(length), rows_(rows), report_(report) {
    options_.keep_identities = options_.list_known = true;
  }

  Result<ir::Graph> Fixed() {
    Result<ir::Graph> fixed = Fix(rows_);
    if (!fixed.ok() || begins_) {
      Result<ir::Graph> begun = Begun();
      if (begun.ok()) return begun;
      if (!fixed.ok() && OnlyBegins()) return Begins(fixed.status());
    }
    if (fixed.ok() || length_ - 3 * rows_ <= 0) return fixed;
    // Shorter, where the model's own tables end.
    const bool only_shorter = tables_end_, asked = asks_for_mask_;
    Result<ir::Graph> shorter = Fix(-rows_);
    if (shorter.ok() || only_shorter) return shorter;
    asks_for_mask_ = asked;
    return fixed;
  }

  // Whether Fixed's sentence asks which input is a mask over positions.
  bool asks_for_mask() const { return asks_for_mask_; }

 private:
  Result<ir::Graph> Import(int64_t total, bool shapes_only, ImportReport* said) {
    return Import(options_, total - rows_, total, shapes_only, said);
  }
  // A run of `rows` positions where none are cached, in a model that reads no cache.
  Result<ir::Graph> ImportFirst(int64_t rows, bool shapes_only, ImportReport* said) {
    ImportOptions of_rows = options_;
    of_rows.rows_of_run = rows;
    if (rows != rows_) BindRows(*model_, ports_, rows, &of_rows);
    return Import(of_rows, length_, rows, shapes_only, said);
  }
  Result<ir::Graph> Import(ImportOptions bound, int64_t past, int64_t total, bool shapes_only,
                           ImportReport* said) {
    *said = {};
    bound.shapes_only = shapes_only;
    BindPast(*model_, ports_, past, total, &bound);
    for (const std::string& mask :
         ports_.total_inputs) {  // given as long as the caches: as long as they are here
      const auto given = bound.input_shapes.find(mask);
      if (given != bound.input_shapes.end() && !given->second.empty() && given->second.back() == length_)
        given->second.back() = total;
    }
    Result<ir::Graph> graph = ImportModel(model_, bound, said);
    if (graph.ok() || options_.known_in_run.empty()) return graph;
    return Explained(graph.status());
  }

  // Of a model that reads no cache, whose masks are of a run's positions alone: the branch without a past of
  // a merged decoder. Its rows are the caches' first, and the first elements of a mask of all positions
  // count.
  Result<ir::Graph> Begun() {
    if (const std::vector<std::string> masks = ports_.MasksToShow(); !masks.empty())
      return UnclearMask(masks[0]);
    options_.known_in_run = DecidedByRows();
    ImportReport said;
    Result<ir::Graph> imported = ImportFirst(rows_, false, &said);
    std::vector<ElementOf> totals;
    const bool follows = options_.known_in_run.empty() || (imported.ok() && TakeTotals(&*imported, &totals));
    if (!follows) {
      options_.known_in_run.clear();
      imported = ImportFirst(rows_, false, &said);
      said.remarks.push_back("what the model makes of the number of tokens that begin a text is as for " +
                             std::to_string(rows_) + ", however many the text has");
    }
    RONDO_RETURN_IF_ERROR(imported.status());
    ir::Graph graph = imported.Take();
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
    ChooseByTextLength(&b, b.Scalar(DType::kI64, 0), rows_, totals);
    graph.RemoveDead();
    graph.Compact();
    if (report_ != nullptr) *report_ = std::move(said);
    return graph;
  }

  // Which single numbers decide something by how many positions a run has, of texts as long as the caches and
  // shorter. A run's own number does not tell what a text that goes on after it, or ends before, would get.
  KnownInRun DecidedByRows() {
    constexpr int kMostRounds = 16;
    ImportOptions any = options_;
    options_.known_in_run.clear();
    if (length_ < 4 || !BindRows(*model_, ports_, length_, &any)) return {};
    for (int round = 0; round < kMostRounds; ++round) {
      ImportReport said[3];
      for (int64_t k = 0; k < 3; ++k) {
        if (!ImportFirst(length_ - k, true, &said[k]).ok())
          return round == 0 ? KnownInRun() : options_.known_in_run;
      }
      LengthsInRun lengths =
          FindLengthsInRun({said[0].known_nodes, said[1].known_nodes, said[2].known_nodes}, length_, 1, -1);
      lengths.decided.merge(lengths.unfollowed);
      const size_t before = options_.known_in_run.size();
      for (const KnownNode& node : said[0].known_nodes) {
        for (size_t k = 0; k < node.inputs.size(); ++k) {
          const KnownValue& value = node.inputs[k];
          const bool one =
              value.data != nullptr && value.shape.elements() == 1 && value.dtype != DType::kBool;
          const std::pair use = {node.output, static_cast<int>(k)};
          if (one && lengths.decided.count(use) != 0) options_.known_in_run.insert(use);
        }
      }
      if (options_.known_in_run.size() == before) break;
    }
    return options_.known_in_run;
  }

  // The numbers of `graph`, imported for a run's rows, that options_.known_in_run says: each with what it
  // rises by, as the import for one more shows. False if the two are not alike.
  bool TakeTotals(ir::Graph* graph, std::vector<ElementOf>* totals) {
    if (graph->inputs.empty() || graph->inputs.back().name != kPlaceholder) return true;
    ImportReport said;
    const Result<ir::Graph> more = ImportFirst(rows_ + 1, true, &said);
    if (!more.ok() || more->size() != graph->size()) return false;
    const ir::NodeId placeholder = graph->inputs.back().node;
    for (ir::NodeId id = 0; id < graph->size(); ++id) {
      const ir::Node &n = graph->node(id), &other = more->node(id);
      if (!IsHidden(*graph, id, placeholder)) continue;
      if (other.op != n.op || other.inputs != n.inputs) return false;
      const auto here = EvaluateConstant(*graph, n.inputs[0]), there = EvaluateConstant(*more, n.inputs[0]);
      if (!here.ok() || !there.ok()) {  // made of another such number
        graph->Replace(id, n.inputs[0]);
        continue;
      }
      const auto number = [](const auto& data) {
        return scalar::Load<double>((*data)->dtype, (*data)->bytes.data(), 0);
      };
      totals->push_back({id, 0, number(there) - number(here)});
    }
    graph->inputs.pop_back();
    ir::Builder b(graph);
    graph->Replace(placeholder, b.Scalar(DType::kI64, 0));
    return true;
  }

  // The cache with what the run gives for it as its first rows. False if it is read, or that does not fit.
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

  // Input number `at` with an element for every position, of which the model has the first.
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

  // Whether the model can be imported where nothing is cached, and not where something is: as those whose
  // mask of a run's positions among themselves is stretched over all positions.
  bool OnlyBegins() {
    ImportReport said;
    return rows_ > 1 && !Import(rows_ + 1, true, &said).ok() && Import(rows_, true, &said).ok();
  }
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

  // Why something is not known that the model's own export knew.
  Status Explained(const Status& why) const {
    const Status status = Status::Error(
        why.code(),
        "--cache-length %lld: %s (how much is cached decides it in each run); export the model with "
        "GroupQueryAttention or a cache of a fixed length, or compile it for one number of cached positions "
        "(--shape)",
        static_cast<long long>(length_), why.message());
    return FromNodeOf(why, status);
  }

  Result<ir::Graph> Fix(int64_t step) {
    tables_end_ = asks_for_mask_ = false;
    options_.known_in_run.clear();
    Result<ir::Graph> fixed = Status::Error(Code::kInternal, "nothing is imported");
    // What is decided by a number hides what is decided by that; more than a few times over is no model's.
    constexpr int kMostRounds = 16;
    for (int round = 0; round < kMostRounds; ++round) {
      ImportReport said[3];
      asks_for_mask_ = false;
      RONDO_ASSIGN_OR_RETURN(const ir::Graph graph, Import(length_, false, &said[0]));
      const Result<ir::Graph> second = Import(length_ + step, true, &said[1]),
                              third = Import(length_ + 2 * step, true, &said[2]);
      tables_end_ = !second.ok() || !third.ok();
      if (tables_end_) return second.ok() ? third.status() : second.status();
      const LengthsInRun lengths = FindLengthsInRun(
          {said[0].known_nodes, said[1].known_nodes, said[2].known_nodes}, length_, rows_, step);
      const size_t before = options_.known_in_run.size();
      options_.known_in_run.insert(lengths.decided.begin(), lengths.decided.end());
      if (options_.known_in_run.size() != before) continue;
      FixedNotes notes;
      fixed = FixCaches(graph, *second, *third, ports_, length_, rows_, step, &notes);
      begins_ = notes.begins;
      asks_for_mask_ = notes.asks_for_mask;
      for (const std::string& name : notes.grown) {
        said[0].remarks.push_back("the output \"" + name + "\" has an element for each of " +
                                  std::to_string(length_) +
                                  " positions; those behind the last one that a run knows are 0");
      }
      if (fixed.ok() && report_ != nullptr) *report_ = std::move(said[0]);
      options_.known_in_run.insert(lengths.unfollowed.begin(), lengths.unfollowed.end());
      if (fixed.ok() || options_.known_in_run.size() == before) return fixed;
    }
    return fixed;
  }

  const std::shared_ptr<onnx::Model>& model_;
  ImportOptions options_;
  const CachePorts& ports_;
  const int64_t length_, rows_;
  ImportReport* report_;
  bool tables_end_ = false;
  bool begins_ = false;         // nothing is read of caches, whose first rows a run makes
  bool asks_for_mask_ = false;  // the last sentence asks which input is a mask
};

}  // namespace
}  // namespace importer

Result<ir::Graph> ImportWithFixedCaches(const std::shared_ptr<onnx::Model>& model,
                                        const ImportOptions& options, int64_t length,
                                        const std::vector<std::pair<std::string, std::string>>& states,
                                        ImportReport* report, FixedCaches* caches) {
  *caches = {};
  std::set<std::string> others;  // given, and no length of such a cache
  for (const auto& [symbol, value] : options.symbols) {
    if (value != length) others.insert(symbol);
  }
  for (const onnx::ValueInfoProto& input : model->proto().graph().input()) {
    const auto given = options.input_shapes.find(input.name());
    const auto& dims = input.type().tensor_type().shape().dim();
    if (given != options.input_shapes.end() && !given->second.empty() && !dims.empty() &&
        given->second.back() != length)
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
  importer::ImportThree imports(model, growing, ports, length, rows, report);
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
