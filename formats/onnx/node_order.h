// The order of a model's nodes. ONNX requires a topological order, but some tools (converters to f16 that
// cast inputs) append nodes at the end of the file.
#pragma once

namespace rondo::onnx {

class ModelProto;

// Sorts the nodes of every graph and function, nested ones included, behind the nodes whose results they or
// their subgraphs read. Nodes already in order stay in place; a node that must move comes right before the
// first node that reads it. Nodes in a cycle get an arbitrary order.
void SortNodes(ModelProto* model);

}  // namespace rondo::onnx
