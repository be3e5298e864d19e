// Allowance: limits how far a model's functions, loops and branches may be expanded.
//
// A model of a kilobyte can stand for 2^40 nodes: functions that call others twice, loops within loops. The
// importer counts the nodes and bytes that it makes, and stops when they are out of proportion to the model's
// file and weights.
//
// One object serves one import; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/status.h"
#include "formats/onnx/reader.h"

namespace rondo::onnx {
class FunctionProto;  // onnx.pb.h
class GraphProto;
class NodeProto;
}  // namespace rondo::onnx

namespace rondo::importer {

class Allowance {
 public:
  // `most_nodes`: the limit on IR nodes for a model without weights. `graph` is the graph being made; its
  // folding is limited as well. It must outlive this object.
  Allowance(int64_t file_bytes, int64_t most_nodes, ir::Graph* graph);

  // Called for each node of the main graph, in order, before it is imported. The nodes must outlive this
  // object.
  void Begin(const onnx::NodeProto& node);
  // Counts one more pass through a body: all of its nodes, needed or not.
  void Enter(const onnx::FunctionProto& body);
  void Enter(const onnx::GraphProto& body);
  // Counts texts and lists that were made in addition to those of the graph.
  void Take(int64_t bytes) { bytes_ += bytes; }
  // Counts a tensor that was read. External data raises the limits when it is read for the first time.
  void Load(const onnx::TensorValue& tensor);

  // kUnsupported if a limit is exceeded, with the node of the main graph that caused most of it.
  Status Check() const;

 private:
  struct Amounts {
    int64_t entries = 0;  // in bodies: nodes, their inputs, outputs and attributes, initializers, opsets
    int64_t nodes = 0;    // of the IR
    int64_t bytes = 0;
  };
  struct Begun {
    const onnx::NodeProto* node = nullptr;
    Amounts before;
  };
  Amounts Made() const { return {entries_, graph_->added_nodes, bytes_ + graph_->added_bytes}; }
  void Raise(int64_t model_bytes);
  Status Refuse(int64_t Amounts::*unit, int64_t most, const char* what) const;

  ir::Graph* graph_;
  Amounts most_;
  int64_t model_bytes_ = 0;                              // of the file and the external data read so far
  std::map<std::string, int64_t> files_;                 // external data: how far each file is read
  std::unordered_map<const void*, int64_t> entries_of_;  // by function or graph
  int64_t entries_ = 0, bytes_ = 0;
  std::vector<Begun> begun_;
};

}  // namespace rondo::importer
