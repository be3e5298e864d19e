// A byte matmul with one row, whose lhs is quantised by its range, becomes sums over rows of weights.
//
// Squeeze-and-excitation quantises one number for each channel, multiplies, and quantises the result again:
// range, bytes and matmul would be three kernels with next to no work. As sums (kReduce) of element products
// they are one part: each output finds the range of all inputs, quantises them and adds up. The same applies
// to readers of scale and zero point behind the matmul, with one element for each output.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

constexpr size_t kMostNodes = 64;                     // from an image to its bytes
constexpr int kMostSteps = 2048;                      // limit of nodes examined, with repetition
constexpr int64_t kMostInRow = 8 << 10;               // inputs, quantised again by every output
constexpr int64_t kMostQuantised = int64_t{3} << 18;  // over all outputs

class Products {
 public:
  explicit Products(Graph* graph) : g_(*graph) {}

  int64_t Run() {
    int64_t changes = 0;
    for (NodeId id : g_.TopologicalOrder()) {
      if (g_.node(id).dead || !IsSmall(id) || seen_.count(Left(id)) != 0) continue;
      seen_.insert(Left(id));
      changes += Replace(Left(id));
    }
    return changes;
  }

 private:
  NodeId Left(NodeId product) const { return g_.BaseOf(g_.node(product).inputs[0]); }

  // Whether it is one row of sums of byte products, where each element of the lhs occurs once for each
  // output.
  bool IsSmall(NodeId id) const {
    const Node& node = g_.node(id);
    if ((node.op != Op::kConv && node.op != Op::kMatMul) || node.dtype != DType::kI32) return false;
    const NodeId left = node.inputs[0], right = node.inputs[1];
    const int64_t k = g_.node(Left(id)).shape.elements(), n = node.shape.elements();
    if (ByteSize(g_.node(left).dtype) != 1 || ByteSize(g_.node(right).dtype) != 1) return false;
    if (k < 2 || n < 2 || k > kMostInRow || n * k > kMostQuantised) return false;
    if (!ir::IsDense(g_.ViewOf(left), k) || g_.node(right).shape.elements() != n * k) return false;
    // Each weight is used once: one point, one group. In a matmul, inputs run along the weights' rows.
    if (node.op == Op::kConv) {
      const ir::ConvAttrs& attrs = node.As<ir::ConvAttrs>();
      const auto none = [](const std::vector<int64_t>& pads) {
        return std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
      };
      return none(attrs.pads_begin) && none(attrs.pads_end) && g_.node(right).shape[0] == n;
    }
    const Shape &shape = g_.node(left).shape, &weights = g_.node(right).shape;
    return shape[shape.rank - 1] == k && weights[weights.rank - 1] == n;
  }

  // The image of `elements` elements from whose range `id`, its bytes, is made; kNoNode: none, or several.
  NodeId PictureOf(NodeId id, int64_t elements) const {
    NodeId picture = kNoNode;
    std::vector<NodeId> work = {id};
    std::set<NodeId> seen = {id};
    while (!work.empty()) {
      const Node& node = g_.node(work.back());
      work.pop_back();
      if (seen.size() > kMostNodes) return kNoNode;
      for (NodeId input : node.inputs) {
        const NodeId base = g_.BaseOf(input);
        const Node& next = g_.node(base);
        if (const NodeId own = ReducedTensor(g_, base); own != kNoNode) {
          if (g_.node(own).shape.elements() != elements || (picture != kNoNode && picture != own))
            return kNoNode;
          picture = own;
        } else if (next.op == Op::kPointwise && next.shape.elements() == 1 && seen.insert(base).second) {
          work.push_back(base);
        }
      }
      // Bytes are a few steps from the image itself, which is recognised by its range.
      if (picture == kNoNode && node.shape.elements() == elements) {
        for (NodeId input : node.inputs) {
          const NodeId base = g_.BaseOf(input);
          const bool step = g_.node(base).op == Op::kPointwise && g_.node(base).shape.elements() == elements;
          if (step && seen.insert(base).second) work.push_back(base);
        }
      }
    }
    return picture;
  }
  // Whether it sums all the integers that it reads, so that any order gives the same result.
  bool IsSum(const Node& node) const {
    return node.op == Op::kReduce && node.As<ir::ReduceAttrs>().kind == ir::ReduceKind::kSum &&
           node.shape.elements() == 1 && node.dtype == DType::kI32 &&
           ir::IsDense(g_.ViewOf(node.inputs[0]), g_.node(g_.BaseOf(node.inputs[0])).shape.elements());
  }
  // Whether it is a number derived only from extremes of `picture`, sums of its bytes, and constants.
  bool IsOfRange(NodeId id, NodeId picture, int* steps) const {
    const Node& node = g_.node(id);
    if (node.shape.elements() != 1 || ++*steps > kMostSteps) return false;
    if (const NodeId own = ReducedTensor(g_, id); own != kNoNode) return own == picture;
    if (node.op == Op::kConstant) return true;
    if (IsSum(node)) return IsMadeOf(g_.BaseOf(node.inputs[0]), picture, steps);
    return node.op == Op::kPointwise &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](NodeId input) { return IsOfRange(g_.BaseOf(input), picture, steps); });
  }
  bool IsOfRange(NodeId id, NodeId picture) const {
    int steps = 0;
    return g_.node(id).op != Op::kConstant && IsOfRange(id, picture, &steps);
  }
  // Whether it is derived from elements of `picture` at the same position, numbers of its range, and
  // constants.
  bool IsMadeOf(NodeId id, NodeId picture, int* steps) const {
    if (id == picture) return true;
    const Node& node = g_.node(id);
    const int64_t elements = g_.node(picture).shape.elements();
    if (node.op != Op::kPointwise || node.shape.elements() != elements || ++*steps > kMostSteps) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
      const NodeId base = g_.BaseOf(input);
      if (g_.node(base).shape.elements() == 1) return IsOfRange(base, picture, steps);
      if (!ir::IsDense(g_.ViewOf(input), elements)) return false;
      return g_.node(base).op == Op::kConstant || IsMadeOf(base, picture, steps);
    });
  }

  // All matmuls that read the bytes `left`; false if there are readers other than those and sums of all
  // bytes.
  bool ProductsOf(NodeId left, NodeId id, std::vector<NodeId>* products) const {
    const int64_t elements = g_.node(left).shape.elements();
    for (NodeId user : g_.UsersOf(id)) {
      const Node& node = g_.node(user);
      if (node.op == Op::kView || (node.op == Op::kPointwise && node.shape.elements() == elements)) {
        if (!ProductsOf(left, user, products)) return false;
      } else if (IsSmall(user) && Left(user) == left && g_.BaseOf(node.inputs[1]) != left) {
        products->push_back(user);
      } else if (!IsSum(node)) {
        return false;
      }
    }
    return !g_.IsOutput(id);
  }

  int64_t Replace(NodeId left) {
    const NodeId picture = PictureOf(left, g_.node(left).shape.elements());
    int steps = 0;
    std::vector<NodeId> products;
    if (picture == kNoNode || g_.node(picture).dtype != DType::kF32 || !IsMadeOf(left, picture, &steps))
      return 0;
    if (!ProductsOf(left, left, &products)) return 0;
    // Matmuls with equally many outputs share their common values.
    std::map<int64_t, Row> rows;
    for (NodeId product : products) {
      const int64_t n = g_.node(product).shape.elements();
      Row& row = rows.try_emplace(n, Row{picture, n, {}}).first->second;
      const NodeId sums = Sums(product, left, &row);
      ReadOfRow(product, &row);
      if (g_.CanReplace(product, sums)) g_.Replace(product, sums);
    }
    return static_cast<int64_t>(products.size());
  }

  // Values that an output computes for itself: nodes of one number, or of one element for each input, for all
  // outputs.
  struct Row {
    NodeId picture;
    int64_t outputs;
    std::map<NodeId, NodeId> made;
  };

  NodeId Sums(NodeId product, NodeId left, Row* row) {
    Builder b = BuilderLike(&g_, product);
    const int64_t k = g_.node(left).shape.elements(), n = row->outputs;
    const NodeId weights = g_.node(product).inputs[1];
    NodeId terms = b.Cast(OfRow(left, row), DType::kI32);
    if (UniformValue(g_, weights) != 1.0) {
      NodeId own = g_.node(product).op == Op::kConv ? b.Reshape(weights, Shape{n, k})
                                                    : b.Transpose(b.Reshape(weights, Shape{k, n}), {1, 0});
      terms = b.Mul(terms, Widened(own, product));
    }
    return b.Reshape(b.Reduce(ir::ReduceKind::kSum, terms, {1}, true), g_.node(product).shape);
  }
  // Weights widened for the sums; not as a constant, which would be four times as large.
  NodeId Widened(NodeId weights, NodeId product) {
    Node cast;
    cast.op = Op::kPointwise;
    cast.dtype = DType::kI32;
    cast.shape = g_.node(weights).shape;
    cast.attrs = ir::PointwiseAttrs{TapeOp::kCast, 0};
    cast.inputs = {weights};
    cast.sources = g_.node(product).sources;
    return g_.Add(std::move(cast));
  }
  // `id` for each output: [outputs, 1] or [outputs, inputs].
  NodeId OfRow(NodeId id, Row* row) {
    Builder b = BuilderLike(&g_, id);
    const int64_t elements = g_.node(id).shape.elements(), k = g_.node(row->picture).shape.elements();
    const Shape own{row->outputs, elements};
    if (g_.node(id).op == Op::kConstant || id == row->picture)
      return b.Expand(b.Reshape(id, Shape{1, elements}), own);
    const auto known = row->made.find(id);
    if (known != row->made.end()) return known->second;
    NodeId made = kNoNode;
    if (g_.node(id).op == Op::kReduce) {
      const NodeId reduced = IsSum(g_.node(id)) ? g_.BaseOf(g_.node(id).inputs[0]) : row->picture;
      made = b.Reduce(g_.node(id).As<ir::ReduceAttrs>().kind, OfRow(reduced, row), {1}, true);
    } else {
      std::vector<NodeId> inputs = g_.node(id).inputs;
      for (NodeId& input : inputs) {
        input = OfRow(g_.BaseOf(input), row);
        if (elements == k) input = b.Expand(input, own);
      }
      const ir::PointwiseAttrs attrs = g_.node(id).As<ir::PointwiseAttrs>();
      made = b.Pointwise(attrs, g_.node(id).dtype, inputs);
    }
    return row->made[id] = made;
  }

  // Nodes behind the matmul, with one element for each output, read numbers of the range as computed by their
  // output.
  void ReadOfRow(NodeId product, Row* row) {
    std::vector<NodeId> work = {product};
    std::set<NodeId> seen = {product};
    while (!work.empty()) {
      const NodeId at = work.back();
      work.pop_back();
      for (NodeId user : ReadersOf(at)) {
        const bool step =
            g_.node(user).op == Op::kPointwise && g_.node(user).shape.elements() == row->outputs;
        if (!step || !seen.insert(user).second) continue;
        ReadNumbers(user, row, &seen);
        work.push_back(user);
      }
    }
  }
  std::vector<NodeId> ReadersOf(NodeId id) const {
    std::vector<NodeId> readers;
    for (NodeId user : g_.UsersOf(id)) {
      if (g_.node(user).op != Op::kView) {
        readers.push_back(user);
        continue;
      }
      const std::vector<NodeId> behind = ReadersOf(user);
      readers.insert(readers.end(), behind.begin(), behind.end());
    }
    return readers;
  }
  // Replaces numbers of the range among its inputs, and in the inputs' derivation if those have as many
  // elements.
  void ReadNumbers(NodeId id, Row* row, std::set<NodeId>* seen) {
    for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
      const NodeId input = g_.node(id).inputs[k], base = g_.BaseOf(input);
      if (g_.node(base).shape.elements() == 1) {
        if (!IsOfRange(base, row->picture)) continue;
        g_.SetInput(id, k, BuilderLike(&g_, base).Reshape(OfRow(base, row), g_.node(id).shape));
      } else if (g_.node(base).op == Op::kPointwise && g_.node(base).shape.elements() == row->outputs &&
                 seen->insert(base).second) {
        ReadNumbers(base, row, seen);
      }
    }
  }

  Graph& g_;
  std::set<NodeId> seen_;  // bytes
};

}  // namespace

int64_t SumSmallMatmuls(Graph* graph) { return Products(graph).Run(); }

}  // namespace rondo::passes
