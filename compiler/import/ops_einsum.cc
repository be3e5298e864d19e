// Einsum: sums over products of any number of tensors, as a chain of matmuls.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

// A tensor with named dims; each name occurs once.
struct Term {
  NodeId node = kNoNode;
  std::string labels;
};

// The labels of an ellipsis' dims, aligned at the end: '0' is the last dim.
std::string EllipsisLabels(int count) {
  std::string labels;
  for (int i = count; i-- > 0;) labels += static_cast<char>('0' + i);
  return labels;
}

struct Equation {
  std::vector<std::string> terms;
  std::string result;
};

Result<Equation> Parse(OpContext& c) {
  std::string text;
  for (char ch : c.String("equation", "")) {
    if (ch != ' ') text += ch;
  }
  Equation eq;
  size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  size_t begin = 0;
  while (begin <= left.size()) {
    size_t end = std::min(left.find(',', begin), left.size());
    eq.terms.push_back(left.substr(begin, end - begin));
    begin = end + 1;
  }
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
  }
  if (eq.terms.size() != static_cast<size_t>(c.num_inputs())) {
    return Status::Error(Code::kCorrupt, "equation \"%.100s\" for %d inputs", text.c_str(), c.num_inputs());
  }
  int widest = 0;
  for (size_t i = 0; i < eq.terms.size(); ++i) {
    std::string& term = eq.terms[i];
    size_t dots = term.find("...");
    int named = static_cast<int>(term.size()) - (dots == std::string::npos ? 0 : 3);
    int rank = c.rank(static_cast<int>(i));
    if (dots == std::string::npos ? named != rank : named > rank) {
      return Status::Error(Code::kCorrupt, "\"%.50s\" does not fit shape %s", term.c_str(),
                           Text(c.shape(static_cast<int>(i))).c_str());
    }
    if (dots != std::string::npos) {
      widest = std::max(widest, rank - named);
      term.replace(dots, 3, EllipsisLabels(rank - named));
    }
  }
  if (arrow == std::string::npos) {  // the ellipsis, then labels that occur once, in order
    eq.result = EllipsisLabels(widest);
    std::string all, once;
    for (const std::string& term : eq.terms) all += term;
    for (char ch : all) {
      if (std::isalpha(static_cast<unsigned char>(ch)) && std::count(all.begin(), all.end(), ch) == 1)
        once += ch;
    }
    std::sort(once.begin(), once.end());
    eq.result += once;
  } else {
    eq.result = text.substr(arrow + 2);
    if (size_t dots = eq.result.find("..."); dots != std::string::npos) {
      eq.result.replace(dots, 3, EllipsisLabels(widest));
    }
  }
  for (size_t i = 0; i < eq.result.size(); ++i) {
    bool known = std::any_of(eq.terms.begin(), eq.terms.end(),
                             [&](const std::string& t) { return t.find(eq.result[i]) != std::string::npos; });
    if (!known || eq.result.find(eq.result[i], i + 1) != std::string::npos) {
      return Status::Error(Code::kCorrupt, "equation \"%.100s\" has a wrong result", text.c_str());
    }
  }
  return eq;
}

bool Contains(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// Merges dims with the same label into their diagonal.
NodeId Diagonal(Builder& b, NodeId x, std::string* labels) {
  ir::View dense = ir::DenseView(b.shape(x));
  ir::ViewStep step;
  std::string distinct;
  for (int d = 0; d < b.shape(x).rank; ++d) {
    char label = (*labels)[static_cast<size_t>(d)];
    size_t at = distinct.find(label);
    if (at == std::string::npos) {
      at = distinct.size();
      distinct += label;
      step.shape.dims[step.shape.rank++] = b.shape(x)[d];
      step.strides[at] = 0;
    }
    step.strides[at] += dense.steps[0].strides[d];
  }
  if (distinct.size() == labels->size()) return x;
  *labels = distinct;
  return b.ViewNode(x, ir::View{{step}});
}

// Sums over the labels that are not in `kept`.
Term SumTo(Builder& b, Term term, const std::string& kept) {
  std::vector<int> axes;
  std::string left;
  for (size_t d = 0; d < term.labels.size(); ++d) {
    if (Contains(kept, term.labels[d])) {
      left += term.labels[d];
    } else {
      axes.push_back(static_cast<int>(d));
    }
  }
  if (!axes.empty()) term.node = b.Reduce(ir::ReduceKind::kSum, term.node, axes, false);
  term.labels = left;
  return term;
}

// The dims of `term` in the order of `labels`, with dims of 1 for those it lacks.
NodeId Arrange(Builder& b, const Term& term, const std::string& labels) {
  std::vector<int> perm;
  Shape shape;
  for (char label : labels) {
    size_t at = term.labels.find(label);
    if (at != std::string::npos) perm.push_back(static_cast<int>(at));
    shape.dims[shape.rank++] = at == std::string::npos ? 1 : b.shape(term.node)[static_cast<int>(at)];
  }
  return b.Reshape(b.Transpose(term.node, perm), shape);
}

int64_t Extent(const Builder& b, const Term& term, char label) {
  size_t at = term.labels.find(label);
  return at == std::string::npos ? 1 : b.shape(term.node)[static_cast<int>(at)];
}

// Multiplies two terms and sums over the labels that are not in `kept`.
Result<Term> Multiply(OpContext& c, Term x, Term y, const std::string& kept) {
  Builder& b = c.b;
  std::string own_x = kept + y.labels, own_y = kept + x.labels;
  x = SumTo(b, std::move(x), own_x);
  y = SumTo(b, std::move(y), own_y);
  std::string batch, left, right, inner;
  for (char l : x.labels) {
    // If one operand broadcasts along a dim (its extent is 1), the dim cannot be K of the matmul.
    if (!Contains(y.labels, l)) {
      left += l;
    } else if (Contains(kept, l)) {
      batch += l;
    } else {
      inner += l;
    }
  }
  for (char l : y.labels) {
    if (!Contains(x.labels, l)) right += l;
  }
  Term out{kNoNode, batch + left + right};
  if (out.labels.size() + inner.size() > static_cast<size_t>(kMaxRank)) {
    return Status::Error(Code::kUnsupported, "a product of more than %d dimensions", kMaxRank);
  }
  bool plain = true;  // no broadcasting between the operands
  for (char l : batch + inner) plain &= Extent(b, x, l) == Extent(b, y, l);
  if (inner.empty() || !plain) {
    std::string all = out.labels + inner;
    NodeId product = b.Mul(Arrange(b, x, all), Arrange(b, y, all));
    Term wide{product, all};
    return SumTo(b, wide, out.labels);
  }
  auto size = [&](const Term& t, const std::string& labels) {
    int64_t n = 1;
    for (char l : labels) n *= Extent(b, t, l);
    return n;
  };
  Shape shape;
  for (char l : out.labels) shape.dims[shape.rank++] = Extent(b, Contains(x.labels, l) ? x : y, l);
  int64_t bs = size(x, batch), m = size(x, left), k = size(x, inner), n = size(y, right);
  NodeId lhs = b.Reshape(Arrange(b, x, batch + left + inner), {bs, m, k});
  NodeId rhs = b.Reshape(Arrange(b, y, batch + inner + right), {bs, k, n});
  out.node = b.Reshape(b.MatMul(lhs, rhs), shape);
  return out;
}

Status Einsum(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(Equation eq, Parse(c));
  std::vector<Term> terms;
  std::map<char, int64_t> extents;
  for (int i = 0; i < c.num_inputs(); ++i) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
    std::string labels = eq.terms[static_cast<size_t>(i)];
    std::map<char, int64_t> own;
    for (int d = 0; d < c.rank(i); ++d) {
      char l = labels[static_cast<size_t>(d)];
      int64_t n = c.shape(i)[d];
      auto [seen, fresh] = own.emplace(l, n);
      auto [known, first] = extents.emplace(l, n);
      if (known->second == 1) known->second = n;
      if ((!fresh && seen->second != n) || (n != known->second && n != 1) || n == 0) {
        return Status::Error(Code::kCorrupt, "label %c stands for both %lld and %lld", l,
                             static_cast<long long>(known->second), static_cast<long long>(n));
      }
    }
    NodeId x = Diagonal(c.b, c.In(i), &labels);
    terms.push_back({x, labels});
  }
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  Term total = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string kept = eq.result;
    for (size_t j = i + 1; j < terms.size(); ++j) kept += terms[j].labels;
    RONDO_ASSIGN_OR_RETURN(total, Multiply(c, total, terms[i], kept));
  }
  total = SumTo(c.b, std::move(total), eq.result);
  return c.Give(Arrange(c.b, total, eq.result));
}

constexpr OpRow kOps[] = {{"Einsum", 1, Einsum}};

}  // namespace

Span<const OpRow> EinsumOps() { return kOps; }

}  // namespace rondo::importer
