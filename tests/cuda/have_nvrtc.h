// HaveNvrtc: for tests that compile CUDA, and are skipped where they cannot.
#pragma once

#include "compiler/codegen/cuda/nvrtc.h"

namespace rondo {

// A libnvrtc that is there and cannot be used counts as well: tests then fail, and say why.
inline bool HaveNvrtc() {
  const Result<Nvrtc> nvrtc = Nvrtc::Open("");
  return nvrtc.ok() || nvrtc.status().code() != Code::kUnsupported;
}

}  // namespace rondo
