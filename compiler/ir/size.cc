#include "compiler/ir/size.h"

#include <algorithm>
#include <limits>

namespace rondo::ir {

namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
constexpr int kHeaviest = 256;  // nested atoms and terms; heavier sizes become unknown
constexpr int kMostTried = 3;   // minima in a sum whose bounds are tried in every combination

int64_t Plus(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_add_overflow(a, b, &out)) return out;
  return a < 0 ? kLeast : kMost;
}
int64_t Times(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  return (a < 0) == (b < 0) ? kMost : kLeast;
}
int64_t FloorOf(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0

}  // namespace

Size::Size(int64_t value) {
  if (value != 0) terms_.push_back({{}, value});
}

Size Size::Of(std::shared_ptr<const Atom> atom) {
  Size size;
  size.terms_.push_back({{std::move(atom)}, 1});
  return size;
}

Size Size::Name(const std::string& name, int64_t least, int64_t most, int64_t extent) {
  auto atom = std::make_shared<Atom>();
  atom->name = name;
  atom->least = least;
  atom->most = most;
  atom->extent = extent;
  return Of(std::move(atom));
}

Size Size::Unknown(int64_t extent) {
  Size size = extent;
  size.unknown_ = true;
  return size;
}

std::optional<int64_t> Size::value() const {
  if (unknown_ || terms_.size() > 1 || (terms_.size() == 1 && !terms_[0].product.empty()))
    return std::nullopt;
  return terms_.empty() ? 0 : terms_[0].factor;
}

bool Size::is_sum() const {
  const auto is_name = [](const std::shared_ptr<const Atom>& atom) { return atom->kind == Atom::kName; };
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    return std::all_of(term.product.begin(), term.product.end(), is_name);
  });
}

// ------------------------------------------------------------------------------------------ order

int Size::Compare(const Atom& a, const Atom& b) {
  if (&a == &b) return 0;
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (const int by_name = a.name.compare(b.name); by_name != 0) return by_name < 0 ? -1 : 1;
  for (size_t i = 0; i < a.of.size(); ++i) {
    if (const int by = Compare(a.of[i], b.of[i]); by != 0) return by;
  }
  return 0;
}

// Products with fewer factors come first, so the constant term is first, and the leading term of a product of
// two sums is the product of their leading terms.
int Size::Compare(const std::vector<std::shared_ptr<const Atom>>& a,
                  const std::vector<std::shared_ptr<const Atom>>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (const int by = Compare(*a[i], *b[i]); by != 0) return by;
  }
  return 0;
}

int Size::Compare(const Size& a, const Size& b) {
  if (a.unknown_ != b.unknown_) return a.unknown_ ? -1 : 1;
  if (a.terms_.size() != b.terms_.size()) return a.terms_.size() < b.terms_.size() ? -1 : 1;
  for (size_t i = 0; i < a.terms_.size(); ++i) {
    if (const int by = Compare(a.terms_[i].product, b.terms_[i].product); by != 0) return by;
    if (a.terms_[i].factor != b.terms_[i].factor) return a.terms_[i].factor < b.terms_[i].factor ? -1 : 1;
  }
  return 0;
}

bool operator==(const Size& a, const Size& b) {
  return !a.unknown_ && !b.unknown_ && Size::Compare(a, b) == 0;
}
bool operator<(const Size& a, const Size& b) { return Size::Compare(a, b) < 0; }

// ------------------------------------------------------------------------------------- arithmetic

void Size::Add(const Term& term) {
  const auto at = std::lower_bound(terms_.begin(), terms_.end(), term, [](const Term& a, const Term& b) {
    return Compare(a.product, b.product) < 0;
  });
  if (at == terms_.end() || Compare(at->product, term.product) != 0) {
    if (term.factor != 0) terms_.insert(at, term);
    return;
  }
  at->factor = Plus(at->factor, term.factor);
  if (at->factor == 0) terms_.erase(at);
}

int Size::weight() const {
  int weight = 0;
  for (const Term& term : terms_) {
    ++weight;
    for (const auto& atom : term.product) weight += atom->weight;
  }
  return weight;
}
Size Size::Checked() const { return weight() > kHeaviest ? Unknown(extent()) : *this; }

Size operator+(const Size& a, const Size& b) {
  if (a.unknown_ || b.unknown_) return Size::Unknown(Plus(a.extent(), b.extent()));
  Size sum = a;
  for (const Size::Term& term : b.terms_) sum.Add(term);
  return sum.Checked();
}

Size operator-(const Size& a, const Size& b) { return a + Size(-1) * b; }

Size operator*(const Size& a, const Size& b) {
  if (a.unknown_ || b.unknown_) return Size::Unknown(Times(a.extent(), b.extent()));
  Size out;
  for (const Size::Term& x : a.terms_) {
    for (const Size::Term& y : b.terms_) {
      Size::Term both{x.product, Times(x.factor, y.factor)};
      for (const auto& atom : y.product) {
        const auto after = [](const auto& one, const auto& other) { return Size::Compare(*one, *other) < 0; };
        both.product.insert(std::upper_bound(both.product.begin(), both.product.end(), atom, after), atom);
      }
      out.Add(both);
    }
    if (out.Checked().unknown_) return Size::Unknown(Times(a.extent(), b.extent()));
  }
  return out;
}

// min(a, 0) and min(-a, 0) share one atom: the one whose last term has a positive factor.
Size Size::MinZero(const Size& a) {
  if (a.unknown_) return Unknown(std::min<int64_t>(a.extent(), 0));
  if (a.least() >= 0) return 0;
  if (a.most() <= 0) return a;
  if (a.terms_.back().factor < 0) return a + MinZero(Size(-1) * a);
  auto atom = std::make_shared<Atom>();
  atom->kind = Atom::kMinZero;
  atom->least = std::min<int64_t>(a.least(), 0);
  atom->most = std::min<int64_t>(a.most(), 0);
  atom->extent = std::min<int64_t>(a.extent(), 0);
  atom->weight += a.weight();
  atom->of = {a};
  return Of(std::move(atom)).Checked();
}

Size Min(const Size& a, const Size& b) { return b + Size::MinZero(a - b); }
Size Max(const Size& a, const Size& b) { return a - Size::MinZero(a - b); }

Size FloorDiv(const Size& a, const Size& b) {
  if (a.unknown_ || b.unknown_ || b.least() < 1)
    return Size::Unknown(b.extent() < 1 ? 0 : FloorOf(a.extent(), b.extent()));
  if (a.known() && b.known()) return FloorOf(*a.value(), *b.value());
  // The terms of a sum that b divides come out of the floor division.
  Size whole, rest;
  for (const Size::Term& term : a.terms_) {
    Size one;
    one.terms_ = {term};
    const std::optional<Size> quotient = Size::Divide(one, b);
    if (quotient) {
      whole = whole + *quotient;
    } else {
      rest.Add(term);
    }
  }
  if (const std::optional<Size> all = Size::Divide(a, b)) return *all;
  if (rest.least() >= 0 && (b - rest).least() >= 1) return whole;
  if (rest.known() && b.known()) return whole + FloorOf(*rest.value(), *b.value());
  auto atom = std::make_shared<Size::Atom>();
  atom->kind = Size::Atom::kFloorDiv;
  const int64_t ends[] = {FloorOf(rest.least(), b.least()), FloorOf(rest.least(), b.most()),
                          FloorOf(rest.most(), b.least()), FloorOf(rest.most(), b.most())};
  atom->least = *std::min_element(std::begin(ends), std::end(ends));
  atom->most = *std::max_element(std::begin(ends), std::end(ends));
  atom->extent = FloorOf(rest.extent(), b.extent());
  atom->weight += rest.weight() + b.weight();
  atom->of = {rest, b};
  return (whole + Size::Of(std::move(atom))).Checked();
}

Size Mod(const Size& a, const Size& b) { return a - b * FloorDiv(a, b); }

// Long division by the leading terms.
std::optional<Size> Size::Divide(const Size& a, const Size& b) {
  if (a.unknown_ || b.unknown_ || b.terms_.empty()) return std::nullopt;
  const Term& lead = b.terms_.back();
  Size left = a, quotient;
  for (size_t step = 0; !left.terms_.empty(); ++step) {
    const Term& most = left.terms_.back();
    if (step > a.terms_.size() + kHeaviest || most.factor % lead.factor != 0) return std::nullopt;
    Term next{most.product, most.factor / lead.factor};
    for (const auto& atom : lead.product) {
      const auto same = [&](const auto& other) { return Compare(*atom, *other) == 0; };
      const auto found = std::find_if(next.product.begin(), next.product.end(), same);
      if (found == next.product.end()) return std::nullopt;
      next.product.erase(found);
    }
    Size part;
    part.terms_ = {next};
    left = left - part * b;
    quotient = quotient + part;
    if (left.unknown_ || quotient.unknown_) return std::nullopt;
  }
  return quotient;
}

// ----------------------------------------------------------------------------------------- values

template <typename F>
int64_t Size::Sum(F value_of) const {
  int64_t sum = 0;
  for (const Term& term : terms_) {
    int64_t product = term.factor;
    for (const auto& atom : term.product) product = Times(product, value_of(*atom));
    sum = Plus(sum, product);
  }
  return sum;
}

int64_t Size::extent() const {
  return Sum([](const Atom& atom) { return atom.extent; });
}

int64_t Size::Evaluate(const std::function<int64_t(const std::string&)>& value_of) const {
  return Sum([&](const Atom& atom) -> int64_t {
    if (atom.kind == Atom::kName) return value_of(atom.name);
    const int64_t of = atom.of[0].Evaluate(value_of);
    if (atom.kind == Atom::kMinZero) return std::min<int64_t>(of, 0);
    return FloorOf(of, atom.of[1].Evaluate(value_of));
  });
}

int64_t Size::least() const { return unknown_ ? kLeast : Bound(false); }
int64_t Size::most() const { return unknown_ ? kMost : Bound(true); }

// The bound from the bounds of each term. A term min(d, 0) is at most 0 and at most d: the sums with each in
// its place are bounded too.
int64_t Size::Bound(bool upper) const {
  int64_t bound = 0;
  for (const Term& term : terms_) {
    int64_t low = term.factor, high = term.factor;
    for (const auto& atom : term.product) {
      const int64_t ends[] = {Times(low, atom->least), Times(low, atom->most), Times(high, atom->least),
                              Times(high, atom->most)};
      low = *std::min_element(std::begin(ends), std::end(ends));
      high = *std::max_element(std::begin(ends), std::end(ends));
    }
    bound = Plus(bound, upper ? high : low);
  }
  const auto closer = [&](int64_t other) { bound = upper ? std::min(bound, other) : std::max(bound, other); };
  const auto alone = [](const Term& term) {
    return term.product.size() == 1 && term.product[0]->kind == Atom::kMinZero;
  };
  if (std::count_if(terms_.begin(), terms_.end(), alone) > kMostTried) return bound;
  for (const Term& term : terms_) {
    if (!alone(term) || (term.factor > 0) != upper) continue;
    Size without = *this;
    without.Add({term.product, -term.factor});
    const Size with = without + Size(term.factor) * term.product[0]->of[0];
    closer(without.Bound(upper));
    if (!with.unknown_) closer(with.Bound(upper));
  }
  return bound;
}

std::vector<std::string> Size::names() const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Term& term : terms_) {
    for (const auto& atom : term.product) {
      if (atom->kind == Atom::kName) add(atom->name);
      for (const Size& of : atom->of) {
        for (const std::string& name : of.names()) add(name);
      }
    }
  }
  return names;
}

std::string Size::Text() const {
  if (unknown_) return "?";
  std::string text;
  for (size_t i = terms_.size(); i-- > 0;) {
    const Term& term = terms_[i];
    const bool negative = term.factor < 0;
    text += text.empty() ? (negative ? "-" : "") : negative ? " - " : " + ";
    const uint64_t factor =
        negative ? 0 - static_cast<uint64_t>(term.factor) : static_cast<uint64_t>(term.factor);
    const bool shown = factor != 1 || term.product.empty();
    if (shown) text += std::to_string(factor);
    for (size_t k = 0; k < term.product.size(); ++k) {
      const Atom& atom = *term.product[k];
      if (shown || k > 0) text += " * ";
      text += atom.kind == Atom::kName ? atom.name
              : atom.kind == Atom::kMinZero
                  ? "min(" + atom.of[0].Text() + ", 0)"
                  : "floor((" + atom.of[0].Text() + ") / (" + atom.of[1].Text() + "))";
    }
  }
  return text.empty() ? "0" : text;
}

}  // namespace rondo::ir
