// OpRegistry: libraries opened, what they register validated and copied.
#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "core/custom_op.h"

namespace rondo {
namespace {

constexpr uint32_t kAbi = uint32_t{RONDO_OP_ABI_MAJOR} << 16 | RONDO_OP_ABI_MINOR;
constexpr uint32_t kKnownFlags = RONDO_OP_NO_GRAPH | RONDO_OP_SIDE_EFFECTS;

std::string_view Text(const char* text) { return text == nullptr ? "" : text; }

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

Status Wrong(const char* format, ...) __attribute__((format(printf, 1, 2)));
Status Wrong(const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status = Status::ErrorV(Code::kInvalidArgument, format, args);
  va_end(args);
  return status;
}

Status NoMemory() { return Status::Error(Code::kOutOfMemory, "no host memory for a library of ops"); }

// What a library of an older release says, with zeros for what it did not know; one of a newer release must
// have said no more than this one knows.
Status FullOp(const rondo_op& given, rondo_op* out) {
  constexpr size_t kLeast = offsetof(rondo_op, user) + sizeof(given.user);  // of 1.0
  if (given.size < kLeast) {
    return Wrong("its size is %zu; set it to sizeof(rondo_op), which is %zu", given.size, sizeof(rondo_op));
  }
  *out = {};
  std::memcpy(out, &given, given.size < sizeof(*out) ? given.size : sizeof(*out));
  const char* bytes = reinterpret_cast<const char*>(&given);
  for (size_t i = sizeof(*out); i < given.size; ++i) {
    if (bytes[i] == 0) continue;
    return Status::Error(Code::kUnsupported, "it uses a field of rondo_op that this release of Rondo lacks");
  }
  return Status::Ok();
}

Status CheckCounts(const rondo_op& op) {
  if (op.max_inputs > RONDO_OP_MAX_ARGUMENTS || op.max_outputs > RONDO_OP_MAX_ARGUMENTS) {
    return Wrong("%u inputs and %u outputs at most; an op has up to %d of each", op.max_inputs,
                 op.max_outputs, RONDO_OP_MAX_ARGUMENTS);
  }
  if (op.min_inputs > op.max_inputs || op.min_outputs > op.max_outputs || op.min_outputs == 0) {
    return Wrong("%u to %u inputs and %u to %u outputs make no range (an op has at least 1 output)",
                 op.min_inputs, op.max_inputs, op.min_outputs, op.max_outputs);
  }
  return Status::Ok();
}

// A mutated input has one output that is its new version, an alias names an input, no input is two outputs'.
Status CheckAliases(const rondo_op& op) {
  for (uint32_t i = 0; op.input_flags != nullptr && i < op.max_inputs; ++i) {
    if ((op.input_flags[i] & ~RONDO_OP_MUTATED) != 0) {
      return Status::Error(Code::kUnsupported, "input %u has flags 0x%x, which this release of Rondo lacks",
                           i, op.input_flags[i]);
    }
  }
  uint32_t aliased[RONDO_OP_MAX_ARGUMENTS] = {};
  for (uint32_t i = 0; op.output_aliases != nullptr && i < op.max_outputs; ++i) {
    const int32_t alias = op.output_aliases[i];
    if (alias == -1) continue;
    if (alias < 0 || static_cast<uint32_t>(alias) >= op.max_inputs) {
      return Wrong("output %u aliases input %d of %u", i, alias, op.max_inputs);
    }
    if (static_cast<uint32_t>(alias) >= op.min_inputs) {
      return Wrong("output %u aliases input %d, which a node may leave out", i, alias);
    }
    if (++aliased[alias] > 1) return Wrong("input %d is aliased by two outputs", alias);
  }
  for (uint32_t i = 0; op.input_flags != nullptr && i < op.max_inputs; ++i) {
    if ((op.input_flags[i] & RONDO_OP_MUTATED) == 0 || aliased[i] == 1) continue;
    return Wrong("input %u is mutated, but no output aliases it: its new version needs a name", i);
  }
  return Status::Ok();
}

Status CheckOp(const rondo_op& op) {
  if (Text(op.name).empty()) return Wrong("it has no name");
  if (Text(op.domain).empty()) return Wrong("it has no domain (\"\" is ONNX's own)");
  if (op.since_version == 0) return Wrong("since_version is 0; versions begin at 1");
  if ((op.flags & ~kKnownFlags) != 0) {
    return Status::Error(Code::kUnsupported, "it has flags 0x%x, which this release of Rondo lacks",
                         op.flags);
  }
  const bool no_graph = (op.flags & RONDO_OP_NO_GRAPH) != 0;
  if (no_graph && Text(op.no_graph_reason).empty()) {
    return Wrong("no graph may contain it, but no_graph_reason does not say why");
  }
  if (!no_graph && op.no_graph_reason != nullptr) {
    return Wrong("it gives a no_graph_reason without RONDO_OP_NO_GRAPH");
  }
  if (op.infer == nullptr || (op.run == nullptr && op.enqueue == nullptr)) {
    return Wrong("it has no %s function", op.infer == nullptr ? "infer" : "run");
  }
  RONDO_RETURN_IF_ERROR(CheckCounts(op));
  return CheckAliases(op);
}

Status AtOp(const Status& status, const rondo_op& op) {
  return status.At("op \"%s.%s\"", Text(op.domain).data(), Text(op.name).data());
}

}  // namespace

// What is known while one library registers its ops.
struct OpRegistry::Adding {
  const OpRegistry* registry = nullptr;
  Arena* arena = nullptr;
  std::string_view library;
  OpInfo* first = nullptr;
  Status status;
};

OpRegistry::~OpRegistry() {
  for (Library* library = libraries_; library != nullptr; library = library->next) dlclose(library->handle);
}

const OpInfo* OpRegistry::FindExact(std::string_view domain, std::string_view name, uint32_t version) const {
  const OpInfo* info = Find(domain, name, version);
  return info != nullptr && info->op.since_version == version ? info : nullptr;
}

const OpInfo* OpRegistry::Find(std::string_view domain, std::string_view name, uint32_t version) const {
  const OpInfo* best = nullptr;
  for (const OpInfo* info = ops_; info != nullptr; info = info->next) {
    if (info->op.domain != domain || info->op.name != name || info->op.since_version > version) continue;
    if (best == nullptr || info->op.since_version > best->op.since_version) best = info;
  }
  return best;
}

Status OpRegistry::CheckNew(const rondo_op& op, const OpInfo* added) const {
  for (const OpInfo* list : {ops_, added}) {
    for (const OpInfo* info = list; info != nullptr; info = info->next) {
      if (std::strcmp(info->op.domain, op.domain) != 0 || std::strcmp(info->op.name, op.name) != 0 ||
          info->op.since_version != op.since_version) {
        continue;
      }
      return Wrong("version %u of it has been registered before, by %.*s", op.since_version,
                   static_cast<int>(info->library.size()), info->library.data());
    }
  }
  return Status::Ok();
}

Status OpRegistry::Take(const rondo_op& given, Adding* adding) const {
  rondo_op op;
  RONDO_RETURN_IF_ERROR(FullOp(given, &op));
  RONDO_RETURN_IF_ERROR(AtOp(CheckOp(op), op));
  RONDO_RETURN_IF_ERROR(AtOp(CheckNew(op, adding->first), op));
  Span<OpInfo> info = adding->arena->New<OpInfo>(1);
  const std::string_view domain = adding->arena->CopyText(op.domain), name = adding->arena->CopyText(op.name);
  const std::string_view reason = adding->arena->CopyText(Text(op.no_graph_reason));
  if (info.data() == nullptr || domain.data() == nullptr || name.data() == nullptr ||
      reason.data() == nullptr) {
    return NoMemory();
  }
  op.domain = domain.data();
  op.name = name.data();
  op.no_graph_reason = reason.data();
  if (op.input_flags != nullptr) {
    op.input_flags = adding->arena->Copy(Span<const uint32_t>(op.input_flags, op.max_inputs)).data();
    if (op.input_flags == nullptr) return NoMemory();
  }
  if (op.output_aliases != nullptr) {
    op.output_aliases = adding->arena->Copy(Span<const int32_t>(op.output_aliases, op.max_outputs)).data();
    if (op.output_aliases == nullptr) return NoMemory();
  }
  info[0] = {op, adding->library, adding->first};
  adding->first = &info[0];
  return Status::Ok();
}

int32_t OpRegistry::Add(void* context, const rondo_op* op) {
  Adding* adding = static_cast<Adding*>(context);
  if (!adding->status.ok()) return 1;
  adding->status = op == nullptr ? Wrong("it registers a null op") : adding->registry->Take(*op, adding);
  return adding->status.ok() ? 0 : 1;
}

Status OpRegistry::Register(std::string_view library, rondo_register_ops_function function) {
  Adding adding;
  adding.registry = this;
  adding.arena = &arena_;
  adding.library = arena_.CopyText(library);
  if (adding.library.data() == nullptr) return NoMemory();
  rondo_op_registrar registrar = {};
  registrar.size = sizeof(registrar);
  registrar.abi = kAbi;
  registrar.context = &adding;
  registrar.add = &OpRegistry::Add;
  const int32_t result = function(&registrar);
  if (!adding.status.ok()) return adding.status.At("ops of %s", adding.library.data());
  if (result != 0)
    return Wrong("ops of %s: its rondo_register_ops returned %d", adding.library.data(), result);
  if (adding.first == nullptr) return Wrong("ops of %s: it registers none", adding.library.data());
  OpInfo* last = adding.first;
  while (last->next != nullptr) last = const_cast<OpInfo*>(last->next);
  last->next = ops_;
  ops_ = adding.first;
  return Status::Ok();
}

Status OpRegistry::Load(const char* path) {
  // dlopen looks for names without a folder elsewhere than in the current one.
  Arena scratch;
  const std::string_view given = Text(path);
  const size_t dot = given.find('/') == std::string_view::npos ? 2 : 0;
  char* file = static_cast<char*>(scratch.Allocate(given.size() + dot + 1, 1));
  if (file == nullptr) return NoMemory();
  std::memcpy(file, "./", dot);
  std::memcpy(file + dot, given.data(), given.size());
  file[dot + given.size()] = '\0';

  struct stat there = {};
  if (stat(file, &there) == 0 && !S_ISREG(there.st_mode))  // dlopen would wait for a FIFO's writer
    return Status::Error(Code::kIo, "library of ops %s is not a regular file", path);
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    const bool missing = why != nullptr && std::strstr(why, "No such file") != nullptr;
    return Status::Error(missing ? Code::kNotFound : Code::kIo, "library of ops %s cannot be opened: %s",
                         path, why == nullptr ? "unknown error" : why);
  }
  auto abi = reinterpret_cast<uint32_t (*)()>(dlsym(handle, "rondo_op_abi"));
  auto function = reinterpret_cast<rondo_register_ops_function>(dlsym(handle, "rondo_register_ops"));
  Status status;
  if (abi == nullptr || function == nullptr) {
    status = Status::Error(
        Code::kUnsupported, "%s is no library of ops: it does not export %s", path,
        abi == nullptr ? "rondo_op_abi (RONDO_OP_LIBRARY of rondo_op.h)" : "rondo_register_ops");
  } else if (const uint32_t built = abi(); built >> 16 != RONDO_OP_ABI_MAJOR) {
    status = Status::Error(
        Code::kUnsupported,
        "library of ops %s was built for version %u.%u of rondo_op.h, and this release of Rondo "
        "takes version %d.x: build it again with this release's header",
        path, built >> 16, built & 0xffff, RONDO_OP_ABI_MAJOR);
  } else {
    status = Register(BaseName(path), function);
  }
  Span<Library> library = arena_.New<Library>(1);
  if (status.ok() && library.data() == nullptr) status = NoMemory();
  if (!status.ok()) {
    dlclose(handle);
    return status;
  }
  library[0] = {handle, libraries_};
  libraries_ = &library[0];
  return Status::Ok();
}

}  // namespace rondo
