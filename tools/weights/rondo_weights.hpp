// Live weights in C++ (C++17 or later): a thin, header-only wrapper of rondo_weights.h, in the manner of
// rondo.hpp.
//
//   if (rondo::Error e = rondo::ReplaceWeights({&session}, "tuned.safetensors")) ...
#ifndef RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_HPP_
#define RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_HPP_

#include <initializer_list>
#include <vector>

#include "runtime/rondo.hpp"
#include "tools/weights/rondo_weights.h"

namespace rondo {
inline namespace api {

inline Error ReplaceWeights(std::initializer_list<const Session*> sessions, const char* path,
                            size_t* replaced = nullptr) {
  std::vector<rondo_session*> handles;
  for (const Session* session : sessions) handles.push_back(session->get());
  return Error(rondo_weights_replace_from(handles.data(), handles.size(), path, replaced));
}

inline Error ReplaceWeights(std::initializer_list<const Session*> sessions, span<const Tensor> values) {
  std::vector<rondo_session*> handles;
  for (const Session* session : sessions) handles.push_back(session->get());
  std::vector<rondo_tensor> views;
  for (const Tensor& value : values) views.push_back(value.view());
  return Error(rondo_weights_replace(handles.data(), handles.size(), views.data(), views.size()));
}

}  // namespace api
}  // namespace rondo

#endif  // RONDO_TOOLS_WEIGHTS_RONDO_WEIGHTS_HPP_
