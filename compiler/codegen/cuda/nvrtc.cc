#include "compiler/codegen/cuda/nvrtc.h"

#include <dlfcn.h>

#include <filesystem>
#include <sstream>

namespace rondo {

// The NVRTC functions used, as nvrtc.h of CUDA 12 and 13 declares them.
struct Nvrtc::Functions {
  using Program = struct NvrtcProgram*;
  int (*version)(int* major, int* minor);
  int (*create)(Program*, const char* text, const char* name, int headers, const char* const* texts,
                const char* const* names);
  int (*compile)(Program, int options, const char* const*);
  int (*destroy)(Program*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*code_size)(Program, size_t*);
  int (*code)(Program, char*);
  int (*text_size)(Program, size_t*);
  int (*text)(Program, char*);
  const char* (*error)(int);
};

namespace {

std::vector<std::string> Options(const std::string& architecture) {
  return {"--gpu-architecture=" + architecture, "--std=c++20", "--fmad=false"};
}

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
      std::error_code ignored;
      const bool named = !place.empty();  // dlopen would wait on a FIFO of that name
      if (named && !std::filesystem::is_regular_file(place + name, ignored)) continue;
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

bool FindAll(void* library, Nvrtc::Functions* n) {
  return Find(library, "nvrtcVersion", &n->version) && Find(library, "nvrtcCreateProgram", &n->create) &&
         Find(library, "nvrtcCompileProgram", &n->compile) &&
         Find(library, "nvrtcDestroyProgram", &n->destroy) &&
         Find(library, "nvrtcGetProgramLogSize", &n->log_size) &&
         Find(library, "nvrtcGetProgramLog", &n->log) && Find(library, "nvrtcGetCUBINSize", &n->code_size) &&
         Find(library, "nvrtcGetCUBIN", &n->code) && Find(library, "nvrtcGetPTXSize", &n->text_size) &&
         Find(library, "nvrtcGetPTX", &n->text) && Find(library, "nvrtcGetErrorString", &n->error);
}

// Headers in the form that NVRTC takes.
class NamedTexts {
 public:
  explicit NamedTexts(Span<const DeviceHeader> headers) {
    for (const DeviceHeader& header : headers) {
      words_.emplace_back(header.text);
      words_.emplace_back(header.name);
    }
    for (size_t k = 0; k < words_.size(); k += 2) {
      texts_.push_back(words_[k].c_str());
      names_.push_back(words_[k + 1].c_str());
    }
  }
  int size() const { return static_cast<int>(texts_.size()); }
  const char* const* texts() const { return texts_.data(); }
  const char* const* names() const { return names_.data(); }

 private:
  std::vector<std::string> words_;  // zero-terminated: text and name of each
  std::vector<const char*> texts_, names_;
};

std::string LogOf(const Nvrtc::Functions& n, Nvrtc::Functions::Program program) {
  size_t size = 0;
  n.log_size(program, &size);
  std::string log(size, ' ');
  n.log(program, log.data());
  return log;
}

}  // namespace

Result<Nvrtc> Nvrtc::Open(const std::string& library_path) {
  std::string tried;
  void* library = OpenLibrary(library_path, &tried);
  if (library == nullptr) {
    return Status::Error(Code::kUnsupported,
                         "compiling for CUDA needs libnvrtc (CUDA 12 or 13), which is in none of: %s",
                         tried.c_str());
  }
  static Functions functions;  // a process has one libnvrtc: the first that was opened
  static const bool all = FindAll(library, &functions);
  if (!all)
    return Status::Error(Code::kUnsupported, "the libnvrtc found lacks a function: CUDA 12 or 13 is needed");
  return Nvrtc(&functions);
}

std::string Nvrtc::Signature(const std::string& architecture) const {
  int major = 0, minor = 0;
  functions_->version(&major, &minor);
  std::string text = "nvrtc " + std::to_string(major) + "." + std::to_string(minor);
  for (const std::string& option : Options(architecture)) text += " " + option;
  return text;
}

Result<std::vector<uint8_t>> Nvrtc::Compile(const std::string& text, Span<const DeviceHeader> headers,
                                            const std::string& architecture) const {
  const Functions& n = *functions_;
  Functions::Program program = nullptr;
  const NamedTexts named(headers);
  if (int error = n.create(&program, text.c_str(), "rondo.cu", named.size(), named.texts(), named.names());
      error != 0) {
    return Status::Error(Code::kInternal, "nvrtcCreateProgram: %s", n.error(error));
  }
  const std::vector<std::string> options = Options(architecture);
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  Status status;
  std::vector<uint8_t> code;
  if (int error = n.compile(program, static_cast<int>(words.size()), words.data()); error != 0) {
    status = Status::Error(Code::kInternal, "compiling generated CUDA text for %s: %s: %.2000s",
                           architecture.c_str(), n.error(error), LogOf(n, program).c_str());
  } else {
    // Virtual architectures give PTX; its size includes the final zero.
    const bool ptx = architecture.compare(0, 8, "compute_") == 0;
    size_t size = 0;
    error = (ptx ? n.text_size : n.code_size)(program, &size);
    if (error == 0 && size > 0) {
      code.resize(size);
      error = (ptx ? n.text : n.code)(program, reinterpret_cast<char*>(code.data()));
    }
    if (error != 0 || size == 0) {
      status =
          Status::Error(Code::kInternal, "no machine code for %s: %s", architecture.c_str(), n.error(error));
    }
  }
  n.destroy(&program);
  if (!status.ok()) return status;
  return code;
}

Result<std::vector<uint8_t>> CompileCuda(const std::string& text, const std::string& architecture,
                                         const std::string& library_path) {
  RONDO_ASSIGN_OR_RETURN(Nvrtc nvrtc, Nvrtc::Open(library_path));
  return nvrtc.Compile(text, ReachedHeaders(text, DeviceHeaders()), architecture);
}

}  // namespace rondo
