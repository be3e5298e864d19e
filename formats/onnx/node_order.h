// The order of a model's nodes. ONNX asks for a topological one; tools that put nodes at the end of a file
// (converters to f16 that cast inputs) leave it to whoever reads to find one.
#pragma once

namespace rondo::onnx {

class ModelProto;

// Puts the nodes of every graph and function, those within others included, behind the nodes whose results
// they or their subgraphs read. Nodes that stand so stay where they are; a node that must come earlier comes
// right before the first that reads it. Nodes that read one another's results in a circle get some order.
void SortNodes(ModelProto* model);

}  // namespace rondo::onnx
