// Windows made by hand: convolutions with one channel per group, and pools, over any number of spatial axes.
#pragma once

#include <vector>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

// Vectors have one element for each spatial axis.
struct WindowCase {
  Combine combine = Combine::kProduct;
  int64_t batch = 1, channels = 1;
  std::vector<int64_t> size, kernel, stride, dilation, before, after;  // before, after: padding
  bool channels_last = false;
  bool weights_last = false;  // the weight's innermost axis is the channels
};

// out[n, c, ...] = window of x (by weights of type `weight`) + bias[c] + residual[n, c, ...].
inline void MakeWindows(const WindowCase& v, DType type, DType weight, PartMaker* maker) {
  Part& part = maker->part;
  part.skeleton = Skeleton::kConvolution;
  part.combine = v.combine;
  const int spatial = static_cast<int>(v.size.size());
  part.outer = 1;
  part.m = 2;
  part.n = static_cast<uint8_t>(spatial);
  part.reduced = static_cast<uint8_t>(1 + spatial);
  maker->loops = {v.batch, v.channels, 1};
  for (size_t s = 0; s < v.size.size(); ++s) {
    const int64_t reach = (v.kernel[s] - 1) * v.dilation[s] + 1;
    maker->loops.push_back((v.size[s] + v.before[s] + v.after[s] - reach) / v.stride[s] + 1);
  }
  maker->loops.push_back(1);
  maker->loops.insert(maker->loops.end(), v.kernel.begin(), v.kernel.end());
  const size_t loops = maker->loops.size();

  part.lhs = maker->Operand(type, Mode::kRead, {});
  std::vector<Guard> guards(v.size.size());
  int64_t run = v.channels_last ? v.channels : 1;
  for (size_t s = v.size.size(); s-- > 0;) {
    std::vector<int64_t> walk(loops, 0);
    walk[3 + s] = v.stride[s];
    walk[4 + v.size.size() + s] = v.dilation[s];
    guards[s] = {run, -v.before[s], v.size[s], maker->arena->Copy(walk)};
    run *= v.size[s];
  }
  std::vector<int64_t> strides(loops, 0);
  strides[1] = v.channels_last ? 1 : run;
  strides[0] = v.channels_last ? run : run * v.channels;
  maker->sizes[part.lhs] = v.batch * strides[0];
  maker->operands[part.lhs].strides = maker->arena->Copy(strides);
  maker->operands[part.lhs].guards = maker->arena->Copy(guards);

  std::vector<int> taps, points;
  for (int s = 0; s < spatial; ++s) {
    taps.push_back(4 + spatial + s);
    points.push_back(3 + s);
  }
  if (v.combine == Combine::kProduct) {
    std::vector<int> order = v.weights_last ? taps : std::vector<int>{1};
    if (v.weights_last) order.push_back(1);
    if (!v.weights_last) order.insert(order.end(), taps.begin(), taps.end());
    part.rhs = maker->arena->Copy(std::vector<uint16_t>{maker->Operand(weight, Mode::kRead, order)});
  }
  std::vector<int> place = {0};
  if (!v.channels_last) place.push_back(1);
  place.insert(place.end(), points.begin(), points.end());
  if (v.channels_last) place.push_back(1);
  const uint16_t bias = maker->Operand(type, Mode::kRead, {1}),
                 residual = maker->Operand(type, Mode::kRead, place),
                 out = maker->Operand(type, Mode::kWrite, place);
  TapeMaker tape;
  part.acc_type = NaturalType(type);
  uint16_t x = tape.Add(TapeOp::kAcc, part.acc_type, 0);
  x = tape.Binary(TapeOp::kAdd, x, tape.Load(bias, type));
  x = tape.Binary(TapeOp::kAdd, x, tape.Load(residual, type));
  tape.Store(out, type, x);
  part.epilogue = maker->Keep(tape);
}

// Means and maxima over the middle axis: x[n, elements, rows], y[n, rows].
inline void MakeColumns(int64_t batch, int64_t rows, int64_t elements, DType type, PartMaker* maker) {
  maker->loops = {batch, rows, elements};
  Part& part = maker->part;
  part.skeleton = Skeleton::kReduction;
  part.outer = 2;
  part.reduced = 1;
  part.scalars = 4;
  const uint16_t x = maker->Operand(type, Mode::kRead, {0, 2, 1}),
                 y = maker->Operand(type, Mode::kWrite, {0, 1});
  TapeMaker sum, mean, square, store;
  uint16_t value = sum.Load(x, type);
  sum.Add(TapeOp::kReduceSum, TapeType::kF32, 0, value);
  sum.Add(TapeOp::kReduceMax, TapeType::kF32, 1, value);
  mean.Add(TapeOp::kSetScalar, TapeType::kF32, 2,
           mean.Binary(TapeOp::kMul, mean.Add(TapeOp::kScalar, TapeType::kF32, 0),
                       mean.Const(1 / static_cast<float>(elements))));
  value = square.Binary(TapeOp::kSub, square.Load(x, type), square.Add(TapeOp::kScalar, TapeType::kF32, 2));
  square.Add(TapeOp::kReduceSum, TapeType::kF32, 3, square.Binary(TapeOp::kMul, value, value));
  value = store.Binary(TapeOp::kMul, store.Add(TapeOp::kScalar, TapeType::kF32, 3),
                       store.Const(1 / static_cast<float>(elements)));
  store.Store(y, type, store.Binary(TapeOp::kAdd, value, store.Add(TapeOp::kScalar, TapeType::kF32, 1)));
  const std::vector<Stage> stages = {{false, maker->Keep(sum)},
                                     {true, maker->Keep(mean)},
                                     {false, maker->Keep(square)},
                                     {true, maker->Keep(store)}};
  part.stages = maker->arena->Copy(stages);
}

}  // namespace rondo::test
