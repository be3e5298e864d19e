// The value of a model's input that is known when the model is compiled.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "formats/tensor/tensor.h"

namespace rondo {

// One number for every element, or an array, which also determines the input's shape. Numbers are converted
// to the input's type, which must be able to hold them.
struct BoundValue {
  BoundValue(double n = 0) : number(n) {}
  explicit BoundValue(Tensor values) : array(std::make_shared<const Tensor>(std::move(values))) {}
  double number = 0;
  std::shared_ptr<const Tensor> array;  // null: `number`
};

using BoundValues = std::map<std::string, BoundValue>;  // by the input's name

}  // namespace rondo
