// PackWeights: matmuls with suitable kernels on the target read packed weights directly; for other readers
// they are unpacked.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/ir/packed_parts.h"
#include "compiler/ir/rebase.h"
#include "compiler/passes/match.h"
#include "compiler/quantise/quantise.h"
#include "compiler/quantise/quantised.h"
#include "compiler/quantise/unpack.h"
#include "core/element.h"

namespace rondo::passes {

namespace {

using ir::PackedMatrix;
using Matrix = std::shared_ptr<const PackedMatrix>;

// The rows of the matrix that a view shows as the rhs of a matmul.
struct ShownRows {
  int64_t first = 0, count = 0;
  auto operator<=>(const ShownRows&) const = default;
};

// No value unless the view shows whole rows as columns [..., k, n], in tiles that can be separated.
std::optional<ShownRows> RowsShown(const PackedMatrix& matrix, const ir::View& view) {
  if (!view.affine()) return std::nullopt;
  const ir::ViewStep& step = view.steps[0];
  const int r = step.shape.rank;
  if (r < 2 || step.shape[r - 2] != matrix.k || step.strides[r - 2] != 1) return std::nullopt;
  for (int d = 0; d < r - 2; ++d) {
    if (step.shape[d] != 1 && step.strides[d] != 0) return std::nullopt;
  }
  const ShownRows rows = {step.offset / matrix.k, step.shape[r - 1]};
  const bool all = rows.first == 0 && rows.count == matrix.n;
  const bool tiles = rows.first % 16 == 0 && rows.count % 16 == 0 && rows.count >= 16;
  const bool fits = step.strides[r - 1] == matrix.k && step.offset % matrix.k == 0 && step.offset >= 0 &&
                    rows.first + rows.count <= matrix.n;
  return fits && (all || tiles) ? std::optional<ShownRows>(rows) : std::nullopt;
}

class Packing {
 public:
  Packing(Graph* graph, const PassOptions& options) : g_(graph), options_(options) {}

  void Constant(NodeId id) {
    id = AlongReaders(id);
    const Matrix matrix = g_->node(id).As<ir::ConstantAttrs>().data->packed;
    bytes_ += matrix->byte_size();
    std::map<ShownRows, std::vector<NodeId>> inputs;  // constants for each run of rows
    for (NodeId reader : MatMulsOf(id)) {
      const Node& n = g_->node(reader);
      const std::optional<ShownRows> rows = RowsShown(*matrix, g_->ViewOf(n.inputs[1]));
      if (!rows || g_->BaseOf(n.inputs[0]) == id || !Suits(n, *matrix, g_->node(id).dtype)) continue;
      const auto [entry, added] = inputs.try_emplace(*rows);
      if (added)
        entry->second = Constants(id, *ir::CutPacked(*matrix, {rows->first, rows->count}, {0, matrix->k}));
      Replace(reader, *matrix, g_->node(id).dtype, entry->second);
    }
    if (!g_->node(id).dead) Reads(id, *matrix);
    if (g_->node(id).dead || (g_->UsersOf(id).empty() && !g_->IsOutput(id))) return;
    ir::Builder b = BuilderLike(g_, id);
    g_->Replace(id, Unpack(b, *matrix, g_->node(id).dtype));
    ++unpacked_;
  }

  PassResult Result() const {
    PassResult result;
    result.changes = packed_;
    if (packed_ + read_ + unpacked_ == 0) return result;
    result.text = Count(packed_, "matmul") + " by packed weights of " + std::to_string(bytes_) + " bytes";
    if (read_ > 0) result.text += ", rows read by " + Count(read_, "lookup");
    if (unpacked_ > 0) result.text += ", " + Count(unpacked_, "weight") + " unpacked in every run";
    return result;
  }

 private:
  // A weight whose rows share scales can be packed along either dim: chooses the one that its matmuls sum
  // over.
  NodeId AlongReaders(NodeId id) {
    const std::shared_ptr<const ir::ConstantData> data = g_->node(id).As<ir::ConstantAttrs>().data;
    const std::vector<NodeId> readers = MatMulsOf(id);
    const auto shown = [&](NodeId reader) { return g_->ViewOf(g_->node(reader).inputs[1]); };
    const bool suits = std::any_of(readers.begin(), readers.end(),
                                   [&](NodeId reader) { return RowsShown(*data->packed, shown(reader)); });
    if (readers.empty() || suits || g_->IsOutput(id)) return id;
    const Matrix turned = ir::Transposed(*data->packed);
    if (turned == nullptr) return id;
    constexpr int kSwapped[] = {1, 0};
    const ir::View back = ir::Transpose(ir::DenseView({turned->n, turned->k}), kSwapped);
    const bool helps = std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return RowsShown(*turned, ir::Compose(back, shown(reader))).has_value();
    });
    if (!helps) return id;
    ir::Builder b = BuilderLike(g_, id);
    const NodeId constant = b.Constant(ir::PackedConstant(turned, data->dtype, data->name));
    g_->Replace(id, b.Transpose(constant, {1, 0}));
    return constant;
  }

  // The matmuls whose rhs shows the constant.
  std::vector<NodeId> MatMulsOf(NodeId id) {
    std::vector<NodeId> found;
    const auto look = [&](NodeId shown) {
      for (NodeId user : g_->UsersOf(shown)) {
        const Node& n = g_->node(user);
        if (n.op == Op::kMatMul && n.inputs[1] == shown && n.inputs.size() == 2) found.push_back(user);
      }
    };
    look(id);
    for (NodeId user : g_->UsersOf(id)) {
      if (g_->node(user).op == Op::kView) look(user);
    }
    return found;
  }

  // Readers of some rows of the matrix only unpack those.
  void Reads(NodeId id, const PackedMatrix& matrix) {
    std::vector<NodeId> shown = {id};
    for (NodeId user : g_->UsersOf(id)) {
      if (g_->node(user).op == Op::kView) shown.push_back(user);
    }
    for (NodeId at : shown) {
      for (NodeId user : g_->UsersOf(at)) {
        const Node& n = g_->node(user);
        const std::vector<NodeId> inputs = n.inputs;
        if (n.op != Op::kIndexedRead || inputs[0] != at || n.shape.elements() > matrix.n * matrix.k / 2)
          continue;
        ir::IndexedAttrs attrs = n.As<ir::IndexedAttrs>();
        if (g_->node(at).op == Op::kView && !ir::Rebase(g_->ViewOf(at), &attrs)) continue;
        ir::Builder b = BuilderLike(g_, user);
        const std::vector<NodeId> indices(inputs.begin() + 1, inputs.end());
        const NodeId read = UnpackRead(b, matrix, g_->node(id).dtype, attrs, indices);
        if (read == ir::kNoNode) continue;
        g_->Replace(user, read);
        g_->RemoveUnused({at});
        ++read_;
      }
    }
  }

  // Whether kernels of the target are faster with the codes than with numbers unpacked before.
  bool Suits(const Node& n, const PackedMatrix& matrix, DType dtype) const {
    const int64_t rows = n.shape.elements() / std::max<int64_t>(1, n.shape[n.shape.rank - 1]);
    if (n.shape.elements() == 0) return false;
    if (options_.target.packed_everywhere) return true;
    const bool power = (matrix.block & (matrix.block - 1)) == 0;
    return Is16BitFloat(dtype) && (rows <= kMostRowsOnGpu || options_.target.wgmma) && matrix.k % 8 == 0 &&
           (power || matrix.block >= matrix.k);
  }

  NodeId Add(NodeId like, std::shared_ptr<const ir::ConstantData> data, const char* what) {
    Node constant;
    constant.op = Op::kConstant;
    constant.dtype = data->dtype;
    constant.shape = data->shape;
    constant.sources = g_->node(like).sources;
    if (!g_->node(like).name.empty()) constant.name = g_->node(like).name + what;
    constant.attrs = ir::ConstantAttrs{std::move(data)};
    return g_->Add(std::move(constant));
  }

  std::vector<NodeId> Constants(NodeId id, const PackedMatrix& matrix) {
    std::vector<NodeId> nodes = {Add(id, matrix.codes, ""), Add(id, matrix.scales, ".scales")};
    if (matrix.zeros != nullptr) nodes.push_back(Add(id, matrix.zeros, ".zeros"));
    return nodes;
  }

  void Replace(NodeId matmul, const PackedMatrix& matrix, DType dtype, const std::vector<NodeId>& constants) {
    const Node& old = g_->node(matmul);
    Node node;
    node.op = Op::kMatMul;
    node.dtype = old.dtype;
    node.shape = old.shape;
    node.annotations = old.annotations;
    node.name = old.name;
    node.attrs = ir::PackedAttrs{{matrix.type, dtype, matrix.block, matrix.zero}, matrix.zeros != nullptr};
    node.inputs = {old.inputs[0]};
    node.inputs.insert(node.inputs.end(), constants.begin(), constants.end());
    const NodeId shown = old.inputs[1];
    g_->Replace(matmul, g_->Add(std::move(node)));
    g_->RemoveUnused({shown});
    ++packed_;
  }

  static constexpr int64_t kMostRowsOnGpu = 16;
  Graph* g_;
  const PassOptions& options_;
  int64_t packed_ = 0, read_ = 0, unpacked_ = 0, bytes_ = 0;
};

}  // namespace

Result<PassResult> PackWeights(Graph* graph, const PassOptions& options) {
  Packing packing(graph, options);
  for (NodeId id = 0, end = graph->size(); id < end; ++id) {
    const Node& n = graph->node(id);
    if (!n.dead && IsPackedConstant(n)) packing.Constant(id);
  }
  PassResult result = packing.Result();
  if (!result.text.empty()) Tidy(graph);
  return result;
}

}  // namespace rondo::passes
