// ProductChoice: one way to compute a product (a contraction or convolution), and its name.
//
// Names are what profiles, plans and reports call a choice. They are stable: a choice keeps its name, and a
// name means one choice.
//
//   tile 128x128x64 2x4x1 cluster 2   rows, columns and depth of a stage; warps along each; blocks a cluster
//   group 128x256 cluster 1           two groups of warps: rows and columns
//   bulk 128x192 2x1x1 cluster 2      by the copy engine: rows and columns; blocks that share the columns,
//   that
//                                     share the rows, and that split the depth; blocks a cluster
//   float 64x64 cluster 1             rows and columns, in f32
//   tf32 64x64 cluster 1              the same, with factors rounded to tf32
//   skinny warps 8 cluster 2          few rows: warps of a block, and blocks, that split the depth
//   library 3                         the third algorithm of a vendor library; "library": its first
//
// What a name leaves out is 0. As a pattern (Matches), what is left out may be anything: "tile", "group
// 128x256", "cluster 2".
#ifndef RONDO_COMPILER_CODEGEN_CUDA_PRODUCT_CHOICE_H_
#define RONDO_COMPILER_CODEGEN_CUDA_PRODUCT_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

// The order is that of kTemplateNames (product_choice.cc).
enum class ProductTemplate : uint8_t { kAny, kSkinny, kTile, kGroup, kFloat, kTf32, kBulk, kLibrary };

struct ProductChoice {
  ProductTemplate by = ProductTemplate::kAny;
  int64_t rows = 0, columns = 0, deep = 0;                    // of a tile; `deep`: of one stage
  int64_t warps_rows = 0, warps_columns = 0, warps_deep = 0;  // into which a tile's three sides are split
  int64_t warps = 0;                                          // of a block, that split the depth
  int64_t cluster = 0;                                        // blocks of a cluster, that split the depth
  int64_t algorithm = 0;  // of a library: its place in the library's ranking, from 1

  bool operator==(const ProductChoice&) const = default;
};

// The name of a choice; "" for one in which everything is left open.
std::string Text(const ProductChoice& choice);

// The choice of that name; none if there is no such name (Text of what is returned is `name`).
std::optional<ProductChoice> ParseProductChoice(std::string_view name);

// Whether `choice` has everything that `pattern` does not leave open.
bool Matches(const ProductChoice& pattern, const ProductChoice& choice);

// One way to compute a product at hand, with the cycles that it is estimated to take: to compare it with the
// others, not to predict.
struct ProductOffer {
  ProductChoice choice;
  double cycles = 0;
};

// Position of the offer with least cycles, of those that match the pattern if any does; the first of equals.
// `offers` must not be empty.
size_t BestOffer(const std::vector<ProductOffer>& offers, const ProductChoice& pattern);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_PRODUCT_CHOICE_H_
