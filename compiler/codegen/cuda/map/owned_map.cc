// Parallel maps whose writes may coincide, for any update: each place belongs to one block, which applies its
// points in order.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/codegen/cuda/batches.h"
#include "compiler/codegen/cuda/map/colliding_writes.h"
#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/map/owned_shape.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"elements", "owned_places", "scalar", "vectors"};

// Writes which points there are, and their places: `exists`, `near_at` and `place_at` of
// device/owned_places.cuh.
void WritePlaces(const PartContext& context, const OwnedShape& shape, PartWriter* writer) {
  const Operand& out = context.part.operands[shape.out];
  const std::string each = Text(shape.each) + "u", column = "group * " + each + " + point % " + each;
  writer->Line("const auto count_point = [&](u32 point) {");
  if (!shape.walked.empty()) writer->CountLoops("point / " + each, shape.walked);
  if (!shape.kept.empty()) writer->CountLoops(column, shape.kept);
  writer->Line("};");
  const bool all = shape.columns % shape.each == 0;
  writer->Line("const auto exists = [&](u32 point) { return " +
               (all ? "true" : column + " < " + Text(shape.columns) + "u") + "; };");
  for (const bool checked : {false, true}) {
    writer->Line("const auto " + std::string(checked ? "place" : "near") + "_at = [&](u32 point) -> u32 {");
    writer->Line("count_point(point);");
    IndexValues(context, out, "value", writer);
    writer->Line("u32 place = point % " + each + "; bool there = true;");
    for (size_t k = 0; k < out.indirects.size(); ++k) {
      const std::string value = "value" + Text(k), extent = Text(out.indirects[k].extent);
      if (checked) writer->Line("there = there && " + value + " >= 0 && " + value + " < " + extent + ";");
      writer->Line("place = place * " + extent + "u + (u32)" + value + ";");
    }
    writer->Line("return there ? place : " + Text(shape.layout.places) + "u; };");
  }
}

// The number with which any other gives that other, as an expression.
std::string Neutral(TapeOp op, DType type) {
  const TapeType natural = NaturalType(type);
  if (natural == TapeType::kI64) return op == TapeOp::kMul ? "1" : "0";
  const double infinity = std::numeric_limits<double>::infinity();
  const double number = op == TapeOp::kAdd   ? -0.0
                        : op == TapeOp::kMul ? 1
                        : op == TapeOp::kMax ? -infinity
                                             : infinity;
  return NumberText(number, natural);
}

// Writes the loop that updates what `held` has by the points in order.
void WritePoints(const PartContext& context, const OwnedShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  const Operand& out = part.operands[shape.out];
  writer->scope.held.assign(part.operands.size(), "");
  for (size_t index = 0; index < part.operands.size(); ++index) {
    if (part.operands[index].param == out.param) writer->scope.held[index] = "held";
  }
  Batches batches;
  // The elements that are updated are held in registers, and the part writes nothing else.
  batches.operands = LoadsAhead(context, part.body, [&](size_t index) {
    const Operand& operand = part.operands[index];
    return operand.param != out.param && IsPlain(operand) &&
           (shape.lanes == 1 || IsVectorAlong(context, index, shape.free.back(), shape.lanes));
  });
  batches.size = BatchSize(part, batches.operands, shape.lanes);
  batches.lanes = shape.lanes;
  batches.loop = "for (u32 first = 0; first < (u32)count; first += " + Text(batches.size) + "u)";
  batches.number = "first + r";
  batches.numbers = "(u32)count";
  WriteBatches(
      context, batches, "", [&] { writer->Line("count_point(points[number]);"); },
      [&] {
        if (shape.lanes == 1)
          writer->WriteTape(part.body, "r");
        else
          writer->WriteLanes(part.body, "r", shape.free.back(), shape.lanes, "");
      },
      writer);
  writer->scope.held.clear();
}

// Writes what a thread does of a place: `take` and `join` of device/owned_places.cuh.
void WriteUpdates(const PartContext& context, const OwnedShape& shape, PartWriter* writer) {
  const Operand& out = context.part.operands[shape.out];
  const std::string type(Name(out.dtype)), param = "p" + Text(out.param), lanes = Text(shape.lanes),
                                           size = Text(ByteSize(out.dtype)),
                                           words = Text((shape.layout.share + 3) / 4);
  const auto move = [&](const std::string& step, const std::string& at) {
    if (shape.lanes > 1)
      writer->Line(step + "_words<" + words + ">(" + at + ", held);");
    else if (step == "load")
      writer->Line("st_" + type + "((char*)held, 0, ld_" + type + "(" + at + ", 0));");
    else
      writer->Line("st_" + type + "(" + at + ", 0, ld_" + type + "((const char*)held, 0));");
  };
  const auto begin = [&](const std::string& point) {
    writer->Line("__align__(16) u32 held[" + words + "]; char* to = nullptr;");
    writer->Line("count_point(" + point + ");");
    if (!shape.free.empty()) writer->CountLoops("item * " + lanes + "u", shape.free);
  };
  const auto load = [&] {
    writer->Line("{");
    writer->Address(out);
    writer->Line("if (!ok) return; to = " + param + " + a * " + size + "; }");
    move("load", "to");
  };
  writer->Line("const auto take = [&](const u32* points, int count, u32 item, char* sum) {");
  begin("points[0]");
  if (shape.layout.splits != 0) {
    writer->Line("if (sum != nullptr) { to = sum;");
    writer->Line("for (int e = 0; e < " + lanes + "; ++e) st_" + type + "((char*)held, e, " +
                 Neutral(shape.update->op, out.dtype) + ");");
    writer->Line("} else {");
    load();
    writer->Line("}");
  } else {
    writer->Line("(void)sum;");
    load();
  }
  WritePoints(context, shape, writer);
  move("store", "to");
  writer->Line("};");
  writer->Line("const auto join = [&](u32 point, u32 item, int count, PieceSums<" +
               Aggregate("OwnedPlaces", shape.layout) + "> sums) {");
  if (shape.layout.splits != 0) {
    begin("point");
    load();
    writer->Line("for (int k = 0; k < count; ++k) { const char* const sum = sums[k];");
    writer->Line("#pragma unroll");
    writer->Line("for (int e = 0; e < " + lanes + "; ++e) st_" + type + "((char*)held, e, op_" +
                 std::string(Name(shape.update->op)) + "(ld_" + type + "((const char*)held, e), ld_" + type +
                 "(sum, e))); }");
    move("store", "to");
  } else {
    writer->Line("(void)point; (void)item; (void)count; (void)sums;");
  }
  writer->Line("};");
}

Result<PartLaunch> WriteOwned(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const OwnedShape shape = *OwnedShapeOf(context);
  const std::string cluster = Text(shape.layout.cluster), owners = Text(shape.layout.owners) + "u";
  const std::string items = Text((shape.items + shape.tiles - 1) / shape.tiles) + "u";
  writer->Line("const u32 rank = block % " + cluster + "u, of_cluster = block / " + cluster + "u;");
  writer->Line("const u32 owner = of_cluster % " + owners + ", group = of_cluster / " + owners + " % " +
               Text(shape.groups) + "u; (void)group;");
  writer->Line("const u32 from = of_cluster / " + Text(shape.layout.owners * shape.groups) + "u * " + items +
               ";");
  writer->Line("const u32 end = from + " + items + " < " + Text(shape.items) + "u ? from + " + items + " : " +
               Text(shape.items) + "u;");
  writer->DeclareLoops();
  WritePlaces(context, shape, writer);
  WriteUpdates(context, shape, writer);
  writer->Line("take_owned_points<" + Aggregate("OwnedPlaces", shape.layout) +
               ">(owner, rank, from, end, exists, near_at, place_at, take, join);");
  PartLaunch launch;
  launch.block = OwnedPlaces::kThreads;
  launch.shared = static_cast<uint32_t>(shape.layout.shared());
  launch.cluster = static_cast<uint32_t>(shape.layout.cluster);
  launch.resident = shape.resident;
  return WithBlocks(launch, shape.layout.blocks() * shape.groups * shape.tiles);
}

// The shape decides the cluster.
std::vector<KernelCandidate> Candidates(const PartContext& context) {
  const std::optional<OwnedShape> shape = OwnedShapeOf(context);
  if (!shape) return {};
  KernelConfiguration configuration;
  configuration.cluster = shape->layout.cluster;
  return {{configuration, kNotEstimated}};
}

}  // namespace

constinit const KernelVariant kOwnedMap = {VariantId::kAny, kHeaders, Candidates, WriteOwned};

}  // namespace rondo::cuda
