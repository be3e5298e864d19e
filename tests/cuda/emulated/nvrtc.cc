// A libnvrtc.so.13 that compiles CUDA C++ to a shared library for the CPU (translate.h), with the C++
// compiler that built Rondo, and returns an image with the library's path (compiled_kernels.h).
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tests/cuda/emulated/compiled_kernels.h"
#include "tests/cuda/emulated/simt.h"
#include "tests/cuda/emulated/translate.h"
#include "tests/cuda/make_cubin.h"

#define RONDO_NVRTC_API extern "C" __attribute__((visibility("default")))

namespace {

using rondo::emulated::KernelWords;

constexpr int kCompilation = 6, kInvalidOption = 5;

struct Program {
  std::string text, log;
  std::map<std::string, std::string> headers;
  std::vector<uint8_t> code;
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string NameOf(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return name;
}

// The shared library of a translated text, "" and a log if it does not compile. Processes that compile the
// same at once do so beside each other: the last that is done leaves its file.
std::string LibraryOf(const std::string& text, std::string* log) {
  const std::string command =
      "'" RONDO_EMULATED_COMPILER
      "' -std=c++20 -O1 -g0 -w -shared -fPIC -nostartfiles -ffp-contract=off -fno-strict-aliasing "
      "-fsanitize=alignment -fsanitize-undefined-trap-on-error "
      "-ftrivial-auto-var-init=pattern -fno-exceptions -fno-rtti -fvisibility=hidden "
      "-I'" RONDO_EMULATED_SOURCES "'";
  const std::string simt = ReadAll(RONDO_EMULATED_SOURCES "/tests/cuda/emulated/simt.h");
  const std::string path = RONDO_EMULATED_KERNELS "/" + NameOf(command + simt + text);
  const std::string library = path + ".so";
  std::error_code ignored;
  if (std::filesystem::exists(library, ignored)) return library;
  std::filesystem::create_directories(RONDO_EMULATED_KERNELS, ignored);
  const std::string own =
      path + "." + std::to_string(getpid()) + "." + std::to_string(reinterpret_cast<uintptr_t>(log));
  std::ofstream(own + ".cc") << text;
  const int status =
      std::system((command + " -o '" + own + ".so' '" + own + ".cc' 2> '" + own + ".log'").c_str());
  *log = ReadAll(own + ".log");
  std::filesystem::remove(own + ".log", ignored);
  if (status != 0) {
    std::filesystem::rename(own + ".cc", path + ".cc", ignored);
    *log += "\n(the translated text is " + path + ".cc)";
    return "";
  }
  if (std::getenv("RONDO_EMULATED_KEEP_TEXTS") != nullptr)
    std::filesystem::rename(own + ".cc", path + ".cc", ignored);
  else
    std::filesystem::remove(own + ".cc", ignored);
  std::filesystem::rename(own + ".so", library, ignored);
  return library;
}

bool MakeImage(const std::string& path, int architecture, const std::vector<KernelWords>& words,
               Program* program) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* library =
      handle == nullptr ? nullptr : static_cast<const simt::Library*>(dlsym(handle, "simt_library"));
  if (library == nullptr) {
    const char* why = dlerror();
    program->log = path + ": " + (why != nullptr ? why : "it has no kernels");
    return false;
  }
  std::vector<rondo::CubinFunction> functions;
  for (size_t k = 0; k < library->kernel_count; ++k) {
    const simt::KernelEntry& kernel = library->kernels[k];
    rondo::FunctionNeeds needs;
    needs.params.assign(kernel.param_bytes, kernel.param_bytes + kernel.param_count);
    needs.registers = 32;
    needs.shared = static_cast<uint32_t>(library->shared_bytes() - 128);  // without the bytes that align it
    needs.most_threads = words[k].most_threads;
    needs.cluster = words[k].cluster;
    functions.push_back({kernel.name, needs});
  }
  dlclose(handle);
  program->code = rondo::MakeCubin(architecture, functions);
  const std::string mark = rondo::emulated::kPathMark + path;
  program->code.insert(program->code.end(), mark.begin(), mark.end());
  program->code.push_back(0);
  return true;
}

}  // namespace

RONDO_NVRTC_API int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 999;  // a cache keeps these kernels apart from NVIDIA's
  return 0;
}
RONDO_NVRTC_API int nvrtcCreateProgram(Program** program, const char* text, const char*, int headers,
                                       const char* const* texts, const char* const* names) {
  *program = new Program;
  (*program)->text = text;
  for (int k = 0; k < headers; ++k) (*program)->headers[names[k]] = texts[k];
  return 0;
}
RONDO_NVRTC_API int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  int number = 0;
  bool specific = false;
  for (int k = 0; k < count; ++k) {
    constexpr char kArchitecture[] = "--gpu-architecture=sm_";
    if (std::strncmp(options[k], kArchitecture, sizeof kArchitecture - 1) != 0) continue;
    number = std::atoi(options[k] + sizeof kArchitecture - 1);
    specific = options[k][std::strlen(options[k]) - 1] == 'a';
  }
  if (number == 0) {
    program->log = "only sm_N and sm_Na are emulated";
    return kInvalidOption;
  }
  rondo::emulated::Translation translation;
  if (!rondo::emulated::Translate(program->text, program->headers, number, specific, &translation,
                                  &program->log))
    return kCompilation;
  const std::string path = LibraryOf(translation.text, &program->log);
  return !path.empty() && MakeImage(path, number, translation.kernels, program) ? 0 : kCompilation;
}
RONDO_NVRTC_API int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
RONDO_NVRTC_API int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}
RONDO_NVRTC_API int nvrtcGetProgramLog(Program* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}
RONDO_NVRTC_API int nvrtcGetCUBINSize(Program* program, size_t* size) {
  *size = program->code.size();
  return 0;
}
RONDO_NVRTC_API int nvrtcGetCUBIN(Program* program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return 0;
}
RONDO_NVRTC_API int nvrtcGetPTXSize(Program*, size_t* size) {
  *size = 0;
  return 0;
}
RONDO_NVRTC_API int nvrtcGetPTX(Program*, char*) { return kInvalidOption; }
RONDO_NVRTC_API const char* nvrtcGetErrorString(int error) {
  return error == kCompilation ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_INVALID_OPTION";
}
