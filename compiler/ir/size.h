// Size: an integer of shape arithmetic, which may be unknown at compile time.
//
// A sum of products of named sizes, each with an integer factor: "2 * past + 8". Minimum, maximum, floor
// division and remainder become such sums with two more kinds of atoms, min(a, 0) and floor(a / b): max(a, b)
// is a - min(a - b, 0). So equal sizes nearly always have equal forms, and bounds decide many cases at once:
// min(total, 4096) is `total` if that is at most 4096. A name has bounds, and an extent: the value that a
// plan makes room for. For a size without a form, only the extent is known, and also for everything computed
// from it. Plain values; nothing here fails, and arithmetic saturates at the limits of int64.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rondo::ir {

class Size {
 public:
  Size(int64_t value = 0);  // NOLINT: a number is a size
  // A size decided at run time. Equal names mean equal numbers.
  static Size Name(const std::string& name, int64_t least, int64_t most, int64_t extent);
  static Size Unknown(int64_t extent);

  std::optional<int64_t> value() const;  // the number, if it is known
  bool known() const { return value().has_value(); }
  bool unknown() const { return unknown_; }
  bool is_sum() const;  // of products of names only
  // Bounds over all values of the names (unlimited for unknown sizes), and the value if each name has its
  // extent.
  int64_t least() const;
  int64_t most() const;
  int64_t extent() const;
  // The value for these values of the names.
  int64_t Evaluate(const std::function<int64_t(const std::string&)>& value_of) const;
  std::vector<std::string> names() const;  // each once
  std::string Text() const;

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);
  friend Size Min(const Size& a, const Size& b);
  friend Size Max(const Size& a, const Size& b);
  // Floor division and remainder; Unknown unless b is at least 1.
  friend Size FloorDiv(const Size& a, const Size& b);
  friend Size Mod(const Size& a, const Size& b);
  // a / b as a sum of products, if that is exact; no value otherwise, or if b is 0.
  static std::optional<Size> Divide(const Size& a, const Size& b);

  // Whether the forms are equal. An unknown size equals nothing.
  friend bool operator==(const Size& a, const Size& b);
  friend bool operator<(const Size& a, const Size& b);  // some order, for maps

  struct Atom;
  struct Term {
    std::vector<std::shared_ptr<const Atom>> product;  // sorted; empty: the constant
    int64_t factor = 0;
  };
  const std::vector<Term>& terms() const { return terms_; }  // by product, factors not 0
  static Size Of(std::shared_ptr<const Atom> atom);

 private:
  static Size MinZero(const Size& a);
  static int Compare(const Atom& a, const Atom& b);
  static int Compare(const std::vector<std::shared_ptr<const Atom>>& a,
                     const std::vector<std::shared_ptr<const Atom>>& b);
  static int Compare(const Size& a, const Size& b);
  void Add(const Term& term);
  int weight() const;
  Size Checked() const;
  int64_t Bound(bool upper) const;
  template <typename F>
  int64_t Sum(F value_of) const;

  std::vector<Term> terms_;  // for an unknown size: its extent
  bool unknown_ = false;
};

struct Size::Atom {
  enum Kind : uint8_t { kName, kMinZero, kFloorDiv } kind = kName;
  std::string name;
  std::vector<Size> of;  // min(of[0], 0); floor(of[0] / of[1])
  int64_t least = 0, most = 0, extent = 0;
  int weight = 1;
};

using Dims = std::vector<Size>;

}  // namespace rondo::ir
