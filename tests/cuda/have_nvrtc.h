// HaveNvrtc: for tests that compile CUDA, and are skipped without a libnvrtc.
#pragma once

#include "compiler/codegen/cuda/nvrtc.h"

namespace rondo {

// True also for a libnvrtc that exists but cannot be used: tests then fail with the reason.
inline bool HaveNvrtc() {
  const Result<Nvrtc> nvrtc = Nvrtc::Open("");
  return nvrtc.ok() || nvrtc.status().code() != Code::kUnsupported;
}

}  // namespace rondo
