// PartText: writes the function of one part. Internal to compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/product_shape.h"
#include "core/kernel.h"
#include "core/status.h"

namespace rondo::cuda {

// How a part's blocks are launched.
struct PartLaunch {
  uint32_t blocks = 1;
  uint32_t block = kCudaBlock;         // threads a block
  uint32_t shared = 0;                 // bytes of dynamic shared memory a block
  uint32_t cluster = 1;                // blocks of a cluster
  uint32_t resident = 1;               // blocks that a multiprocessor should hold at once
  std::vector<TensorMap> tensor_maps;  // m0 and so on in the text
};

class PartText {
 public:
  // `part` and `params` must outlive this. `share`: the part of the device that this part may fill.
  // `cluster`: the blocks of a cluster, or 0 to let the part choose.
  PartText(const Part& part, const CudaTarget& target, Span<const ParamFacts> params, double share = 1,
           uint32_t cluster = 0)
      : part_(part), target_(target), params_(params), share_(share), cluster_(cluster) {}

  // Writes the body of the part's function (block number in `block`); sets launch().
  Status Write();
  const std::string& text() const { return text_; }
  // The device headers that the text needs, without .cuh (IncludeLine of device_headers.h).
  const std::set<std::string>& headers() const { return headers_; }
  const PartLaunch& launch() const { return launch_; }
  // Of a product by a fast template: what it is computed by, and all that it could be.
  const ProductChoice& choice() const { return choice_; }
  const std::vector<ProductOffer>& offers() const { return offers_; }

 private:
  Status Map();
  Status SequentialMap();
  std::vector<size_t> IndependentLoops() const;
  Status Reduction();
  Status Contraction();
  Status Convolution();
  Status PlainContraction();
  Status PlainConvolution();
  // Fast products: false if the part is none for them. What each template can do, and the text of one choice.
  Result<bool> FastProduct();
  std::vector<ProductOffer> OfferSkinny(const ProductShape& shape) const;
  std::vector<ProductOffer> OfferSkinnyFloats(const ProductShape& shape) const;
  std::vector<ProductOffer> OfferBulk(const ProductShape& shape) const;
  std::vector<ProductOffer> OfferTiles(const ProductShape& shape) const;
  std::vector<ProductOffer> OfferTf32Tiles(const ProductShape& shape) const;
  std::vector<ProductOffer> OfferFloatTiles(const ProductShape& shape) const;
  Status SkinnyProduct(const ProductShape& shape, const ProductChoice& choice);
  Status SkinnyFloats(const ProductShape& shape, const ProductChoice& choice);
  Status BulkProduct(const ProductShape& shape, const ProductChoice& choice);
  Status TileProduct(const ProductShape& shape, const ProductChoice& choice);
  Status Tf32Product(const ProductShape& shape, const ProductChoice& choice);
  Status FloatProduct(const ProductShape& shape, const ProductChoice& choice);
  Status Attention();
  // Windows along the last spatial axis (windows_text.cc): false if the part is none for them.
  Result<bool> Windows();

  // Declares i<first> .. i<last - 1> from the flat number `from` (row-major over these loops).
  void Decode(const std::string& from, size_t first, size_t last);
  // Opens the loop nest [first, last) (ends with Close(last - first)).
  void Open(size_t first, size_t last);
  void Close(size_t loops);
  int64_t Points(size_t first, size_t last) const;
  Status SetBlocks(int64_t blocks);

  // Declares `name` (of the operand's tape type) with the operand's value at the current point.
  void Load(size_t operand, const std::string& name);
  void Store(size_t operand, const std::string& value);
  // The element's number in `a`, its presence in `ok`; inside a scope that the caller opened.
  void Address(const Operand& operand);
  // Writes the tape with registers called `prefix`K. Returns the register yielded, if any.
  std::string WriteTape(Tape tape, const std::string& prefix);
  uint16_t Unrounded(Tape tape, const TapeInst& store) const;
  std::string Expression(const TapeInst& inst, const std::string& prefix) const;
  const char* HeaderOf(const TapeInst& inst) const;
  bool IsQuick(const TapeInst& inst) const;  // by a function that is only as good as 16 bits are
  void Reduce(const TapeInst& inst, const std::string& value);
  void FinishReductions(Tape tape);

  // Multiprocessors that this part may fill.
  double Processors() const { return std::max(1.0, share_ * static_cast<double>(target_.processors)); }
  // Whether so few blocks leave most multiprocessors to a kernel that begins before this one ends.
  bool LeavesRoom(int64_t blocks) const { return 2 * blocks <= static_cast<int64_t>(target_.processors); }

  // --- vectors (vector_text.cc): `lanes` neighbouring points along loop `along` at once.
  bool MovesAlong(const Operand& operand, size_t along) const;
  // Whether the operand's elements at such points move as vectors of up to 16 bytes.
  bool FitsLanes(size_t operand, size_t along, int lanes) const;
  // The most lanes that suit every one of `operands` that moves along the loop; 1: none.
  int LanesFor(Span<const size_t> operands, size_t along) const;
  // Operands of the tape's instructions of one kind, each once.
  std::vector<size_t> Touched(Tape tape, TapeOp op) const;
  // Loads the operand's lanes at the current point into the words `name`.
  void LoadRaw(size_t operand, int lanes, const std::string& name);
  // Writes the tape for all lanes from the current point on; `each` comes first in each lane, whose number is
  // `e`. What the tape yields becomes x[e].
  void WriteLanes(Tape tape, const std::string& prefix, size_t along, int lanes, const std::string& each);
  int MapLanes() const;

  // --- attention: plain (attention_text.cc) or on tensor cores (flash_text.cc).
  // Keys and values of one head, and how their queries are put into blocks of 8 warps.
  struct FlashShape {
    std::vector<size_t> heads, queries;  // loops with keys of their own; loops over which keys are shared
    size_t value = 0, key = 0, feature = 0;
    int64_t groups = 1, rows = 1, keys = 1, features = 1, values = 1;
    int64_t warp_rows = 16;  // queries of a warp
    int64_t tile_warps = 1;  // warps of a block with different queries; the others split the keys
    int64_t cluster = 1;     // blocks that split the keys
    bool bf16 = false;
    int64_t tile_rows() const { return warp_rows * tile_warps; }
    int64_t tiles() const { return (rows + tile_rows() - 1) / tile_rows(); }
    int64_t splits() const { return 8 / tile_warps; }
  };
  Status PlainAttention();
  Status FlashAttention(const FlashShape& shape);
  // None if dtypes, layout or alignment do not suit the tensor cores' instruction.
  std::optional<FlashShape> ShapeOfFlash() const;
  void Split(FlashShape* shape) const;
  void FlashRows(const FlashShape& shape);
  bool FlashScore(const FlashShape& shape);  // whether it is the dot product itself
  void FlashFinish(const FlashShape& shape);
  // Sets i<loop> of these loops from the flat number `from`.
  void CountLoops(const std::string& from, const std::vector<size_t>& loops);
  // The address of the operand's element at the current point; the element's number.
  std::string AddressText(uint16_t operand) const;
  static std::string AffineText(const Operand& operand);

  // --- maps whose writes may coincide (last_writer_text.cc, scatter_text.cc).
  struct ScatterShape {
    std::vector<size_t> indexed, free;  // loops that the indices move with; the others
    int64_t points = 1, each = 1;       // their extents multiplied
    size_t out = 0;                     // the operand written
    int lanes = 1;
  };
  std::optional<ScatterShape> ShapeOfScatter() const;
  void IndexValues(const Operand& out, const std::string& name);
  Status Scatter(const ScatterShape& shape);

  // --- row reductions: plain (reduction_text.cc) or with the row on chip (row_text.cc).
  // How a row lies over the threads that share it.
  struct RowShape {
    size_t along = 0;  // the innermost loop
    int lanes = 1;     // elements a vector
    int64_t vectors = 0, rounds = 0;
    std::vector<size_t> cached;  // operands read by several stages, or before the wait
  };
  Status PlainReduction(Span<const TapeType> scalar, Span<const TapeType> kept);
  Status RowReduction(const RowShape& shape, Span<const TapeType> scalar, Span<const TapeType> kept);
  // None if the row is too long or lies so that vectors cannot be read.
  std::optional<RowShape> ShapeOfRow(Span<const TapeType> kept) const;
  std::vector<size_t> RowOperands() const;
  std::vector<size_t> CachedOperands(const RowShape& shape) const;
  bool IsWritten(uint16_t param) const;
  void OpenRounds(const RowShape& shape);
  void CacheOperands(const RowShape& shape, bool constant);
  void RowStage(const RowShape& shape, const Stage& stage, const std::string& prefix);
  void RowScalars(const Stage& stage, const std::string& prefix, size_t outer, size_t all);
  void StartReductions(Tape tape);

  // Rows side by side (columns_text.cc): neighbouring rows lie next to each other, a row's elements do not.
  struct ColumnShape {
    size_t along = 0;  // the outer loop whose rows lie side by side
    int lanes = 1;     // rows of a thread
    int64_t rows = 1, elements = 1;
    int64_t wide = 1;     // threads of a block side by side; the others share the elements
    int64_t cluster = 1;  // blocks that share the elements, too
    int64_t slots() const { return kCudaBlock / wide; }
    int64_t tiles() const { return (rows / lanes + wide - 1) / wide; }
  };
  std::optional<ColumnShape> ShapeOfColumns() const;
  Status ColumnReduction(const ColumnShape& shape, Span<const TapeType> scalar);
  void ColumnElements(const ColumnShape& shape, const Stage& stage, const std::string& prefix);
  void ColumnStage(const ColumnShape& shape, const Stage& stage, const std::string& prefix, bool last);
  void JoinColumns(const ColumnShape& shape, const Stage& stage);

  // --- products of few points (dot_text.cc): a warp a point.
  struct DotShape {
    int lanes = 1;                    // elements of a vector
    int64_t words = 0;                // of a vector of all right sides
    int64_t vectors = 0, rounds = 0;  // along the depth, and of each lane
  };
  std::optional<DotShape> ShapeOfDots() const;
  Status Dots(const DotShape& shape);

  // --- windows (windows_text.cc).
  struct WindowShape {
    size_t spatial = 0;                            // axes
    int64_t lanes = 1;                             // channels of a thread
    int64_t points = 1;                            // its outputs along the last axis
    int64_t taps = 1;                              // of the last axis, read at a time
    bool weight_vector = false;                    // weights of the lanes lie side by side
    int64_t kernel = 1, stride = 1, dilation = 1;  // along the last axis
  };
  std::optional<WindowShape> ShapeOfWindows() const;
  double WindowCycles(const WindowShape& shape) const;
  int64_t WindowUnits(const WindowShape& shape) const;
  void WriteWindowLines(const WindowShape& shape);
  void WriteWindowPoints(const WindowShape& shape);

  // --- products (product_lambdas.cc): lambdas by flat numbers.
  void DecodeLoops(const std::string& from, const std::vector<size_t>& loops);
  void ZeroLoops(const std::vector<size_t>& loops);
  void WritePlace(const std::string& name, const std::vector<size_t>& loops, const FlatOperand& operand,
                  bool from_offset);
  void WritePresent(const FlatOperand& operand);
  void WriteLeftValue(const ProductShape& shape, int lanes = 1);
  void WriteRightValue(const ProductShape& shape);
  void WriteFinish(const ProductShape& shape, int vector, const std::string& more = "");
  int WriteFetch(const ProductShape& shape, int vector);
  double FinishCost() const;
  // What the copy engine sees of a contraction's sides; none if it cannot.
  struct BulkSides {
    std::vector<TensorMap> maps;         // the left side's, then one a right side; boxes' lines left open
    int64_t row_run = 1, depth_run = 1;  // rows and depths of the left side that lie evenly
  };
  std::optional<BulkSides> SidesOf(const ProductShape& shape) const;
  int FinishVector(const ProductShape& shape) const;
  bool RightIsConstant() const;
  bool LeftIsMade() const;
  int LeftLanes(const ProductShape& shape) const;
  bool IsEnoughForTiles(const ProductShape& shape) const;
  bool IsLittle(const ProductShape& shape) const;
  bool SuitsFloatTiles(const ProductShape& shape) const;
  std::vector<int64_t> Clusters(int64_t steps) const;
  double BusiestBlocks(const ProductShape& shape, int64_t rows, int64_t columns, int64_t cluster) const;
  // How a stream of the right side is cut.
  struct StreamSizes {
    int64_t tiles = 1, step = 1;    // of columns; depth that a block takes at a time
    int64_t stages = 0, fixed = 0;  // copies in flight; bytes of shared memory besides them
  };
  StreamSizes SizesOf(const ProductShape& shape, int64_t warps) const;
  std::vector<ProductOffer> OfferStreams(const ProductShape& shape) const;
  int64_t StreamBlocks(int64_t tiles, int64_t cluster) const;
  Status SetStream(const StreamSizes& sizes, const ProductChoice& choice);
  void WriteStreamPlaces(const ProductShape& shape, const FlatOperand& right);
  void WriteTilePlaces(const ProductShape& shape, int64_t cluster, int64_t row_tiles, int64_t column_tiles,
                       int left_lanes = 1);
  std::string TileArguments(const ProductShape& shape) const;

  void Line(const std::string& line) { text_ += line + "\n"; }

  const Part& part_;
  const CudaTarget& target_;
  Span<const ParamFacts> params_;
  double share_;
  uint32_t cluster_;
  std::string text_;
  std::set<std::string> headers_;
  PartLaunch launch_;
  ProductChoice choice_;
  std::vector<ProductOffer> offers_;
  int width_ = 32;  // threads of one row
  // Per operand: the array that holds its lanes (in lane `e`) or, before WriteLanes, its words; empty:
  // neither.
  std::vector<std::string> lanes_;
  std::string kept_index_ = "position";
  std::string row_index_;  // of row scalars and what is reduced, where a thread has several rows: "[e]"
  bool quick_ = false;     // functions need not be better than 16 bits are
};

const char* TypeText(TapeType type);
std::string IntText(int64_t value);
std::string Number(double value, TapeType type);

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_PART_TEXT_H_
