// Weights prepacked for CUTLASS's matmuls give the results of the same weights by rows.
#include "compiler/import/mixed_gemm_order.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/import/evaluated_model.h"
#include "tests/says.h"

namespace rondo {
namespace {

using importer::WeightOrder;
using Codes = std::vector<int>;

std::vector<uint8_t> Pack(const Codes& codes, int bits) {
  std::vector<uint8_t> bytes(codes.size() * static_cast<size_t>(bits) / 8, 0);
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t bit = i * static_cast<size_t>(bits);
    bytes[bit / 8] |= static_cast<uint8_t>(codes[i] << (bit % 8));
  }
  return bytes;
}

// Converts one matrix [n, k] like CUTLASS's preprocessing, step by step.
Codes Prepacked(const Codes& rows, int n, int k, int bits, bool interleaved) {
  // permute_B_rows: the order of K's rows for one mma, by bits.
  const std::vector<int> map =
      bits == 8   ? std::vector<int>{0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15}
      : bits == 4 ? std::vector<int>{0, 1, 8,  9,  16, 17, 24, 25, 2, 3, 10, 11, 18, 19, 26, 27,
                                     4, 5, 12, 13, 20, 21, 28, 29, 6, 7, 14, 15, 22, 23, 30, 31}
                  : std::vector<int>{0, 1, 8,  9,  16, 17, 24, 25, 32, 33, 40, 41, 48, 49, 56, 57,
                                     2, 3, 10, 11, 18, 19, 26, 27, 34, 35, 42, 43, 50, 51, 58, 59,
                                     4, 5, 12, 13, 20, 21, 28, 29, 36, 37, 44, 45, 52, 53, 60, 61,
                                     6, 7, 14, 15, 22, 23, 30, 31, 38, 39, 46, 47, 54, 55, 62, 63};
  const int tall = static_cast<int>(map.size());
  Codes columns;  // subbyte_transpose: one row of K after another
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < k; ++j)
      columns.push_back(
          rows[static_cast<size_t>(i * k + j / tall * tall + map[static_cast<size_t>(j % tall)])]);
  }
  if (interleaved) {  // interleave_column_major, by tiles of 64 of K
    const int together = 16 / bits;
    Codes turned;
    for (int band = 0; band < n; band += together) {
      for (int tile = 0; tile < k; tile += 64) {
        for (int column = 0; column < together; ++column) {
          for (int j = 0; j < 64; ++j)
            turned.push_back(columns[static_cast<size_t>((band + column) * k + tile + j)]);
        }
      }
    }
    columns = turned;
  }
  const size_t word = 32 / static_cast<size_t>(bits);  // interleave_quantized: even places first
  Codes out;
  for (size_t first = 0; first < columns.size(); first += word) {
    for (size_t odd : {size_t{0}, size_t{1}}) {
      for (size_t i = odd; i < word; i += 2) out.push_back(columns[first + i]);
    }
  }
  return out;
}

Codes Some(int count, int bits, int seed) {
  Codes codes;
  for (int i = 0; i < count; ++i) codes.push_back((i * 37 + i / 5 * 11 + seed * 7) % (1 << bits));
  return codes;
}

TEST(MixedGemmOrderTest, PrepackedWeightsAreThoseByRows) {
  constexpr int kN = 64, kK = 192;
  for (const auto& [bits, interleaved] : {std::pair{4, true}, {4, false}, {8, true}, {8, false}, {2, true}}) {
    std::vector<uint8_t> by_rows, prepacked;
    for (int matrix : {0, 1}) {
      const Codes codes = Some(kN * kK, bits, matrix);
      for (uint8_t byte : Pack(codes, bits)) by_rows.push_back(byte);
      for (uint8_t byte : Pack(Prepacked(codes, kN, kK, bits, interleaved), bits)) prepacked.push_back(byte);
    }
    const WeightOrder order = interleaved ? WeightOrder::kMixedSm80 : WeightOrder::kMixedSm90;
    ASSERT_TRUE(importer::CheckOrder(order, kN, kK, bits).ok());
    EXPECT_EQ(importer::ByRows(order, prepacked.data(), 2, kN, kK, bits), by_rows) << bits << " bits";
    EXPECT_TRUE(Says(importer::CheckOrder(order, kN, kK - 8, bits), {"K 184", "weights_prepacked 0"}));
    EXPECT_TRUE(Says(importer::CheckOrder(order, kN + 4, kK, bits), {"N 68", "N is a multiple of"}));
  }
}

std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(MixedGemmOrderTest, MatMulNBitsSaysInWhichOrderItsWeightsLie) {
  constexpr int kN = 16, kK = 128;
  const Codes codes = Some(kN * kK, 4, 3);
  const Numbers a = Random(kK, 5), scales = Random(kN * 4, 6);
  std::vector<Numbers> results;
  for (const int64_t order : {0, 1, 2, 3}) {
    ModelMaker m;
    m.Input("a", {1, kK});
    Bytes(m, "b", {kN, 4, 16}, Text(Pack(order == 0 ? codes : Prepacked(codes, kN, kK, 4, order == 1), 4)));
    m.Floats("scales", {kN * 4}, scales);
    onnx::NodeProto* node = Microsoft(m, "MatMulNBits", {"a", "b", "scales"}, {"y"});
    Set(node, "K", int64_t{kK});
    Set(node, "N", int64_t{kN});
    Set(node, "block_size", int64_t{32});
    Set(node, "weight_prepacked", order);
    m.Output("y");
    if (order == 3) {
      EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"weight_prepacked 3", "0, 1 and 2"}));
    } else {
      results.push_back(Evaluate(m, {Data(DType::kF32, {1, kK}, a)})[0]);
    }
  }
  ExpectNear(results[1], results[0]);
  ExpectNear(results[2], results[0]);
}

// Experts with fc1 [n, 64], silu, and fc2 [64, n].
ModelMaker Experts(int n, bool prepacked, int type, int64_t said) {
  ModelMaker m;
  m.Input("x", {2, 64}, type);
  m.Input("router", {2, 2}, type);
  const std::pair<int, int> sizes[] = {{n, 64}, {64, n}};
  std::vector<std::string> inputs = {"x", "router"};
  for (int layer : {0, 1}) {
    const auto [rows, k] = sizes[layer];
    std::vector<uint8_t> bytes;
    for (int expert : {0, 1}) {
      const Codes codes = Some(rows * k, 4, expert + 2 * layer);
      for (uint8_t byte : Pack(prepacked ? Prepacked(codes, rows, k, 4, true) : codes, 4))
        bytes.push_back(byte);
    }
    const std::string name = "w" + std::to_string(layer), scale = "s" + std::to_string(layer);
    Bytes(m, name, prepacked ? std::vector<int64_t>{2, k, rows / 2} : std::vector<int64_t>{2, rows, k / 2},
          Text(bytes));
    m.Floats(scale, {2, rows, k / 32},
             Random(static_cast<size_t>(2 * rows * k / 32), 8 + static_cast<uint32_t>(layer)));
    inputs.insert(inputs.end(), {name, scale, ""});
  }
  inputs.pop_back();
  onnx::NodeProto* node = Microsoft(m, "QMoE", inputs, {"y"});
  Set(node, "k", int64_t{1});
  Set(node, "block_size", int64_t{32});
  Set(node, "expert_weight_bits", int64_t{4});
  Set(node, "activation_type", std::string("silu"));
  if (said >= 0) Set(node, "weights_prepacked", said);
  m.Output("y");
  return m;
}

TEST(MixedGemmOrderTest, TheShapesOfExpertsTellTheirOrder) {
  const ir::Values inputs = {Data(DType::kF32, {2, 64}, Random(128, 1)),
                             Data(DType::kF32, {2, 2}, Numbers{0, 1, 1, 0})};
  ModelMaker rows = Experts(128, false, onnx::TensorProto::FLOAT, -1);
  const Numbers expected = Evaluate(rows, inputs)[0];
  for (const int64_t said : {-1, 1}) {
    ModelMaker m = Experts(128, true, onnx::TensorProto::FLOAT, said);
    ExpectNear(Evaluate(m, inputs)[0], expected);
  }
  // Square f16 weights may be in either order, so the node must say which.
  ModelMaker square = Experts(64, true, onnx::TensorProto::FLOAT16, -1);
  EXPECT_TRUE(Says(ImportModel(square.Make(), {}, nullptr).status(), {"QMoE", "weights_prepacked 0 or 1"}));
  ModelMaker plain = Experts(64, false, onnx::TensorProto::FLOAT, -1),
             said = Experts(64, true, onnx::TensorProto::FLOAT, 1);
  ExpectNear(Evaluate(said, inputs)[0], Evaluate(plain, inputs)[0]);
}

}  // namespace
}  // namespace rondo
