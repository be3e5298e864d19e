// Runs a plan in a session on the same inputs each time, through the public C++ interface.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/rondo.hpp"

namespace rondo {

using Bytes = std::vector<std::vector<uint8_t>>;

// A plan with its own runtime and session; takes the runtime's driver.
class Running {
 public:
  Error Open(const std::string& plan, rondo_driver* driver) {
    if (Error e = Runtime::Create(driver, &runtime_)) return e;
    if (Error e = Plan::Open(plan.c_str(), &plan_)) return e;
    return AddSession(&session_);
  }
  Error AddSession(Session* session) { return Session::Create(runtime_, plan_, session); }
  Session& session() { return session_; }

  // The outputs of program 0.
  Bytes Run() { return Run(&session_); }
  Bytes Run(Session* session) {
    Bytes in = Ports(true), out = Ports(false);
    std::vector<Tensor> inputs, outputs;
    for (size_t i = 0; i < ports_[0].size(); ++i) inputs.push_back(TensorOf(ports_[0][i], &in[i]));
    for (size_t i = 0; i < ports_[1].size(); ++i) outputs.push_back(TensorOf(ports_[1][i], &out[i]));
    const Error error = session->Run(0, {inputs.data(), inputs.size()}, {outputs.data(), outputs.size()});
    EXPECT_FALSE(error) << error.message();
    return out;
  }

 private:
  static Tensor TensorOf(const rondo_port& port, std::vector<uint8_t>* bytes) {
    return Tensor(port.name, port.dtype, {port.all_dims, port.rank}, bytes->data(), bytes->size());
  }
  // Memory for the ports that are not state; inputs are small numbers.
  Bytes Ports(bool input) {
    std::vector<rondo_port>& ports = ports_[input ? 0 : 1];
    ports.clear();
    Bytes bytes;
    for (uint32_t i = 0; i < (input ? plan_.input_count(0) : plan_.output_count(0)); ++i) {
      rondo_port port;
      EXPECT_FALSE(input ? plan_.GetInput(0, i, &port) : plan_.GetOutput(0, i, &port));
      if (port.is_state != 0) continue;
      ports.push_back(port);
      std::vector<uint8_t>& of = bytes.emplace_back(port.bytes);
      for (size_t k = 0; port.dtype == RONDO_F32 && k < of.size() / sizeof(float); ++k) {
        const float x = static_cast<float>(k * 37 % 101) / 101 - 0.5f;
        std::memcpy(of.data() + k * sizeof(float), &x, sizeof(x));
      }
    }
    return bytes;
  }

  Plan plan_;
  Runtime runtime_;
  Session session_;
  std::vector<rondo_port> ports_[2];
};

}  // namespace rondo
