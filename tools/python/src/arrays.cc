#include "tools/python/src/arrays.h"

#include <nanobind/stl/string.h>

#include <cstdlib>

namespace rondo::python {
namespace {

// An alignment in bytes that suits every plan (rondo_memory).
constexpr size_t kAlignment = 256;

[[noreturn]] void Refuse(const Port& port, bool output, const std::string& why) {
  Raise(kInvalidArgument, (output ? "output \"" : "input \"") + port.name + "\"" + why);
}

std::string DeviceText(int type, int id) {
  const bool gpu = type == nb::device::cuda::value;
  return gpu ? "cuda:" + std::to_string(id) : "a device of DLPack's type " + std::to_string(type);
}

// Whether the CPU can read the memory; page-locked and managed memory count.
bool IsHost(int device_type) {
  return device_type == nb::device::cpu::value || device_type == nb::device::cuda_host::value ||
         device_type == nb::device::cuda_managed::value;
}

// numpy cannot export arrays of ml_dtypes' types. For these the bits are exported, and the type comes from
// its name.
const ElementType* TypeByName(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view")) return nullptr;
  const nb::object dtype = object.attr("dtype");
  if (!nb::hasattr(dtype, "name")) return nullptr;
  const ElementType* type = FindType(StringOf(nb::object(dtype.attr("name"))));
  return type != nullptr && type->in_numpy() ? nullptr : type;
}

bool Import(nb::handle object, bool output, nb::ndarray<nb::ro>* to) {
  if (!output) return nb::try_cast(object, *to, false);
  nb::ndarray<> writable;
  if (!nb::try_cast(object, writable, false)) return false;
  *to = nb::ndarray<nb::ro>(writable);
  return true;
}

// By DLPack's rules the producer orders its work before the stream that it is given.
nb::object CapsuleOf(nb::handle object, const Port& port, bool output, int gpu, Gpus* gpus) {
  std::string error;
  const uintptr_t stream = gpus->Stream(gpu, &error);
  if (stream == 0) Refuse(port, output, ": " + error);
  try {
    return object.attr("__dlpack__")(nb::arg("stream") = stream);
  } catch (const nb::python_error& raised) {
    Refuse(port, output, " cannot be taken: " + StringOf(raised.value()));
  }
}

void TakeGpuArray(nb::handle object, const Port& port, bool output, const Place& place, int gpu,
                  Array* array) {
  if (place.gpus == nullptr) {
    Refuse(port, output,
           " lies on " + DeviceText(nb::device::cuda::value, gpu) +
               ", but the session runs on the host: give an array in the host's memory");
  }
  if (gpu != place.GpuOf(port)) {
    Refuse(port, output,
           " lies on cuda:" + std::to_string(gpu) +
               ", but must lie on cuda:" + std::to_string(place.GpuOf(port)) + " or in the host's memory");
  }
  const nb::object capsule = CapsuleOf(object, port, output, gpu, place.gpus);
  if (!Import(capsule, output, &array->held)) Refuse(port, output, " cannot be written: it is read-only");
  array->memory = RONDO_DEVICE_MEMORY;
  array->gpu = gpu;
}

void CheckDense(const Array& array, const Port& port, bool output) {
  if (array.held.size() <= 1) return;
  int64_t dense = 1;
  for (size_t i = array.held.ndim(); i-- > 0;) {
    const auto dim = static_cast<int64_t>(array.held.shape(i));
    if (dim != 1 && array.held.stride(i) != dense) {
      Refuse(port, output,
             " is not contiguous: " +
                 std::string(output ? "give a dense, row-major array"
                                    : "give numpy.ascontiguousarray(x), or x.contiguous()"));
    }
    dense *= dim;
  }
}

// Whether a run on the host uses the caller's array without a copy. Integers are copied, because an index
// must not change between its check and its use. Inputs that the run may write are copied too.
bool IsUsedInPlace(const ElementType& type, const Port& port, bool output) {
  if (output) return true;
  switch (type.dtype) {
    case RONDO_F32:
    case RONDO_F16:
    case RONDO_BF16:
    case RONDO_F64:
    case RONDO_E4M3:
    case RONDO_E5M2: return !port.given_away;
    default: return false;
  }
}

// Refuses an object that gives no usable array, with the reason that it raises.
[[noreturn]] void RefuseObject(nb::handle object, const Port& port, bool output) {
  if (!nb::hasattr(object, "__dlpack__")) {
    Refuse(port, output,
           " is a " + TypeName(object) + ": give a numpy array, or one with __dlpack__ (torch, cupy, jax)");
  }
  std::string why = "its __dlpack__ gives none";
  try {
    object.attr("__dlpack__")();
    if (nb::ndarray<nb::ro> held; output && nb::try_cast(object, held, false)) why = "it is read-only";
  } catch (const nb::python_error& raised) {
    why = StringOf(raised.value());
  }
  const std::string type =
      nb::hasattr(object, "dtype") ? StringOf(nb::object(object.attr("dtype"))) : "unknown";
  Refuse(port, output,
         " of elements " + type + " is no array that can be " + (output ? "written: " : "read: ") + why);
}

void TakeHostArray(nb::handle object, const Port& port, bool output, const Place& place, Array* array) {
  if (!Import(object, output, &array->held)) {
    array->type = TypeByName(object);
    if (array->type == nullptr || !Import(object.attr("view")(array->type->bits), output, &array->held))
      RefuseObject(object, port, output);
  }
  if (array->type == nullptr) array->type = FindType(array->held.dtype());
  if (array->type != nullptr && place.gpus == nullptr && IsUsedInPlace(*array->type, port, output))
    array->memory = RONDO_DEVICE_MEMORY;
}

// The device by __dlpack_device__; the CPU for objects without it.
void FindDevice(nb::handle object, int* type, int* id) {
  *type = nb::device::cpu::value;
  *id = 0;
  if (!nb::hasattr(object, "__dlpack_device__")) return;
  const nb::object given = object.attr("__dlpack_device__")();
  nb::tuple device;
  if (!nb::try_cast(given, device) || device.size() != 2) {
    Raise(kInvalidArgument, "the __dlpack_device__ of a " + TypeName(object) + " gives " + StringOf(given) +
                                ": a device's type and number are needed");
  }
  *type = nb::cast<int>(nb::int_(nb::handle(device[0])));
  *id = nb::cast<int>(nb::int_(nb::handle(device[1])));
}

void* AllocateHost(uint64_t bytes) {
  void* block = nullptr;
  return posix_memalign(&block, kAlignment, bytes == 0 ? 1 : bytes) == 0 ? block : nullptr;
}

// An owner that frees the GPU's memory when the last array over it is gone. `gpus` lives as long as the
// process.
nb::object GpuOwner(Gpus* gpus, int gpu, uint64_t address) {
  struct Block {
    Gpus* gpus;
    int gpu;
    uint64_t address;
  };
  return nb::capsule(new Block{gpus, gpu, address}, [](void* block) noexcept {
    auto* owned = static_cast<Block*>(block);
    owned->gpus->Free(owned->gpu, owned->address);
    delete owned;
  });
}

// A numpy array. A type that numpy lacks becomes one of ml_dtypes, if that package is installed.
nb::object SeenOnHost(const nb::object& owner, void* data, const std::vector<size_t>& shape,
                      const ElementType& type) {
  if (type.in_numpy()) {
    return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr, type.dlpack));
  }
  nb::object extension;
  try {
    extension = nb::module_::import_("ml_dtypes").attr(type.name);
  } catch (nb::python_error&) {
    return nb::cast(
        nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner, nullptr, type.dlpack));
  }
  const nb::dlpack::dtype bits = FindType(std::string(type.bits))->dlpack;
  const nb::object plain =
      nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr, bits));
  return plain.attr("view")(extension);
}

}  // namespace

Tensor Array::TensorFor(const Port& port) const {
  const size_t bytes = held.size() * type->dlpack.bits / 8;
  return Tensor(port.name.c_str(), type->dtype, {held.shape_ptr(), held.ndim()},
                const_cast<void*>(held.data()), bytes, memory);
}

std::string Array::Text() const {
  std::string text = std::string(type->name) + "[";
  for (size_t i = 0; i < held.ndim(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(held.shape(i));
  return text + "]";
}

Array TakeArray(nb::handle object, const Port& port, bool output, const Place& place) {
  Array array;
  int device_type = 0, device = 0;
  FindDevice(object, &device_type, &device);
  if (device_type == nb::device::cuda::value) {
    TakeGpuArray(object, port, output || port.given_away, place, device, &array);
    array.type = FindType(array.held.dtype());
  } else if (IsHost(device_type)) {
    TakeHostArray(object, port, output, place, &array);
  } else {
    Refuse(port, output,
           " lies on " + DeviceText(device_type, device) + ": give an array in the host's memory");
  }
  if (array.type == nullptr) {
    Refuse(port, output, " has elements of " + NameOf(array.held.dtype()) + ", which Rondo does not have");
  }
  if (array.held.ndim() > RONDO_MAX_RANK) {
    Refuse(port, output,
           " has " + std::to_string(array.held.ndim()) + " dimensions: Rondo has at most " +
               std::to_string(RONDO_MAX_RANK));
  }
  CheckDense(array, port, output);
  return array;
}

NewArray MakeArray(const Port& port, bool on_device, const Place& place) {
  const ElementType& type = TypeOf(port.dtype);
  const std::vector<size_t> shape(port.shape.begin(), port.shape.end());
  NewArray made;
  nb::object owner;
  void* data = nullptr;
  const int kind = on_device ? nb::device::cuda::value : nb::device::cpu::value;
  const int gpu = on_device ? place.GpuOf(port) : 0;
  if (on_device) {
    const uint64_t address = place.gpus->Allocate(gpu, port.bytes);
    if (address != 0) owner = GpuOwner(place.gpus, gpu, address);
    data = reinterpret_cast<void*>(address);
  } else {
    data = AllocateHost(port.bytes);
    if (data != nullptr) owner = nb::capsule(data, [](void* block) noexcept { std::free(block); });
  }
  if (data == nullptr) {
    Raise(kOutOfMemory,
          "output \"" + port.name + "\": no memory for its " + std::to_string(port.bytes) + " bytes");
  }
  made.array.type = &type;
  made.array.held =
      nb::ndarray<nb::ro>(data, shape.size(), shape.data(), owner, nullptr, type.dlpack, kind, gpu, 'C');
  if (on_device || place.gpus == nullptr) made.array.memory = RONDO_DEVICE_MEMORY;
  made.seen = on_device ? nb::cast(nb::ndarray<nb::array_api>(data, shape.size(), shape.data(), owner,
                                                              nullptr, type.dlpack, kind, gpu, 'C'))
                        : SeenOnHost(owner, data, shape, type);
  return made;
}

}  // namespace rondo::python
