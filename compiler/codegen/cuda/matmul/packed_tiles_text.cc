#include "compiler/codegen/cuda/matmul/packed_tiles_text.h"

#include <string>
#include <vector>

#include "compiler/codegen/cuda/device/tma_layout.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/packed_operands.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "core/packed_weights.h"

namespace rondo::cuda {

namespace {

// Tensor map of B's codes, in tiles of 16 columns, as 4-byte words; or of its scales.
TensorMap CodesMap(const PackedTiles& matmul, const PackedShape& shape, uint16_t param) {
  TensorMap map;
  map.param = param;
  map.dtype = DType::kF32;
  map.rank = 3;
  const uint64_t words = static_cast<uint64_t>(shape.pieces()) * 128,
                 tiles = static_cast<uint64_t>(shape.tiles());
  map.extents[0] = words;
  map.extents[1] = tiles;
  map.extents[2] = 1;
  map.strides[0] = words * 4;
  map.strides[1] = words * 4 * tiles;
  map.box[0] = static_cast<uint32_t>(matmul.code_run() / 4);
  map.box[1] = static_cast<uint32_t>(matmul.n / 16);
  map.box[2] = 1;
  return map;
}
TensorMap ScalesMap(const PackedTiles& matmul, const PackedShape& shape, const Operand& scales) {
  TensorMap map = CodesMap(matmul, shape, scales.param);
  const uint64_t row = static_cast<uint64_t>(shape.blocks()) * 16, bytes = row * matmul.format.scale_bytes;
  map.dtype = scales.dtype;
  map.extents[0] = row;
  map.strides[0] = bytes;
  map.strides[1] = bytes * map.extents[1];
  map.box[0] = static_cast<uint32_t>(matmul.stage_blocks() * 16);
  return map;
}

// The kernel's arguments for each B: tensor maps, appended to `maps`, and the texts of arrays of pointers to
// them and to parameters.
class BOperands {
 public:
  BOperands(const PackedTiles& matmul, const Part& part, std::vector<TensorMap>* maps)
      : matmul_(matmul),
        part_(part),
        shape_{matmul.columns, matmul.k, part.packed.block, matmul.format.bits},
        maps_(maps) {}

  void Write(PartWriter* writer) {
    WriteMaps("codes", part_.rhs, false, writer);
    const bool maps = !matmul_.by_column();
    WriteMaps("scale_maps", maps ? part_.scales : Span<const uint16_t>(), true, writer);
    WriteMaps("zero_maps", maps ? part_.zeros : Span<const uint16_t>(), true, writer);
    WritePointers("scales", part_.scales, writer);
    WritePointers("zeros", part_.zeros, writer);
  }

 private:
  void WriteMaps(const std::string& name, Span<const uint16_t> operands, bool scales, PartWriter* writer) {
    std::string text;
    for (uint16_t index : operands) {
      text += (text.empty() ? "&m" : ", &m") + Text(maps_->size());
      const Operand& operand = part_.operands[index];
      maps_->push_back(scales ? ScalesMap(matmul_, shape_, operand)
                              : CodesMap(matmul_, shape_, operand.param));
    }
    writer->Line("const TensorMap* const " + name + "[] = {" + (text.empty() ? "nullptr" : text) + "};");
  }
  void WritePointers(const std::string& name, Span<const uint16_t> operands, PartWriter* writer) {
    std::string text;
    for (uint16_t index : operands) text += (text.empty() ? "p" : ", p") + Text(part_.operands[index].param);
    writer->Line("const char* const " + name + "[] = {" + (text.empty() ? "nullptr" : text) + "};");
  }

  const PackedTiles& matmul_;
  const Part& part_;
  const PackedShape shape_;
  std::vector<TensorMap>* maps_;
};

// How the kernel reads A: by the first map, or by a_at. Returns the extents.
TmaExtents WriteA(const PartContext& context, const MatmulProblem& problem,
                  const std::optional<TmaOperands>& a, int rows, std::vector<TensorMap>* maps,
                  PartWriter* writer) {
  TmaExtents extents = {ExtentsOf(problem).m, ExtentsOf(problem).n, ExtentsOf(problem).k, 1, 1, 1};
  if (a) {
    extents.m_run = static_cast<int>(a->m_run);
    extents.k_run = static_cast<int>(a->k_run);
    *maps = a->maps;
    maps->front().box[1] = static_cast<uint32_t>(rows);
    writer->Line("auto a_at = [](int, int) -> uint4 { return make_uint4(0, 0, 0, 0); };");
  } else {
    WriteAValue(context, problem, 1, writer);
    WriteAVectors(context, problem, context.part.packed.dtype, writer);
  }
  return extents;
}

}  // namespace

std::optional<TmaOperands> PackedTilesAMapOf(const PartContext& context, const MatmulProblem& problem,
                                             int64_t rows) {
  const Part& part = context.part;
  const bool plain = part.prologue.empty() && part.operands[part.lhs].dtype == part.packed.dtype &&
                     problem.a_k_major && problem.a_vector == 8;
  const std::optional<TmaOperands> a = plain ? TmaAOf(part, problem) : std::nullopt;
  const bool whole = a && (a->m_run >= problem.m || a->m_run % rows == 0);
  return whole ? a : std::nullopt;
}

PackedTiles PackedTilesOf(const PartContext& context, const MatmulProblem& problem, bool a_made,
                          const KernelConfiguration& tile) {
  PackedTiles matmul = {};
  matmul.m = static_cast<int>(tile.m);
  matmul.n = static_cast<int>(tile.n);
  matmul.stage_k = static_cast<int>(tile.k);
  matmul.columns = static_cast<int>(problem.n);
  matmul.k = static_cast<int>(problem.k);
  matmul.b_count = static_cast<int>(problem.b_count);
  matmul.lanes = EpilogueLanes(context.part, problem);
  matmul.format = FormatOf(context.part);
  matmul.a_made = a_made;
  matmul.b_constant = IsPackedBConstant(context);
  return matmul;
}

Result<PartLaunch> WritePackedTiles(const PartContext& context, PackedTiles matmul,
                                    const std::optional<TmaOperands>& a, int64_t blocks, int64_t resident,
                                    PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  PartLaunch launch;
  writer->Line("const int batch = 0; (void)batch;");
  const TmaExtents extents = WriteA(context, problem, a, matmul.m, &launch.tensor_maps, writer);
  BOperands(matmul, context.part, &launch.tensor_maps).Write(writer);
  const TapeScope outer = writer->scope;
  constexpr int kMostWords = 16;
  matmul.words = WriteFetch(context, problem, matmul.lanes, kMostWords, writer);
  WriteEpilogue(context, problem, matmul.lanes, ", const u32* words", writer);
  writer->scope = outer;
  writer->Line("matmul_packed_tiles<" + Aggregate("PackedTiles", matmul) + ">(block, " + Text(blocks) +
               "u, " + Aggregate("TmaExtents", extents) + ", " + (a ? "&m0" : "(const TensorMap*)nullptr") +
               ", PackedTilesB{codes, scale_maps, zero_maps, scales, zeros}, a_at, fetch, epilogue);");
  launch.block = static_cast<uint32_t>(matmul.threads());
  launch.shared = static_cast<uint32_t>(matmul.shared());
  launch.cluster = static_cast<uint32_t>(matmul.split_k);
  launch.resident = static_cast<uint32_t>(resident);
  return WithBlocks(launch, blocks);
}

}  // namespace rondo::cuda
