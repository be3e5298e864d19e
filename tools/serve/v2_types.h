// The Open Inference Protocol's names of element types.
#pragma once

#include "core/dtype.h"

namespace rondo::serve {

// "FP32", "INT64", ...; FP8 types have no name in the protocol, and are named as in ONNX.
constexpr const char* V2Name(DType type) {
  constexpr const char* kNames[kNumDTypes] = {"FP32",   "FP16",   "BF16", "FP64",         "INT64",
                                              "INT32",  "INT16",  "INT8", "UINT8",        "UINT16",
                                              "UINT32", "UINT64", "BOOL", "FLOAT8E4M3FN", "FLOAT8E5M2"};
  return kNames[static_cast<int>(type)];
}

}  // namespace rondo::serve
