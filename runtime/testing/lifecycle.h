// Helpers around librondo_verify that testing.h and matchers.h share.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/rondo.hpp"
#include "runtime/testing/rondo_verify.h"

namespace rondo::testing {

// Takes over a text of the functions above; NULL gives "".
inline std::string TakeText(char* text) {
  const std::string taken = text == nullptr ? "" : text;
  rondo_testing_free(text);
  return taken;
}

// Devices of a plan; 1 if it is not open.
inline uint32_t DevicesOf(const api::Plan& plan) {
  rondo_requirements requirements;
  return plan.GetRequirements(&requirements) ? 1 : requirements.devices;
}

}  // namespace rondo::testing
