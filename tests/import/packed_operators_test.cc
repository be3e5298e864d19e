// Operators that read packed weights, in blocks with scales.
#include <gtest/gtest.h>

#include <functional>

#include "compiler/import/import.h"
#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

// 2 rows of 20 4-bit numbers in blocks of 16: number i of row n is (i + 3 n) % 16.
std::string PackedRows() {
  std::string bytes;
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 32; i += 2) bytes += static_cast<char>((i + 3 * n) % 16 | (i + 1 + 3 * n) % 16 << 4);
  }
  return bytes;
}

TEST(MatMulNBitsTest, BlocksHaveScalesAndZeroPointsOfTheirOwn) {
  for (const bool constant : {true, false}) {  // folded, or unpacked in the run
    ModelMaker m;
    m.Input("a", {1, 20});
    if (constant) {
      Bytes(m, "b", {2, 2, 8}, PackedRows());
    } else {
      m.Input("b", {2, 2, 8}, onnx::TensorProto::UINT8);
    }
    m.Floats("scales", {4}, {1, 0.5f, 2, 0.25f});
    Bytes(m, "zeros", {2}, std::string("\x21\x43", 2));
    onnx::NodeProto* node = Microsoft(m, "MatMulNBits", {"a", "b", "scales", "zeros"}, {"y"});
    Set(node, "K", int64_t{20});
    Set(node, "N", int64_t{2});
    Set(node, "block_size", int64_t{16});
    m.Output("y");
    const Numbers a = Random(20, 4);
    ir::Values inputs = {Data(DType::kF32, {1, 20}, a)};
    const std::string packed = PackedRows();
    if (!constant)
      inputs.push_back(Data(DType::kU8, {2, 2, 8}, std::vector<char>(packed.begin(), packed.end())));
    constexpr float kScales[] = {1, 0.5f, 2, 0.25f};
    constexpr int kZeros[] = {1, 2, 3, 4};
    Numbers expected(2);
    for (int n = 0; n < 2; ++n) {
      for (int k = 0; k < 20; ++k) {
        const int block = 2 * n + k / 16;
        expected[static_cast<size_t>(n)] +=
            a[static_cast<size_t>(k)] * static_cast<float>((k + 3 * n) % 16 - kZeros[block]) * kScales[block];
      }
    }
    ExpectNear(Evaluate(m, inputs)[0], expected);
  }
}

TEST(MatMulNBitsTest, SizesThatNoKernelReadsAreRefusedWithWhatIs) {
  const struct {
    int64_t k, n, block;
    const char *what, *limit;
  } cases[] = {{20, 2, 24, "block_size 24", "powers of two from 16 on"},
               {20, 2, 8, "block_size 8", "powers of two from 16 on"},
               {20, 2, -32, "block_size -32", "powers of two from 16 on"},
               {20, 0, 16, "N 0 and K 20", "from 1 to"},
               {20, int64_t{1} << 40, 16, "N 1099511627776 and K 20", "from 1 to"}};
  for (const auto& [k, n, block, what, limit] : cases) {
    ModelMaker m;
    m.Input("a", {1, 20});
    Bytes(m, "b", {2, 2, 8}, PackedRows());
    m.Floats("scales", {4}, {1, 0.5f, 2, 0.25f});
    onnx::NodeProto* node = Microsoft(m, "MatMulNBits", {"a", "b", "scales"}, {"y"});
    Set(node, "K", k);
    Set(node, "N", n);
    Set(node, "block_size", block);
    m.Output("y");
    const auto graph = ImportModel(m.Make(), {}, nullptr);
    ASSERT_FALSE(graph.ok());
    EXPECT_TRUE(Says(graph.status(), {what, limit}));
  }
}

// The group of each row, when GPTQ has reordered the rows. A group may have as many rows as a block, more,
// fewer or none. With 16 rows, weights stay packed.
TEST(MatMulNBitsTest, GroupsMayHaveAnyRows) {
  constexpr size_t kK = 64, kBlock = 16, kGroups = kK / kBlock;
  const std::vector<std::function<size_t(size_t)>> rules = {
      [](size_t k) { return k * 5 % kK / kBlock; }, [](size_t k) { return k % 5 == 0 ? size_t{1} : k % 4; },
      [](size_t k) { return k < 63 ? size_t{2} : size_t{0}; }, [](size_t) { return size_t{3}; }};
  for (const size_t n : {size_t{1}, size_t{16}}) {
    for (const bool zeros : {false, true}) {
      for (const auto& group : rules) {
        ModelMaker m;
        m.Input("a", {1, kK});
        std::string codes, zero_points(n * kGroups / 2, '\0');
        for (size_t i = 0; i < n * kK / 2; ++i) codes += static_cast<char>(i * 37 + 11);
        for (size_t i = 0; i < zero_points.size(); ++i) zero_points[i] = static_cast<char>(i * 29 + 3);
        const Numbers scales = Random(n * kGroups, 8), a = Random(kK, 4);
        Bytes(m, "b", {static_cast<int64_t>(n), kGroups, kBlock / 2}, codes);
        m.Floats("scales", {static_cast<int64_t>(n * kGroups)}, scales);
        Bytes(m, "zeros", {static_cast<int64_t>(n * kGroups / 2)}, zero_points);
        std::vector<int64_t> groups;
        for (size_t k = 0; k < kK; ++k) groups.push_back(static_cast<int64_t>(group(k)));
        m.Ints("groups", groups);
        onnx::NodeProto* node =
            Microsoft(m, "MatMulNBits", {"a", "b", "scales", zeros ? "zeros" : "", "groups"}, {"y"});
        Set(node, "K", static_cast<int64_t>(kK));
        Set(node, "N", static_cast<int64_t>(n));
        Set(node, "block_size", static_cast<int64_t>(kBlock));
        m.Output("y");
        const auto half = [](const std::string& bytes, size_t i) {
          return (static_cast<uint8_t>(bytes[i / 2]) >> (i % 2 * 4)) & 15;
        };
        Numbers expected(n);
        for (size_t i = 0; i < n * kK; ++i) {
          const size_t at = i / kK * kGroups + group(i % kK);
          const int zero = zeros ? half(zero_points, at) : 8;
          expected[i / kK] += a[i % kK] * static_cast<float>(half(codes, i) - zero) * scales[at];
        }
        ExpectNear(Evaluate(m, {Data(DType::kF32, {1, kK}, a)})[0], expected);
      }
    }
  }
  ModelMaker beyond;
  beyond.Input("a", {1, 32});
  Bytes(beyond, "b", {1, 2, 8}, PackedRows().substr(0, 16));
  beyond.Floats("scales", {2}, {1, 0.25f});
  beyond.Ints("groups", std::vector<int64_t>(32, 2));
  onnx::NodeProto* node = Microsoft(beyond, "MatMulNBits", {"a", "b", "scales", "", "groups"}, {"y"});
  Set(node, "K", int64_t{32});
  Set(node, "N", int64_t{1});
  Set(node, "block_size", int64_t{16});
  beyond.Output("y");
  EXPECT_TRUE(Says(ImportModel(beyond.Make(), {}, nullptr).status(),
                   {"MatMulNBits \"MatMulNBits_y\"", "row 0 into group 2 of 2"}));
}

TEST(MatMulNBitsTest, OtherLayoutsAndWidthsAreRefused) {
  for (const auto& [name, value, says] :
       {std::tuple{"bits", 3, "weights of 3 bits"},
        std::tuple{"weight_prepacked", 1, "N is a multiple of 16"},
        std::tuple{"block_size", 8, "block_size 8: rondo reads powers of two"}}) {
    ModelMaker m;
    m.Input("a", {1, 20});
    Bytes(m, "b", {2, 2, 8}, PackedRows());
    m.Floats("scales", {4}, {1, 1, 1, 1});
    onnx::NodeProto* node = Microsoft(m, "MatMulNBits", {"a", "b", "scales"}, {"y"});
    Set(node, "K", int64_t{20});
    Set(node, "N", int64_t{2});
    Set(node, name, int64_t{value});
    if (std::string(name) != "block_size") Set(node, "block_size", int64_t{16});
    m.Output("y");
    EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"MatMulNBits \"MatMulNBits_y\"", says}));
  }
}

TEST(GatherBlockQuantizedTest, RowsBeyondTheTableAreZeros) {
  ModelMaker m;
  m.Input("index", {4}, onnx::TensorProto::INT64);
  Bytes(m, "table", {2, 16}, PackedRows());
  m.Floats("scales", {2, 2}, {1, 0.5f, 2, 0.25f});
  onnx::NodeProto* node = Microsoft(m, "GatherBlockQuantized", {"table", "index", "scales"}, {"y"});
  Set(node, "block_size", int64_t{16});
  m.Output("y");
  const Numbers y = Evaluate(m, {Data(DType::kI64, {4}, std::vector<int64_t>{1, 2, -3, -1})})[0];
  ASSERT_EQ(y.size(), 4u * 32);
  for (size_t k = 0; k < 32; ++k) {
    const float number = static_cast<float>((k + 3) % 16) - 8;
    EXPECT_FLOAT_EQ(y[k], number * (k < 16 ? 2.0f : 0.25f));
    EXPECT_EQ(y[32 + k], 0);
    EXPECT_EQ(y[64 + k], 0);
    EXPECT_EQ(y[96 + k], y[k]);
  }
}

// The constants with `elements` elements that the outputs need.
std::vector<const ir::Node*> ConstantsOf(const ir::Graph& graph, int64_t elements) {
  std::vector<ir::NodeId> reached;
  for (const auto& output : graph.outputs) reached.push_back(output.node);
  std::vector<const ir::Node*> found;
  std::vector<bool> seen(static_cast<size_t>(graph.size()));
  while (!reached.empty()) {
    const ir::Node& n = graph.node(reached.back());
    reached.pop_back();
    if (seen[static_cast<size_t>(n.id)]) continue;
    seen[static_cast<size_t>(n.id)] = true;
    if (n.op == ir::Op::kConstant && n.shape.elements() == elements) found.push_back(&n);
    reached.insert(reached.end(), n.inputs.begin(), n.inputs.end());
  }
  return found;
}

// A table of FP8 or FP4 has no zero points, and may have one scale for a whole axis. It has the same size in
// the plan as in the file.
TEST(GatherBlockQuantizedTest, TablesOfFewBitsStayAsTheyLie) {
  const struct {
    int type;
    std::string bytes;  // 2 rows of 32 numbers, all 1 except that the second row begins with 1.5
    Numbers first;
  } cases[] = {
      {onnx::TensorProto::FLOAT8E4M3FN,
       std::string(32, '\x38') + "\x3c" + std::string(31, '\x38'),
       {1, 1.5f}},
      {onnx::TensorProto::FLOAT8E5M2FNUZ,
       std::string(32, '\x40') + "\x42" + std::string(31, '\x40'),
       {1, 1.5f}},
      {onnx::TensorProto::FLOAT4E2M1, std::string(16, '\x22') + "\x23" + std::string(15, '\x22'), {1, 1.5f}},
      {onnx::TensorProto::INT4, std::string(16, '\x11') + "\x1e" + std::string(15, '\x11'), {1, -2}},
      {onnx::TensorProto::UINT4, std::string(16, '\x11') + "\x1e" + std::string(15, '\x11'), {1, 14}}};
  for (const auto& one : cases) {
    const bool real = one.type != onnx::TensorProto::INT4 && one.type != onnx::TensorProto::UINT4;
    ModelMaker m;
    m.Input("index", {2}, onnx::TensorProto::INT64);
    Bytes(m, "table", {2, 32}, one.bytes, one.type);
    if (real) {
      m.Floats("scales", {1, 1}, {2});
    } else {
      m.Floats("scales", {2, 1}, {2, 2});
    }
    onnx::NodeProto* node = Microsoft(m, "GatherBlockQuantized", {"table", "index", "scales"}, {"y"});
    Set(node, "block_size", int64_t{real ? 0 : 32});
    m.Output("y");
    const Numbers y = Evaluate(m, {Data(DType::kI64, {2}, std::vector<int64_t>{0, -1})})[0];
    ASSERT_EQ(y.size(), 64u);
    EXPECT_EQ(y[0], 2 * one.first[0]);
    EXPECT_EQ(y[32], 2 * one.first[1]);
    EXPECT_EQ(y[63], 2 * one.first[0]);
    const auto graph = ImportModel(m.Make(), {}, nullptr);
    ASSERT_TRUE(graph.ok());
    const auto tables = ConstantsOf(*graph, static_cast<int64_t>(one.bytes.size()));
    ASSERT_EQ(tables.size(), 1u);
    EXPECT_EQ(ByteSize(tables[0]->dtype), 1);
    EXPECT_EQ(ConstantsOf(*graph, 64).size(), one.bytes.size() == 64 ? 1u : 0u);
  }
}

TEST(GatherBlockQuantizedTest, ZeroPointsOfFp8AreRefused) {
  ModelMaker m;
  m.Input("index", {1}, onnx::TensorProto::INT64);
  Bytes(m, "table", {1, 16}, std::string(16, '\x38'), onnx::TensorProto::FLOAT8E4M3FN);
  Bytes(m, "zero", {1, 1}, "\x38", onnx::TensorProto::FLOAT8E4M3FN);
  m.Floats("scales", {1, 1}, {2});
  Set(Microsoft(m, "GatherBlockQuantized", {"table", "index", "scales", "zero"}, {"y"}), "block_size",
      int64_t{16});
  m.Output("y");
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"zero points for a table of FP8 or FP4"}));
}

// Small weights were once folded to i32, which no kernel for bytes reads.
TEST(MatMulIntegerTest, WeightsStayTheBytesThatTheyAre) {
  for (const char* op : {"MatMulInteger", "QLinearMatMul", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"}) {
    ModelMaker m;
    const bool floats = std::string(op) == "DynamicQuantizeMatMul";
    m.Input("a", {3, 32}, floats ? onnx::TensorProto::FLOAT : onnx::TensorProto::UINT8);
    Bytes(m, "w", {32, 16}, std::string(512, '\x05'), onnx::TensorProto::INT8);
    Bytes(m, "zero", {}, "\x07");
    Bytes(m, "w_zero", {}, std::string(1, '\0'), onnx::TensorProto::INT8);
    m.Floats("scale", {}, {0.5f});
    if (std::string(op) == "MatMulInteger") {
      m.Node(op, {"a", "w", "zero", "w_zero"}, {"y"});
    } else if (std::string(op) == "QLinearMatMul") {
      m.Node(op, {"a", "scale", "zero", "w", "scale", "w_zero", "scale", "zero"}, {"y"});
    } else if (floats) {
      Microsoft(m, op, {"a", "w", "scale", "w_zero"}, {"y"});
    } else {
      Microsoft(m, op, {"a", "w", "scale", "scale", "zero", "w_zero"}, {"y"});
    }
    m.Output("y");
    const auto graph = ImportModel(m.Make(), {}, nullptr);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const auto weights = ConstantsOf(*graph, 512);
    ASSERT_EQ(weights.size(), 1u) << op;
    EXPECT_EQ(weights[0]->dtype, DType::kI8) << op;
  }
}

// 2 rows of 17 numbers, stored one after another in blocks of 16. A byte's first code is in its high bits.
TEST(MatMulBnb4Test, CodesAreOfATypesTable) {
  for (const int64_t type : {0, 1}) {
    ModelMaker m;
    m.Input("a", {1, 17});
    std::string bytes(17, type == 0 ? '\0' : '\x77');  // zeros
    bytes[0] = type == 0 ? '\x3c' : '\xf0';            // 1 and -1/3; 1 and -1
    bytes[8] = type == 0 ? '\x50' : '\x70';            // number 16: 1/2; 0, and -1 as the second row's first
    Bytes(m, "b", {17}, bytes);
    m.Floats("absmax", {3}, {2, 10, 100});
    onnx::NodeProto* node = Microsoft(m, "MatMulBnb4", {"a", "b", "absmax"}, {"y"});
    Set(node, "K", int64_t{17});
    Set(node, "N", int64_t{2});
    Set(node, "block_size", int64_t{16});
    Set(node, "quant_type", type);
    m.Output("y");
    Numbers a(17);
    a[0] = 1, a[1] = 3, a[16] = 7;
    const Numbers expected = type == 0 ? Numbers{2 - 2 + 35, 0} : Numbers{2 - 6, -10};
    ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 17}, a)})[0], expected);
  }
}

TEST(MatMulBnb4Test, WeightsOfARunAreRefused) {
  ModelMaker m;
  m.Input("a", {1, 16});
  m.Input("b", {8}, onnx::TensorProto::UINT8);
  m.Floats("absmax", {1}, {1});
  onnx::NodeProto* node = Microsoft(m, "MatMulBnb4", {"a", "b", "absmax"}, {"y"});
  Set(node, "K", int64_t{16});
  Set(node, "N", int64_t{1});
  Set(node, "block_size", int64_t{16});
  m.Output("y");
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"MatMulBnb4_y", "as initializers"}));
}

}  // namespace
}  // namespace rondo
