// The driver's small collectives: their PTX is what NVRTC makes of their source. RONDO_WRITE_PTX=FOLDER
// writes FOLDER/ptx.tar.xz as it should be: `RONDO_WRITE_PTX=drivers/cuda/peer_collectives
// build/release/bin/cuda_test
// --gtest_filter=SmallKernels.*` from the root.
#include "drivers/cuda/peer_collectives/small_kernels.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/nvrtc.h"
#include "drivers/cuda/peer_collectives/kernels_text.h"
#include "tests/folders.h"
#include "tests/how_many.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(SourceFolder() + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Removes what depends on the compiler's version. NVRTC states its own version of PTX, but the text needs
// only an older one, except for a pragma; and drivers may be older too.
std::string WithoutItsMaker(const std::string& ptx) {
  std::string kept;
  std::stringstream lines(ptx);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(".version", 0) == 0) line = ".version 8.0";
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.pop_back();
    const bool said =
        line.rfind("//", 0) != 0 && (line.find("\t//") == line.npos || line.find("//+90") != line.npos);
    const bool older = line.find(".pragma \"used_bytes_mask") == line.npos;
    if (!line.empty() && said && older) kept += line + "\n";
  }
  return kept;
}

// A PTX text that the driver carries, and its source.
struct Made {
  std::string file;  // NAME.ptx
  const char* carried;
  std::string source, before;  // text that comes before the source
};
std::vector<Made> AllMade() {
  std::vector<Made> all = {{"kernels.ptx", cuda::kSmallKernelsText, "kernels.cu", ""}};
  for (const auto& [name, element] :
       {std::pair<std::string, std::string>{"f32", "F32"}, {"f16", "F16"}, {"bf16", "BF16"}}) {
    for (const std::string ranks : {"2", "4", "8"}) {
      const std::string norm = "norm_" + name + "_" + ranks;
      all.push_back({norm + ".ptx", cuda::kSmallNormTexts[all.size() - 1], "norm.cu",
                     "#define RONDO_NORM rondo_small_" + norm + "\n#define RONDO_ELEMENT " + element +
                         "\n#define RONDO_RANKS " + ranks + "\n"});
    }
  }
  return all;
}

TEST(SmallKernels, PtxIsThatOfTheSource) {
  const std::string folder = "drivers/cuda/peer_collectives/";
  const std::vector<std::string> names = {folder + "exchange.h", folder + "exchange_layout.h",
                                          folder + "gpu.h", folder + "norm.h",
                                          "formats/machine_code/kernel_params.h"};
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(TextOf(name));
  std::vector<DeviceHeader> headers;
  for (size_t i = 0; i < names.size(); ++i) headers.push_back({names[i].c_str(), texts[i].c_str()});
  const Result<Nvrtc> nvrtc = Nvrtc::Open("");
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status().message();
  const char* const to = std::getenv("RONDO_WRITE_PTX");
  const TemporaryFolder written;
  std::string files;
  for (const Made& made : AllMade()) {
    const Result<std::vector<uint8_t>> bytes =
        nvrtc->Compile(made.before + TextOf(folder + made.source), headers, "compute_80");
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    const std::string ptx(bytes->begin(), bytes->end() - 1);
    if (to != nullptr) {
      std::ofstream(written.File(made.file)) << WithoutItsMaker(ptx);
      files += " " + made.file;
      continue;
    }
    if (ptx.find("release 13.0, V13.0.88") == ptx.npos)
      GTEST_SKIP() << "NVRTC is not the one that made the files";
    EXPECT_TRUE(WithoutItsMaker(ptx) == made.carried)
        << made.file << " is not made of " << made.source << " any more";
  }
  if (to == nullptr) return;
  const std::string archive = std::filesystem::absolute(to).string() + "/ptx.tar.xz";
  const std::string command = "cd '" + written.string() + "' && cmake -E tar cJf '" + archive +
                              "' --format=gnutar --mtime=2026-01-01" + files;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

// NVIDIA's driver compiles the PTX when a session is made. Here the toolkit's assembler checks it.
TEST(SmallKernels, PtxAssembles) {
  const char* const ptxas = "/usr/local/cuda/bin/ptxas";
  if (!std::filesystem::exists(ptxas)) GTEST_SKIP() << "there is no " << ptxas;
  const TemporaryFolder folder;
  int number = 0;
  for (const Made& made : AllMade()) {
    for (const std::string target : {"sm_80", "sm_90", "sm_90a"}) {
      if (!IsTaken(number++, HowMany("RONDO_COMPILED_EACH", 3))) continue;
      std::string text = made.carried;
      if (target != "sm_80") cuda::MakeWait(text.data());
      std::ofstream(folder.File("kernels.ptx")) << text;
      const std::string command = std::string(ptxas) + " -arch=" + target + " " + folder.File("kernels.ptx") +
                                  " -o " + folder.File("kernels.cubin") + " 2>&1";
      std::string said;
      FILE* const pipe = popen(command.c_str(), "r");
      ASSERT_NE(pipe, nullptr);
      for (char line[512]; std::fgets(line, sizeof(line), pipe) != nullptr;) said += line;
      EXPECT_EQ(pclose(pipe), 0) << made.file << " for " << target << ": " << said;
    }
  }
}

}  // namespace
}  // namespace rondo
