// Small ONNX models for tests, made in a few lines.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/reader.h"

namespace rondo {

// Whether `status` is an error whose message has all `parts`.
inline testing::AssertionResult Says(const Status& status, std::initializer_list<const char*> parts) {
  if (status.ok()) return testing::AssertionFailure() << "no error";
  for (const char* part : parts) {
    if (std::strstr(status.message(), part) == nullptr) {
      return testing::AssertionFailure() << "\"" << status.message() << "\" does not say \"" << part << "\"";
    }
  }
  return testing::AssertionSuccess();
}

// Dims are numbers, or symbols.
inline void DescribePort(onnx::ValueInfoProto* info, const std::string& name, int type,
                         const std::vector<std::string>& dims) {
  info->set_name(name);
  onnx::TypeProto::Tensor* tensor = info->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  for (const std::string& dim : dims) {
    auto* d = tensor->mutable_shape()->add_dim();
    if (std::isdigit(dim[0]) != 0) {
      d->set_dim_value(std::stoll(dim));
    } else {
      d->set_dim_param(dim);
    }
  }
}

class ModelMaker {
 public:
  explicit ModelMaker(int64_t opset = 20) { proto.add_opset_import()->set_version(opset); }

  onnx::GraphProto* graph() { return proto.mutable_graph(); }

  // dims: positive extents, or -1 for the symbol "N".
  void Input(const std::string& name, const std::vector<int64_t>& dims, int type = onnx::TensorProto::FLOAT) {
    Describe(graph()->add_input(), name, dims, type);
  }
  void Output(const std::string& name) { graph()->add_output()->set_name(name); }

  onnx::NodeProto* Node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
    return Node(graph(), op, inputs, outputs);
  }
  template <typename Owner>
  static onnx::NodeProto* Node(Owner* owner, const std::string& op, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs) {
    onnx::NodeProto* node = owner->add_node();
    node->set_op_type(op);
    node->set_name(op + "_" + outputs[0]);
    for (const std::string& i : inputs) node->add_input(i);
    for (const std::string& o : outputs) node->add_output(o);
    return node;
  }
  void Ints(const std::string& name, const std::vector<int64_t>& values) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::INT64);
    t->add_dims(static_cast<int64_t>(values.size()));
    for (int64_t v : values) t->add_int64_data(v);
  }
  void Floats(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t d : dims) t->add_dims(d);
    for (float v : values) t->add_float_data(v);
  }
  void Bool(const std::string& name, bool value) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::BOOL);
    t->add_int32_data(value ? 1 : 0);
  }

  std::shared_ptr<onnx::Model> Make() {
    std::string bytes = proto.SerializeAsString();
    auto model = onnx::Model::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, ".");
    return model.ok() ? model.Take() : nullptr;
  }

  onnx::ModelProto proto;

 private:
  static void Describe(onnx::ValueInfoProto* info, const std::string& name, const std::vector<int64_t>& dims,
                       int type) {
    info->set_name(name);
    onnx::TypeProto::Tensor* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (int64_t d : dims) {
      auto* dim = tensor->mutable_shape()->add_dim();
      if (d < 0) {
        dim->set_dim_param("N");
      } else {
        dim->set_dim_value(d);
      }
    }
  }
};

}  // namespace rondo
