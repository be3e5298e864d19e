// A bucket: a model imported with room for more than a run uses of some lengths, which are run-time sizes.
#include <algorithm>

#include "compiler/import/import.h"
#include "compiler/import/importer.h"
#include "compiler/import/mask_padding.h"
#include "compiler/import/place_by_place.h"
#include "compiler/import/read_extents.h"
#include "compiler/ir/port_names.h"

namespace rondo {
namespace importer {
namespace {

std::string InputOf(const std::string& length) { return "length of " + length; }

// Adds `by` * `size` / `dim->over` to `dim`, which is 0 at first. False if `dim` cannot express it.
bool AddTo(const ir::Size& size, const std::vector<BucketLength>& lengths, BucketDim* dim) {
  if (size.unknown()) return false;
  for (const ir::Size::Term& term : size.terms()) {
    if (term.product.empty()) {
      dim->plus += term.factor * dim->over;
      continue;
    }
    if (term.product.size() != 1) return false;
    const ir::Size::Atom& atom = *term.product[0];
    if (atom.kind == ir::Size::Atom::kName) {
      const auto at = std::find_if(lengths.begin(), lengths.end(),
                                   [&](const BucketLength& length) { return length.name == atom.name; });
      if (at == lengths.end() || dim->over != 1) return false;
      dim->terms.push_back({static_cast<uint32_t>(at - lengths.begin()), term.factor});
      continue;
    }
    // floor(a / b) + c is floor((a + c b) / b), and floor(floor(a / b) / d) is floor(a / (b d)).
    const bool divides = atom.kind == ir::Size::Atom::kFloorDiv && term.factor == 1 && dim->terms.empty() &&
                         dim->over == 1 && atom.of[1].known();
    if (!divides) return false;
    BucketDim inner;
    if (!AddTo(atom.of[0], lengths, &inner)) return false;
    const int64_t by = *atom.of[1].value();
    dim->terms = inner.terms;
    dim->over = inner.over * by;
    dim->plus = inner.plus + dim->plus * dim->over;
  }
  return true;
}

bool HasQuote(const std::string& name) { return name.find('"') != std::string::npos; }

class BucketImport {
 public:
  BucketImport(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options, BucketNote* note)
      : model_(model), options_(options), note_(note), sizes_(&graph_) {}

  Result<ir::Graph> Run(bool check_extents, ImportReport* report) {
    for (BucketLength& length : note_->lengths) {
      if (HasQuote(length.name))
        return Status::Error(Code::kUnsupported, "the name of dimension %.100s has a quotation mark",
                             length.name.c_str());
      if (length.room > 1) length.input = InputOf(length.name);  // with room for one, a run always gives one
    }
    RONDO_RETURN_IF_ERROR(Import(0, &graph_, &sizes_, report));
    if (check_extents) {
      ir::Graph wider;
      ir::Sizes sizes(&wider);
      ImportReport unsaid;
      RONDO_RETURN_IF_ERROR(Import(1, &wider, &sizes, &unsaid));
      RONDO_RETURN_IF_ERROR(CheckNoExtentIsRead(graph_, wider, RemedyFor(sizes.cause)));
    }
    RONDO_ASSIGN_OR_RETURN(const OutputSizes outputs, MaskPadding(&graph_, &sizes_));
    RONDO_RETURN_IF_ERROR(NoteDims(outputs));
    DropIdentityViews(&graph_);
    graph_.RemoveDead();
    DropUnread(report);
    RONDO_RETURN_IF_ERROR(AttachNote());
    graph_.Compact();
    return std::move(graph_);
  }

 private:
  // Imports with room for `more` than the bucket has of each length.
  Status Import(int64_t more, ir::Graph* graph, ir::Sizes* sizes, ImportReport* report) {
    sizes->cause = "--shape";
    ImportOptions options = options_;
    for (const BucketLength& length : note_->lengths) {
      const int64_t room = length.room + more;
      if (length.room > 1) options.symbols[length.name] = ir::Size::Name(length.name, 1, room, room);
    }
    std::vector<ir::NodeId> inputs;
    Importer run(model_, options, report, graph);
    run.Follow(sizes, [&](ir::Builder* b) {
      for (const BucketLength& length : note_->lengths) {
        if (length.room == 1) continue;
        inputs.push_back(b->Input(length.input, DType::kI64, Shape{}));
        sizes->SetNode(options.symbols[length.name], inputs.back());
      }
    });
    RONDO_RETURN_IF_ERROR(run.Run());
    // The lengths stay as outputs, because masks will read them.
    for (const ir::NodeId input : inputs) graph->outputs.push_back({"", input});
    graph->RemoveDead();
    graph->outputs.resize(graph->outputs.size() - inputs.size());
    return Status::Ok();
  }

  // Drops the inputs of lengths that no mask reads.
  void DropUnread(ImportReport* report) {
    for (BucketLength& length : note_->lengths) {
      const int at = ir::FindPort(graph_.inputs, length.input);
      if (at < 0 || length.input.empty()) continue;
      std::erase(report->unused_inputs, length.input);
      const ir::NodeId node = graph_.inputs[static_cast<size_t>(at)].node;
      if (!graph_.UsersOf(node).empty() || graph_.IsOutput(node)) continue;
      graph_.inputs.erase(graph_.inputs.begin() + at);
      for (size_t i = 0; i < graph_.inputs.size(); ++i)
        graph_.node(graph_.inputs[i].node).As<ir::InputAttrs>().index = static_cast<int>(i);
      graph_.node(node).dead = true;
      length.input.clear();
    }
  }

  Status AddDim(bool output, const std::string& port, size_t dim, const ir::Size& size) {
    if (size.known()) return Status::Ok();
    BucketDim out{output, port, static_cast<uint32_t>(dim), {}, 0, 1};
    if (HasQuote(port) || !AddTo(size, note_->lengths, &out)) {
      return Status::Error(Code::kUnsupported,
                           "dimension %zu of the %s \"%.200s\" is %s, which a run cannot cut to: give each "
                           "length one size (--shape NAME=N)",
                           dim, output ? "output" : "input", port.c_str(), size.Text().c_str());
    }
    note_->dims.push_back(std::move(out));
    return Status::Ok();
  }

  Status NoteDims(const OutputSizes& outputs) {
    for (const ir::GraphInput& input : graph_.inputs) {
      for (int d = 0; d < graph_.node(input.node).shape.rank; ++d)
        RONDO_RETURN_IF_ERROR(AddDim(false, input.name, static_cast<size_t>(d), sizes_.Of(input.node, d)));
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      for (size_t d = 0; d < outputs.of[i].size(); ++d)
        RONDO_RETURN_IF_ERROR(AddDim(true, graph_.outputs[i].name, d, outputs.of[i][d]));
    }
    return Status::Ok();
  }

  Status AttachNote() {
    if (graph_.inputs.empty()) return Status::Error(Code::kUnsupported, "a bucket without inputs");
    graph_.node(graph_.inputs[0].node).sources = {TextOf(*note_)};
    return Status::Ok();
  }

  const std::shared_ptr<onnx::Model>& model_;
  const ImportOptions& options_;
  BucketNote* note_;
  ir::Graph graph_;
  ir::Sizes sizes_;
};

}  // namespace
}  // namespace importer

Result<ir::Graph> ImportForBucket(const std::shared_ptr<onnx::Model>& model, const ImportOptions& options,
                                  bool check_extents, BucketNote* note, ImportReport* report) {
  ImportReport said = report == nullptr ? ImportReport() : *report;
  RONDO_ASSIGN_OR_RETURN(ir::Graph graph,
                         importer::BucketImport(model, options, note).Run(check_extents, &said));
  if (report != nullptr) *report = std::move(said);
  return graph;
}

}  // namespace rondo
