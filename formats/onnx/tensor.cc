#include "formats/onnx/tensor.h"

#include <cstring>

#include "core/element.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::onnx {
namespace {

constexpr int kOnnxOf[kNumDTypes] = {
    TensorProto::FLOAT, TensorProto::FLOAT16,      TensorProto::BFLOAT16,   TensorProto::DOUBLE,
    TensorProto::INT64, TensorProto::INT32,        TensorProto::INT16,      TensorProto::INT8,
    TensorProto::UINT8, TensorProto::UINT16,       TensorProto::UINT32,     TensorProto::UINT64,
    TensorProto::BOOL,  TensorProto::FLOAT8E4M3FN, TensorProto::FLOAT8E5M2,
};

template <typename To, typename Field>
void Narrow(const Field& field, std::vector<uint8_t>* out) {
  out->resize(sizeof(To) * static_cast<size_t>(field.size()));
  for (int i = 0; i < field.size(); ++i) {
    To value = static_cast<To>(field.Get(i));
    std::memcpy(out->data() + sizeof(To) * static_cast<size_t>(i), &value, sizeof(To));
  }
}

// Elements from the field that ONNX assigns to each type.
void FromTypedField(const TensorProto& tensor, DType dtype, std::vector<uint8_t>* out) {
  WithElement(dtype, [&](auto element) {
    using E = decltype(element);
    if constexpr (E::kType == DType::kF32) {
      Narrow<float>(tensor.float_data(), out);
    } else if constexpr (E::kType == DType::kF64) {
      Narrow<double>(tensor.double_data(), out);
    } else if constexpr (E::kType == DType::kI64) {
      Narrow<int64_t>(tensor.int64_data(), out);
    } else if constexpr (E::kType == DType::kU64 || E::kType == DType::kU32) {
      Narrow<typename E::Stored>(tensor.uint64_data(), out);
    } else if constexpr (E::kType == DType::kBool) {
      Narrow<bool>(tensor.int32_data(), out);
    } else {
      Narrow<typename E::Stored>(tensor.int32_data(), out);
    }
  });
}

}  // namespace

const char* DataTypeName(int data_type) {
  static constexpr const char* kNames[] = {
      "UNDEFINED",      "FLOAT",    "UINT8",        "INT8",           "UINT16",
      "INT16",          "INT32",    "INT64",        "STRING",         "BOOL",
      "FLOAT16",        "DOUBLE",   "UINT32",       "UINT64",         "COMPLEX64",
      "COMPLEX128",     "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
      "FLOAT8E5M2FNUZ", "UINT4",    "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0",
      "UINT2",          "INT2"};
  if (data_type < 0 || data_type >= static_cast<int>(std::size(kNames))) return "unknown type";
  return kNames[data_type];
}

namespace {
Status Unsupported(int data_type) {
  return Status::Error(Code::kUnsupported,
                       "element type %s (%d) is not supported here: cast it to another before the export",
                       DataTypeName(data_type), data_type);
}
}  // namespace

Result<DType> DTypeOf(int data_type) {
  Result<DType> type = StoredTypeOf(data_type);
  if (type.ok() && IsFp8(*type)) return Unsupported(data_type);
  return type;
}

Result<DType> StoredTypeOf(int data_type) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kOnnxOf[i] == data_type) return static_cast<DType>(i);
  }
  return Unsupported(data_type);
}

int CodeBits(int data_type) {
  constexpr int kUint2 = 25, kInt2 = 26;  // newer than this onnx.proto
  switch (data_type) {
    case TensorProto::FLOAT8E4M3FNUZ:
    case TensorProto::FLOAT8E5M2FNUZ:
    case TensorProto::FLOAT8E8M0: return 8;
    case TensorProto::FLOAT4E2M1:
    case TensorProto::UINT4:
    case TensorProto::INT4: return 4;
    case kUint2:
    case kInt2: return 2;
    default: return 0;
  }
}

Result<PortType> PortTypeOf(int data_type, const Shape& shape) {
  const int bits = CodeBits(data_type);
  if (bits == 8) return PortType{DType::kU8, shape};
  if (bits != 0) return PortType{DType::kU8, {(shape.elements() * bits + 7) / 8}};
  RONDO_ASSIGN_OR_RETURN(const DType dtype, StoredTypeOf(data_type));
  return PortType{dtype, shape};
}

int DataTypeOf(DType dtype) { return kOnnxOf[static_cast<int>(dtype)]; }

Result<Shape> ShapeOf(const TensorProto& tensor, DType dtype) {
  if (tensor.dims_size() > kMaxRank) {
    return Status::Error(Code::kUnsupported, "tensor \"%.200s\" has %d dimensions; the limit is %d",
                         tensor.name().c_str(), tensor.dims_size(), kMaxRank);
  }
  Shape shape;
  int64_t bytes = ByteSize(dtype);
  for (int64_t d : tensor.dims()) {
    if (d < 0 || __builtin_mul_overflow(bytes, d == 0 ? 1 : d, &bytes) || bytes >= int64_t{1} << 62) {
      return Status::Error(Code::kCorrupt, "tensor \"%.200s\" has an impossible extent of %lld",
                           tensor.name().c_str(), static_cast<long long>(d));
    }
    shape.dims[shape.rank++] = d;
  }
  return shape;
}

Result<Span<const uint8_t>> InlineBytes(const TensorProto& tensor, DType dtype, const Shape& shape,
                                        std::vector<uint8_t>* storage) {
  if (tensor.data_location() == TensorProto::EXTERNAL || tensor.has_segment()) {
    return Status::Error(Code::kUnsupported, "tensor \"%.200s\" keeps its data %s", tensor.name().c_str(),
                         tensor.has_segment() ? "in segments" : "in an external file");
  }
  Span<const uint8_t> bytes;
  if (tensor.has_raw_data()) {
    const std::string& raw = tensor.raw_data();
    bytes = {reinterpret_cast<const uint8_t*>(raw.data()), raw.size()};
  } else {
    FromTypedField(tensor, dtype, storage);
    bytes = {storage->data(), storage->size()};
  }
  uint64_t expected = static_cast<uint64_t>(shape.elements() * ByteSize(dtype));
  if (bytes.size() != expected) {
    return Status::Error(Code::kCorrupt, "tensor \"%.200s\" holds %zu bytes; its shape and type need %llu",
                         tensor.name().c_str(), bytes.size(), static_cast<unsigned long long>(expected));
  }
  bool copy = reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(ByteSize(dtype)) != 0;
  if (dtype == DType::kBool) {
    for (uint8_t b : bytes) copy |= b > 1;
  }
  if (copy && bytes.data() != storage->data()) {
    storage->assign(bytes.begin(), bytes.end());
    bytes = {storage->data(), storage->size()};
  }
  if (dtype == DType::kBool && copy) {
    for (uint8_t& b : *storage) b = b != 0;
  }
  return bytes;
}

}  // namespace rondo::onnx
