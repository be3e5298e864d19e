// Models whose inputs have symbolic dimensions, in exporters' form: Shape, Gather, Concat and Reshape compute
// shapes.
#pragma once

#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/import/model_maker.h"

namespace rondo {

class DynamicModel : public ModelMaker {
 public:
  using Texts = std::vector<std::string>;

  void Port(const std::string& name, int type, const Texts& dims) {
    DescribePort(graph()->add_input(), name, type, dims);
  }
  void Outputs(const Texts& names) {
    for (const std::string& name : names) Output(name);
  }
  void Write(const std::string& path) const {
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
  }

  // Returns the name of the node's output.
  std::string Add(const std::string& op, const Texts& inputs, const std::string& out) {
    last_ = Node(op, inputs, {out});
    return out;
  }
  DynamicModel& With(const char* name, const std::vector<int64_t>& values, bool list = true) {
    onnx::AttributeProto* a = last_->add_attribute();
    a->set_name(name);
    a->set_type(list ? onnx::AttributeProto::INTS : onnx::AttributeProto::INT);
    if (!list) a->set_i(values[0]);
    for (int64_t value : values) {
      if (list) a->add_ints(value);
    }
    return *this;
  }
  DynamicModel& With(const char* name, int64_t value) {
    return With(name, std::vector<int64_t>{value}, false);
  }

  std::string Weight(const std::string& name, const std::vector<int64_t>& dims, float scale = 0.3f) {
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      values.push_back(scale * (static_cast<float>(state_ >> 40) / 8388608.0f - 1));
    }
    Floats(name, dims, values);
    return name;
  }
  std::string Index(int64_t value) {
    const std::string name = "i" + std::to_string(value);
    if (indices_.insert(name).second) Ints(name, {value});
    return name;
  }
  std::string Number(float value) {
    const std::string name = "c" + std::to_string(numbers_++);
    Floats(name, {}, {value});
    return name;
  }
  // Dimension `axis` of x, as a value of shape [1].
  std::string Dim(const std::string& x, int64_t axis) {
    const std::string name = x + "_dim" + std::to_string(axis);
    if (!indices_.insert(name).second) return name;
    Add("Shape", {x}, name + "_shape");
    return Add("Gather", {name + "_shape", Index(axis)}, name);
  }
  // Reshapes x to the dims `of`, values of shape [1].
  std::string Reshape(const std::string& x, const Texts& of, const std::string& out) {
    Add("Concat", of, out + "_shape");
    With("axis", 0);
    return Add("Reshape", {x, out + "_shape"}, out);
  }
  std::string Norm(const std::string& x, int64_t width, const std::string& out) {
    return Add("LayerNormalization", {x, Weight(out + "_w", {width}, 1), Weight(out + "_b", {width})}, out);
  }
  std::string Linear(const std::string& x, int64_t from, int64_t to, const std::string& out) {
    Add("MatMul", {x, Weight(out + "_w", {from, to})}, out + "_m");
    return Add("Add", {out + "_m", Weight(out + "_b", {to})}, out);
  }

  // One layer over x [batch, sequence, heads * head]; adds `mask` to the scores, unless it is empty.
  std::string Layer(const std::string& x, const std::string& mask, int64_t heads, int64_t head,
                    const std::string& out, Texts* caches = nullptr) {
    const int64_t width = heads * head;
    Texts parts;
    for (const char* part : {"_q", "_k", "_v"}) {
      const std::string name = out + part;
      Linear(x, width, width, name);
      Reshape(name, {Dim(x, 0), Dim(x, 1), Index(heads), Index(head)}, name + "_r");
      parts.push_back(Add("Transpose", {name + "_r"}, name + "_t"));
      With("perm", {0, 2, 1, 3});
    }
    if (caches != nullptr) *caches = {parts[1], parts[2]};
    Add("Transpose", {parts[1]}, out + "_kt");
    With("perm", {0, 1, 3, 2});
    Add("MatMul", {parts[0], out + "_kt"}, out + "_qk");
    std::string scores =
        Add("Mul", {out + "_qk", Number(1 / std::sqrt(static_cast<float>(head)))}, out + "_s");
    if (!mask.empty()) scores = Add("Add", {scores, mask}, out + "_sm");
    Add("Softmax", {scores}, out + "_p");
    With("axis", -1);
    Add("MatMul", {out + "_p", parts[2]}, out + "_o");
    Add("Transpose", {out + "_o"}, out + "_ot");
    With("perm", {0, 2, 1, 3});
    Reshape(out + "_ot", {Dim(x, 0), Dim(x, 1), Index(width)}, out + "_or");
    Linear(out + "_or", width, width, out + "_proj");
    Add("Add", {x, out + "_proj"}, out + "_a");
    Norm(out + "_a", width, out + "_n");
    Linear(out + "_n", width, 2 * width, out + "_up");
    Add("Relu", {out + "_up"}, out + "_act");
    Linear(out + "_act", 2 * width, width, out + "_down");
    Add("Add", {out + "_n", out + "_down"}, out + "_f");
    return Norm(out + "_f", width, out);
  }

  // Rows of words plus rows of positions, [batch, sequence, width].
  std::string Embed(int64_t words, int64_t positions, int64_t width) {
    Port("ids", onnx::TensorProto::INT64, {"batch", "sequence"});
    Add("Gather", {Weight("words", {words, width}, 1), "ids"}, "rows");
    Add("Squeeze", {Dim("ids", 1), Index(0)}, "length");
    Ints("zero", {0});
    Ints("one", {1});
    Add("Squeeze", {"zero"}, "zero_s");
    Add("Squeeze", {"one"}, "one_s");
    Add("Range", {"zero_s", "length", "one_s"}, "places");
    Add("Gather", {Weight("positions", {positions, width}), "places"}, "place_rows");
    return Add("Add", {"rows", "place_rows"}, "embedded");
  }

 private:
  onnx::NodeProto* last_ = nullptr;
  uint64_t state_ = 88172645463325252u;
  std::set<std::string> indices_;
  int numbers_ = 0;
};

// An encoder with the outputs: hidden rows, their mean, their mean over the mask, their maximum, the first
// row and the last.
struct EncoderModel : DynamicModel {
  // `masked`: with the input `mask` [batch, sequence], of 0 and 1.
  explicit EncoderModel(bool masked) {
    constexpr int64_t kHeads = 2, kHead = 8, kWidth = kHeads * kHead;
    Norm(Embed(50, 600, kWidth), kWidth, "x0");
    std::string added;
    if (masked) {
      Port("mask", onnx::TensorProto::INT64, {"batch", "sequence"});
      Add("Cast", {"mask"}, "mask_f");
      With("to", 1);
      Ints("mask_axes", {1, 2});
      Add("Unsqueeze", {"mask_f", "mask_axes"}, "mask_u");
      Add("Sub", {Number(1), "mask_u"}, "not_mask");
      added = Add("Mul", {"not_mask", Number(-10000)}, "mask_add");
    }
    Layer("x0", added, kHeads, kHead, "x1");
    Layer("x1", added, kHeads, kHead, "hidden");
    Ints("axis1", {1});
    Add("ReduceMean", {"hidden", "axis1"}, "mean");
    With("keepdims", 0);
    Add("ReduceMax", {"hidden", "axis1"}, "max");
    With("keepdims", 0);
    Ints("minus", {-1});
    Add("Squeeze", {"minus"}, "minus_s");
    Add("Squeeze", {"zero"}, "first_at");
    Add("Gather", {"hidden", "first_at"}, "first_row");
    With("axis", 1);
    Linear("first_row", kWidth, 4, "first");
    Add("Gather", {"hidden", "minus_s"}, "last");
    With("axis", 1);
    Outputs({"hidden", "mean", "max", "first", "last"});
    if (!masked) return;
    Ints("axis2", {2});
    Add("Unsqueeze", {"mask_f", "axis2"}, "mask_rows");
    Add("Mul", {"hidden", "mask_rows"}, "kept");
    Add("ReduceSum", {"kept", "axis1"}, "kept_sum");
    With("keepdims", 0);
    Add("ReduceSum", {"mask_rows", "axis1"}, "kept_count");
    With("keepdims", 0);
    Add("Div", {"kept_sum", "kept_count"}, "pooled");
    Output("pooled");
  }
};

// A decoder's prefill: logits, and the new rows of the caches.
struct PrefillModel : DynamicModel {
  PrefillModel() {
    constexpr int64_t kHeads = 2, kHead = 8, kWidth = kHeads * kHead;
    Embed(50, 600, kWidth);
    Reshape("places", {Index(1), Dim("ids", 1)}, "columns");
    Reshape("places", {Dim("ids", 1), Index(1)}, "lines");
    Add("Greater", {"columns", "lines"}, "later");
    Add("Where", {"later", Number(-3.4e38f), Number(0)}, "causal");
    Texts caches;
    Layer("embedded", "causal", kHeads, kHead, "x1", &caches);
    Linear("x1", kWidth, 50, "logits");
    Add("Identity", {caches[0]}, "present_keys");
    Add("Identity", {caches[1]}, "present_values");
    Outputs({"logits", "present_keys", "present_values"});
  }
};

// A convolution network over images.
struct PictureModel : DynamicModel {
  // `sized`: images of any height and width.
  explicit PictureModel(bool sized = false) {
    const std::string side = "12";
    Port("x", onnx::TensorProto::FLOAT, {"batch", "3", sized ? "height" : side, sized ? "width" : side});
    Add("Conv", {"x", Weight("w1", {8, 3, 3, 3}), Weight("b1", {8})}, "c1");
    With("pads", {1, 1, 1, 1}).With("strides", {2, 2});
    Add("BatchNormalization", {"c1", Weight("s", {8}, 1), Weight("o", {8}), Weight("m", {8}), "var"}, "n1");
    Floats("var", {8}, {1, 2, 1, 2, 1, 2, 1, 2});
    Add("Relu", {"n1"}, "r1");
    Add("MaxPool", {"r1"}, "p1");
    With("kernel_shape", {3, 3}).With("pads", {1, 1, 1, 1}).With("strides", {2, 2});
    Add("Conv", {"p1", Weight("w2", {8, 1, 3, 3})}, "c2");
    With("pads", {1, 1, 1, 1}).With("group", 8);
    Add("Add", {"c2", "p1"}, "sum");
    Add("GlobalAveragePool", {"sum"}, "g");
    if (sized) {
      Add("GlobalMaxPool", {"sum"}, "greatest");
      Outputs({"sum", "g", "greatest"});
      return;
    }
    Add("Flatten", {"g"}, "f");
    Add("Gemm", {"f", Weight("w3", {8, 5}), Weight("b3", {5})}, "scores");
    Add("Softmax", {"scores"}, "shares");
    Outputs({"scores", "shares"});
  }
};

}  // namespace rondo
