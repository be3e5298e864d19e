// Generated kernels of maps against the reference (gpu_suite.h).
#include "tests/cuda/gpu_suite.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

// A map over these loops, without operands yet.
Case& AddLoops(Suite* suite, const std::string& name, std::vector<int64_t> loops) {
  Case& c = suite->Add(name);
  c.maker.part.skeleton = Skeleton::kMap;
  c.maker.part.outer = static_cast<uint8_t>(loops.size());
  c.maker.loops = std::move(loops);
  return c;
}

// y = x * w + z, where z has its dimensions in a random order in memory, and `pad` changes its alignment.
void AddMap(Suite* suite, std::vector<int64_t> loops, DType in, DType out, int64_t pad, uint32_t seed) {
  Random random(seed);
  Case& c = AddLoops(suite, "map " + std::to_string(seed), std::move(loops));
  PartMaker& maker = c.maker;
  const int last = static_cast<int>(maker.loops.size()) - 1;
  const std::vector<int> all = Range(0, last + 1);
  const uint16_t x = maker.Operand(in, Mode::kRead, all), w = maker.Operand(out, Mode::kRead, {last}),
                 z = maker.Operand(in, Mode::kRead, RandomOrder(random, all), pad),
                 y = maker.Operand(out, Mode::kWrite, all);
  TapeMaker body;
  const uint16_t product = body.Binary(TapeOp::kMul, body.Load(x, in), body.Load(w, out));
  body.Store(y, out, body.Binary(TapeOp::kAdd, product, body.Load(z, in)));
  maker.part.body = maker.Keep(body);
  c.memory.Randomise(maker, random);
  c.tolerance = {1e-5, 1e-5};
}

// y = x < w and z, of bools, of which any byte but 0 is true.
void AddComparison(Suite* suite, std::vector<int64_t> loops, DType in, uint32_t seed) {
  Random random(seed);
  Case& c = AddLoops(suite, "comparison " + std::to_string(seed), std::move(loops));
  PartMaker& maker = c.maker;
  const int last = static_cast<int>(maker.loops.size()) - 1;
  const std::vector<int> all = Range(0, last + 1);
  const uint16_t x = maker.Operand(in, Mode::kRead, all), w = maker.Operand(in, Mode::kRead, {last}),
                 z = maker.Operand(DType::kBool, Mode::kRead, all),
                 y = maker.Operand(DType::kBool, Mode::kWrite, all);
  TapeMaker body;
  const uint16_t less = body.Add(TapeOp::kLess, TapeType::kI64, 0, body.Load(x, in), body.Load(w, in));
  body.Store(y, DType::kBool, body.Binary(TapeOp::kBitAnd, less, body.Load(z, DType::kBool)));
  maker.part.body = maker.Keep(body);
  c.memory.Randomise(maker, random);
  for (int64_t i = 0; i < maker.sizes[z]; ++i)
    scalar::Store<int64_t>(DType::kU8, c.memory.params[z].data(), i, Between(random, 0, 3));
}

// Lets an index place the operand's elements.
void PlaceBy(Case* c, uint16_t operand, const Indirect& by) {
  const Span<Indirect> indirects = c->arena.New<Indirect>(1);
  indirects[0] = by;
  c->maker.operands[operand].indirects = indirects;
}

// y[n, c, p] = x[n, c, index[n, p]] * w[n, p], as a picture is sampled.
void AddSamples(Suite* suite, std::vector<int64_t> loops, DType type, DType of_index, bool outside,
                uint32_t seed) {
  constexpr int64_t kPlaces = 55;
  Random random(seed);
  const int64_t channels = loops[1];
  Case& c = AddLoops(suite, "samples " + std::to_string(seed), std::move(loops));
  PartMaker& maker = c.maker;
  const uint16_t x = maker.Operand(type, Mode::kRead, {0, 1, 2}),
                 index = maker.Operand(of_index, Mode::kRead, {0, 2}),
                 w = maker.Operand(DType::kF32, Mode::kRead, {0, 2}),
                 y = maker.Operand(type, Mode::kWrite, {0, 1, 2});
  const Span<int64_t> strides = c.arena.New<int64_t>(3);
  strides[0] = channels * kPlaces;
  strides[1] = kPlaces;
  strides[2] = 0;
  maker.operands[x].strides = strides;
  maker.sizes[x] = maker.loops[0] * channels * kPlaces;
  PlaceBy(&c, x, {index, false, true, 1, kPlaces});
  TapeMaker body;
  body.Store(y, type, body.Binary(TapeOp::kMul, body.Load(x, type), body.Load(w, DType::kF32)));
  maker.part.body = maker.Keep(body);
  c.memory.Randomise(maker, random);
  c.tolerance = {1e-5, 1e-5};
  for (int64_t i = 0; i < maker.sizes[index]; ++i)
    scalar::Store<int64_t>(of_index, c.memory.params[index].data(), i,
                           outside && i == 1 ? kPlaces : Between(random, 0, kPlaces - 1));
}

// y[i, index[i], :] = x[i, :], like the write of a cache.
void AddScatter(Suite* suite, int64_t rows, int64_t places, int64_t row, DType type, bool outside,
                uint32_t seed, bool adds = false) {
  Random random(seed);
  Case& c = suite->Add("scatter " + std::to_string(seed));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kMap;
  maker.part.outer = 2;
  maker.loops = {rows, row};
  const uint16_t x = maker.Operand(type, Mode::kRead, {0, 1}),
                 index = maker.Operand(DType::kI64, Mode::kRead, {0}),
                 y = maker.Operand(type, adds ? Mode::kReadWrite : Mode::kWrite, {0, 1});
  Span<int64_t> strides = c.arena.New<int64_t>(2);
  strides[0] = places * row;
  strides[1] = 1;
  maker.operands[y].strides = strides;
  maker.sizes[y] = rows * places * row;
  PlaceBy(&c, y, {index, false, true, row, places});
  TapeMaker body;
  const uint16_t value = body.Load(x, type);
  body.Store(y, type, adds ? body.Add(TapeOp::kAdd, NaturalType(type), 0, body.Load(y, type), value) : value);
  maker.part.body = maker.Keep(body);
  c.memory.Randomise(maker, random);
  for (int64_t i = 0; i < rows; ++i) {
    scalar::Store<int64_t>(DType::kI64, c.memory.params[index].data(), i,
                           outside && i == 1 ? places : Between(random, 0, places - 1));
  }
}

// y[index[i], j, :] = x[i, j, :] in order, or y[i, index[i, k], :] = x[i, k, :]. The last write to a place
// wins.
void AddOrderedScatter(Suite* suite, bool nested, int64_t places, int64_t row, DType type, uint32_t seed,
                       int64_t points = 300) {
  Random random(seed);
  Case& c = suite->Add("ordered scatter " + std::to_string(seed));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kMap;
  maker.part.sequential = true;
  maker.part.outer = 3;
  maker.loops = nested ? std::vector<int64_t>{6, 40, row} : std::vector<int64_t>{points, 3, row};
  const uint16_t x = maker.Operand(type, Mode::kRead, {0, 1, 2}),
                 index = maker.Operand(DType::kI64, Mode::kRead,
                                       nested ? std::vector<int>{0, 1} : std::vector<int>{0}),
                 y = maker.Operand(type, Mode::kWrite, {0, 1, 2});
  Span<int64_t> strides = c.arena.New<int64_t>(3);
  strides[0] = nested ? places * row : 0;
  strides[1] = nested ? 0 : row;
  strides[2] = 1;
  maker.operands[y].strides = strides;
  maker.sizes[y] = (nested ? 6 : 3) * places * row;
  PlaceBy(&c, y, {index, true, true, nested ? row : 3 * row, places});
  TapeMaker body;
  body.Store(y, type, body.Load(x, type));
  maker.part.body = maker.Keep(body);
  c.memory.Randomise(maker, random);
  for (int64_t i = 0; i < maker.sizes[index]; ++i) {
    scalar::Store<int64_t>(DType::kI64, c.memory.params[index].data(), i,
                           Between(random, -places, places - 1));
  }
}

// y[i, j] = x[i, index[j]]
void AddLookUp(Suite* suite, int64_t rows, int64_t row, int64_t places, DType of_index, DType type,
               uint32_t seed) {
  Random random(seed);
  Case& c = suite->Add("lookup " + std::to_string(seed));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kMap;
  maker.part.outer = 2;
  maker.loops = {rows, row};
  const uint16_t x = maker.Operand(type, Mode::kRead, {0, 1}),
                 index = maker.Operand(of_index, Mode::kRead, {1}),
                 y = maker.Operand(type, Mode::kWrite, {0, 1});
  Span<int64_t> strides = c.arena.New<int64_t>(2);
  strides[0] = places;
  maker.operands[x].strides = strides;
  maker.sizes[x] = rows * places;
  PlaceBy(&c, x, {index, true, false, 1, places});
  TapeMaker body;
  body.Store(y, type, body.Load(x, type));
  maker.part.body = maker.Keep(body);
  c.memory.Randomise(maker, random);
  for (int64_t i = 0; i < maker.sizes[index]; ++i)
    scalar::Store<int64_t>(of_index, c.memory.params[index].data(), i, Between(random, -places, places - 1));
}

TEST(GpuKernels, MapsOfBoolsReadAndWriteVectors) {
  Suite suite;
  uint32_t seed = 20;
  for (DType in : {DType::kF16, DType::kF32, DType::kBF16}) {
    AddComparison(&suite, {3, 64}, in, seed++);
    AddComparison(&suite, {1031, 8}, in, seed++);
  }
  suite.Run();
  EXPECT_EQ(suite.Count("store_bool<"), suite.size());
}

TEST(GpuKernels, NeighbouringIndicesAreReadAsVectors) {
  Suite vectors, others;
  AddLookUp(&vectors, 50, 240, 60, DType::kI32, DType::kF16, 1);
  AddLookUp(&vectors, 7, 64, 31, DType::kI32, DType::kF32, 2);
  AddLookUp(&others, 7, 63, 31, DType::kI32, DType::kF16, 3);
  AddLookUp(&others, 7, 64, 31, DType::kI64, DType::kF16, 4);
  vectors.Run();
  others.Run();
  EXPECT_EQ(vectors.Count("u32 places"), vectors.size());
  EXPECT_EQ(others.Count("u32 places"), 0u);
}

// y[index[i], j] = f(y[index[i], j], x[i, j]) in order, with one index a row; or y[index[i, j], j], with one
// an element. `width`: indices are below it.
struct Updates {
  int64_t updates = 1, row = 1, places = 1, width = 1;
  bool each = false;
  TapeOp op = TapeOp::kAdd;
  bool outside = false;  // negative indices are out of range
};
void AddUpdates(Suite* suite, const Updates& shape, DType type, uint32_t seed) {
  Random random(seed);
  Case& c =
      suite->Add("updates " + std::to_string(seed) + ": " + std::to_string(shape.updates) + "x" +
                 std::to_string(shape.row) + " into " + std::to_string(shape.places) + " " + Name(type));
  PartMaker& maker = c.maker;
  maker.part.skeleton = Skeleton::kMap;
  maker.part.sequential = true;
  maker.part.outer = 2;
  maker.loops = {shape.updates, shape.row};
  const uint16_t x = maker.Operand(type, Mode::kRead, {0, 1}),
                 index = maker.Operand(DType::kI64, Mode::kRead,
                                       shape.each ? std::vector<int>{0, 1} : std::vector<int>{0}),
                 y = maker.Operand(type, Mode::kReadWrite, {0, 1});
  Span<int64_t> strides = c.arena.New<int64_t>(2);
  strides[0] = 0;
  strides[1] = 1;
  maker.operands[y].strides = strides;
  maker.sizes[y] = shape.places * shape.row;
  PlaceBy(&c, y, {index, !shape.outside, shape.outside, shape.row, shape.places});
  TapeMaker body;
  const uint16_t was = body.Load(y, type), value = body.Load(x, type);
  body.Store(y, type, body.Add(shape.op, NaturalType(type), 0, was, value));
  maker.part.body = maker.Keep(body);
  c.memory.Randomise(maker, random);
  for (int64_t i = 0; i < maker.sizes[index]; ++i) {
    scalar::Store<int64_t>(DType::kI64, c.memory.params[index].data(), i,
                           Between(random, -shape.width, shape.width - 1));
  }
  // Each place has the updates applied in their order, to the bit.
  c.tolerance = {0, 0};
}

TEST(GpuKernels, UpdatesOfOnePlaceComeInTheirOrder) {
  const Updates shapes[] = {
      {5000, 4, 300, 300},
      {700, 64, 90, 90},
      {3000, 1, 1000, 1000},
      {400, 5, 40, 1},
      {2500, 16, 8, 2, true},
      {300, 130, 7, 7},
      {90, 6, 500, 500, true},
      {33, 64, 9, 9},
      {600, 8, 20, 20, false, TapeOp::kMax},
      {300, 8, 20, 20, false, TapeOp::kMul},
      {1, 3, 2, 2},
      {300, 8, 10, 10, false, TapeOp::kAdd, true},
  };
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kI64};
  Suite suite;
  uint32_t seed = 600;
  for (const Updates& shape : shapes) {
    AddUpdates(&suite, shape, kTypes[seed % 3], seed);
    ++seed;
  }
  AddUpdates(&suite, shapes[0], DType::kF16, seed++);
  AddUpdates(&suite, shapes[3], DType::kF16, seed++);
  suite.Run();
  // Updates of integers, except products, are applied in any order.
  EXPECT_EQ(suite.Count("update_sum("), 3u);
  EXPECT_EQ(suite.Count("update_extreme<"), 1u);
  EXPECT_EQ(suite.Count("take_owned_points<"), std::size(shapes) + 2 - 4);
}

// The blocks of a cluster search the points together: many points, all for one place, for few or for many
// places, with indices out of range; rows of every width; an index for each element. Long sums are made of
// pieces, so only short ones have the reference's bits.
TEST(GpuKernels, ClustersShareManyUpdates) {
  struct Shared {
    Updates shape;
    DType type;
  };
  const Shared cases[] = {
      {{140009, 1, 997, 997}, DType::kF32},
      {{20011, 1, 1, 1}, DType::kF32},
      {{20011, 3, 13, 1}, DType::kF32},
      {{9001, 64, 500, 500}, DType::kF32},
      {{9001, 64, 500, 3}, DType::kF16},
      {{5003, 768, 7, 7}, DType::kF16},
      {{6007, 768, 5000, 5000}, DType::kBF16},
      {{8009, 20, 3000, 3000, false, TapeOp::kAdd, true}, DType::kF32},
      {{4999, 12, 300, 300, true}, DType::kF32},
      {{4999, 77, 301, 2, true}, DType::kF32},
      {{40009, 1, 33, 33, true}, DType::kF16},
      {{5003, 16, 100, 100, false, TapeOp::kMul}, DType::kF32},
      {{5003, 16, 100, 1, false, TapeOp::kMax}, DType::kF16},
      {{5003, 17, 100, 1, false, TapeOp::kMin}, DType::kBF16},
      {{5003, 5, 100, 100, false, TapeOp::kMul}, DType::kI64},
      {{9001, 3, 19, 19}, DType::kF64},
  };
  Suite suite;
  suite.processors = 24;
  uint32_t seed = 650;
  for (const Shared& one : cases) {
    AddUpdates(&suite, one.shape, one.type, seed++);
    suite.Last().tolerance = {one.type == DType::kF32 ? 1e-5 : 4e-2, one.type == DType::kF32 ? 1e-4 : 0.5};
  }
  suite.Run();
  EXPECT_EQ(suite.Count("take_owned_points<"), suite.size());
  EXPECT_EQ(suite.Count("__cluster_dims__(8"), suite.size());
}

// The last write wins also with more points than last_writer_map.cc takes.
TEST(GpuKernels, LastOfManyWritesWins) {
  Suite suite;
  suite.processors = 16;
  AddOrderedScatter(&suite, false, 50, 4, DType::kF32, 640, 70001);
  suite.Run();
  EXPECT_EQ(suite.Count("take_owned_points<"), 1u);
}

TEST(GpuKernels, ExtremesOfOnePlaceComeInAnyOrder) {
  Suite suite;
  suite.each = 1;
  uint32_t seed = 700;
  for (DType type : {DType::kF32, DType::kI64, DType::kI32}) {
    for (TapeOp op : {TapeOp::kMax, TapeOp::kMin}) {
      AddUpdates(&suite, {700, 64, 90, 90, false, op}, type, seed++);
      AddUpdates(&suite, {3000, 1, 10, 3, false, op}, type, seed++);
      AddUpdates(&suite, {300, 8, 10, 10, true, op}, type, seed++);
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("share_maximum("), 1u);  // 3000 floats of 10 places
  EXPECT_EQ(suite.Count("update_extreme<"), suite.size() - 1);
}

TEST(GpuKernels, MapsMatchTheReference) {
  Suite suite;
  uint32_t seed = 0;
  for (DType in : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType out : {DType::kF32, DType::kF16, DType::kBF16}) {
      AddMap(&suite, {3, 64}, in, out, 0, seed++);
      AddMap(&suite, {1031, 8}, in, out, 0, seed++);
      AddMap(&suite, {5, 12}, in, out, 16, seed++);
      AddMap(&suite, {4, 3, 32}, in, out, 2, seed++);
      AddMap(&suite, {77}, in, out, 0, seed++);
      AddMap(&suite, {96, 24, 64}, in, out, seed % 2 == 0 ? 0 : 8, seed);  // transposed in registers
      ++seed;
    }
    AddScatter(&suite, 5, 9, 64, in, false, seed++);
    AddScatter(&suite, 5, 9, 63, in, false, seed++);
    AddScatter(&suite, 5, 9, 64, in, true, seed++);
    AddScatter(&suite, 5, 9, 64, in, false, seed++, true);
    AddScatter(&suite, 5, 9, 63, in, false, seed++, true);
    for (bool nested : {false, true}) {
      AddOrderedScatter(&suite, nested, 50, 64, in, seed++);
      AddOrderedScatter(&suite, nested, 2000, 7, in, seed++);
    }
  }
  suite.Run();
}

// Channels are sampled at the same places: a thread reads the indices and weights of some points once.
TEST(GpuKernels, MapsThatShareIndicesMatchTheReference) {
  Suite suite;
  suite.each = 1;
  suite.processors = 1;
  uint32_t seed = 150;
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    AddSamples(&suite, {2, 21, 700}, type, DType::kI32, false, seed++);
    AddSamples(&suite, {3, 3, 1333}, type, DType::kI32, false, seed++);  // three channels, odd rows
    AddSamples(&suite, {2, 20, 512}, type, DType::kI64, false, seed++);
    AddSamples(&suite, {2, 20, 512}, type, DType::kI32, true, seed++);  // an index is out of range
  }
  suite.Run();
  EXPECT_EQ(suite.Count("begin + "), suite.size());
}

// Threads of large maps read what several points need before they store the first.
TEST(GpuKernels, MapsOfManyPointsMatchTheReference) {
  Suite suite;
  suite.each = 1;
  suite.processors = 1;
  uint32_t seed = 30;
  for (DType type : {DType::kF32, DType::kF16}) {
    AddMap(&suite, {63, 1001}, type, DType::kF16, 0, seed++);
    AddMap(&suite, {500, 64}, type, type, 0, seed++);
    AddMap(&suite, {77777}, type, DType::kBF16, 0, seed++);
    AddMap(&suite, {999, 12}, type, type, 16, seed++);
  }
  suite.Run();
  // In the others an operand is transposed, or counters carry from row to row.
  EXPECT_EQ(suite.Count("+ r * kBlockThreads"), 3u);
}

// A thread stores a vector that may go over the ends of rows. The points of all rows may end within one.
TEST(GpuKernels, MapsOfOddRowsStoreVectors) {
  Suite suite;
  suite.each = 1;
  suite.processors = 1;
  uint32_t seed = 70;
  for (DType in : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (DType out : {DType::kF32, DType::kF16}) {
      AddMap(&suite, {63, 101}, in, out, 0, seed++);
      AddMap(&suite, {37, 11, 13}, in, out, 2, seed++);  // an odd number of points
      AddMap(&suite, {7, 5, 3, 62, 1}, in, out, 0, seed++);
      AddMap(&suite, {2100, 3}, in, out, 6, seed++);
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("carry"), suite.size());
}

// Vectors, single elements, several blocks, points that end within a warp.
TEST(GpuKernels, NumbersThatMapsCombineMatchTheReference) {
  Suite suite;
  uint32_t seed = 50;
  for (const std::vector<int64_t>& loops :
       std::vector<std::vector<int64_t>>{{3, 64}, {1031, 8}, {5, 12}, {77}, {1}, {300, 100}}) {
    AddMap(&suite, loops, DType::kF32, seed % 2 == 0 ? DType::kF32 : DType::kF16, 0, seed);
    CombineWhatIsMade(&suite.Last());
    ++seed;
  }
  suite.Run();
}

}  // namespace
}  // namespace rondo::test
