#include "compiler/codegen/cuda/nvrtc.h"

#include <dlfcn.h>

#include <sstream>

namespace rondo {
namespace {

// The functions used, as nvrtc.h of CUDA 12 and 13 declares them.
using Program = struct NvrtcProgram*;
struct Nvrtc {
  int (*create)(Program*, const char* text, const char* name, int headers, const char* const*,
                const char* const*);
  int (*compile)(Program, int options, const char* const*);
  int (*destroy)(Program*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*code_size)(Program, size_t*);
  int (*code)(Program, char*);
  const char* (*error)(int);
};

void* OpenLibrary(const std::string& library_path, std::string* tried) {
  const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  std::stringstream folders(library_path);
  std::vector<std::string> places;
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty()) places.push_back(folder + "/");
  }
  places.push_back("");
  places.push_back("/usr/local/cuda/lib64/");
  for (const std::string& place : places) {
    for (const char* name : kNames) {
      if (void* library = dlopen((place + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    *tried += (tried->empty() ? "" : ", ") + (place.empty() ? std::string("the loader's path") : place);
  }
  return nullptr;
}

template <typename F>
bool Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

Result<Nvrtc> LoadNvrtc(const std::string& library_path) {
  std::string tried;
  void* library = OpenLibrary(library_path, &tried);
  if (library == nullptr) {
    return Status::Error(Code::kUnsupported,
                         "compiling for CUDA needs libnvrtc (CUDA 12 or 13), which is in none of: %s",
                         tried.c_str());
  }
  Nvrtc n;
  bool all =
      Find(library, "nvrtcCreateProgram", &n.create) && Find(library, "nvrtcCompileProgram", &n.compile) &&
      Find(library, "nvrtcDestroyProgram", &n.destroy) &&
      Find(library, "nvrtcGetProgramLogSize", &n.log_size) && Find(library, "nvrtcGetProgramLog", &n.log) &&
      Find(library, "nvrtcGetCUBINSize", &n.code_size) && Find(library, "nvrtcGetCUBIN", &n.code) &&
      Find(library, "nvrtcGetErrorString", &n.error);
  if (!all)
    return Status::Error(Code::kUnsupported, "the libnvrtc found lacks a function: CUDA 12 or 13 is needed");
  return n;
}

}  // namespace

Result<std::vector<uint8_t>> CompileCuda(const std::string& text, const std::string& architecture,
                                         const std::string& library_path) {
  RONDO_ASSIGN_OR_RETURN(Nvrtc nvrtc, LoadNvrtc(library_path));
  Program program = nullptr;
  if (int error = nvrtc.create(&program, text.c_str(), "rondo.cu", 0, nullptr, nullptr); error != 0) {
    return Status::Error(Code::kInternal, "nvrtcCreateProgram: %s", nvrtc.error(error));
  }
  std::string arch = "--gpu-architecture=" + architecture;
  const char* options[] = {arch.c_str(), "--std=c++17", "--fmad=false"};
  int error = nvrtc.compile(program, 3, options);
  Status status;
  std::vector<uint8_t> code;
  if (error != 0) {
    size_t size = 0;
    nvrtc.log_size(program, &size);
    std::string log(size, ' ');
    nvrtc.log(program, log.data());
    status = Status::Error(Code::kInternal, "compiling generated CUDA text for %s: %s: %.2000s",
                           architecture.c_str(), nvrtc.error(error), log.c_str());
  } else {
    size_t size = 0;
    error = nvrtc.code_size(program, &size);
    if (error == 0 && size > 0) {
      code.resize(size);
      error = nvrtc.code(program, reinterpret_cast<char*>(code.data()));
    }
    if (error != 0 || size == 0) {
      status = Status::Error(Code::kInternal, "no machine code for %s: %s", architecture.c_str(),
                             nvrtc.error(error));
    }
  }
  nvrtc.destroy(&program);
  if (!status.ok()) return status;
  return code;
}

}  // namespace rondo
