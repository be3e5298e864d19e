// Calls rondo generate like a user, on a plan made for the test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/folders.h"
#include "tests/temporary_folder.h"
#include "tests/tools/run_command.h"

namespace rondo {

inline const std::string kRondo = RONDO_COMMAND;
inline const std::string kData = SourceFolder() + "/tests/data/";
inline const std::string kPycoder =
    " prefill=" + kData + "pycoder/prefill64.onnx decode=" + kData + "pycoder/decode.onnx ";

// PyTorch's text after its prompt.
inline std::string Greedy() {
  std::ifstream file(kData + "pycoder/greedy.bytes", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Generate : public testing::Test {
 protected:
  void Compile(const std::string& models, const std::string& options) {
    const Outcome made = Shell(kRondo + " compile" + models + " " + options + " -o " + Plan());
    ASSERT_EQ(made.status, 0) << made.text;
  }
  std::string Plan() const { return folder_.File("plan.rondo"); }
  // Writes a file; returns its path.
  std::string Text(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.File(name), std::ios::binary) << text;
    return folder_.File(name);
  }
  // An .npy file with one i64, 5, as the adapter's number.
  std::string Adapter() const {
    std::string file("\x93NUMPY\x01\x00\x76\x00", 10);
    file += "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }";
    file.resize(127, ' ');
    file += '\n';
    file += std::string("\x05\0\0\0\0\0\0\0", 8);
    return Text("adapter.npy", file);
  }
  // Returns only standard output.
  std::string Say(const std::string& options) const {
    const Outcome said = Shell("sh -c '" + kRondo + " generate " + Plan() + " " + options + " 2>/dev/null'");
    EXPECT_EQ(said.status, 0) << options << Run(options).text;
    return said.text;
  }
  Outcome Run(const std::string& options) const {
    return Shell(kRondo + " generate " + Plan() + " " + options);
  }
  nlohmann::json Json(const std::string& options) const {
    return nlohmann::json::parse(Say(options + " --json"), nullptr, false);
  }
  TemporaryFolder folder_;
};

}  // namespace rondo
