#include "formats/tensor/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/element.h"
#include "core/files.h"
#include "formats/tensor/npy.h"
#include "formats/tensor/tensor_proto.h"

namespace rondo {
namespace {

bool EndsWith(const std::string& text, const char* suffix) {
  const size_t n = std::strlen(suffix);
  return text.size() >= n && text.compare(text.size() - n, n, suffix) == 0;
}

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

Status BadExtension(const std::string& path) {
  return Status::Error(Code::kInvalidArgument, "%s: a tensor file ends in .npy or .pb", path.c_str());
}

}  // namespace

Result<int64_t> CheckedBytes(DType dtype, const std::vector<int64_t>& dims, Shape* shape) {
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return Status::Error(Code::kCorrupt, "a tensor of %zu dimensions exceeds the limit of %d", dims.size(),
                         kMaxRank);
  }
  *shape = Shape();
  int64_t bytes = ByteSize(dtype);
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0) {
      return Status::Error(Code::kCorrupt, "dimension %d is negative: %lld", shape->rank,
                           static_cast<long long>(d));
    }
    shape->dims[shape->rank++] = d;
    if (d == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(bytes, d, &bytes)) {
      return Status::Error(Code::kCorrupt, "the dimensions' product exceeds 2^63 bytes at dimension %d",
                           shape->rank - 1);
    }
  }
  return empty ? 0 : bytes;
}

double ElementAsDouble(const Tensor& tensor, int64_t index) {
  const uint8_t* at = tensor.bytes.data() + index * ByteSize(tensor.dtype);
  return WithElement(tensor.dtype, [&](auto element) {
    using E = decltype(element);
    const auto stored = Load<typename E::Stored>(at);
    // Widening wraps u64.
    if constexpr (E::kType == DType::kU64) {
      return static_cast<double>(stored);
    } else {
      return static_cast<double>(E::Widen(stored));
    }
  });
}

Result<Comparison> Compare(const Tensor& got, const Tensor& want, double rtol, double atol) {
  char a[128], b[128];
  if (got.dtype != want.dtype || !(got.shape == want.shape)) {
    return Status::Error(Code::kInvalidArgument, "got %s%s where %s%s was expected", Name(got.dtype),
                         Format(got.shape, a, sizeof(a)), Name(want.dtype), Format(want.shape, b, sizeof(b)));
  }
  Comparison result;
  double worst = -std::numeric_limits<double>::infinity();
  const int64_t count = want.shape.elements();
  const bool exact = !IsFloat(got.dtype);
  for (int64_t i = 0; i < count; ++i) {
    const double g = ElementAsDouble(got, i), w = ElementAsDouble(want, i);
    if ((std::isnan(g) && std::isnan(w)) || g == w) {
      // The values are equal as doubles; 64-bit integers beyond 2^53 are compared by their bytes.
      const int64_t size = ByteSize(got.dtype);
      const bool same = !exact || got.dtype == DType::kBool ||
                        std::memcmp(got.bytes.data() + i * size, want.bytes.data() + i * size,
                                    static_cast<size_t>(size)) == 0;
      if (same) continue;
    }
    double error = std::fabs(g - w);
    if (g == w) error = 1;  // integers that differ by less than a double's precision
    if (!std::isfinite(g) || !std::isfinite(w)) error = std::numeric_limits<double>::infinity();
    const double excess = error - (atol + rtol * std::fabs(std::isfinite(w) ? w : 0));
    result.greatest_error = std::max(result.greatest_error, error);
    if (excess > 0) ++result.mismatches;
    if (excess > worst) {
      worst = excess;
      result.at = i;
      result.got = g;
      result.want = w;
    }
  }
  return result;
}

namespace {

bool IsTensorProto(Span<const uint8_t> bytes) {
  return ParseTensorProto(std::vector<uint8_t>(bytes.begin(), bytes.end())).ok();
}

constexpr FileKind kNpy = {"a .npy file", "\x93NUMPY"};
constexpr FileKind kTensorProto = {"a TensorProto", {}, IsTensorProto};

}  // namespace

Result<Tensor> ReadTensor(const std::string& path) {
  const bool npy = EndsWith(path, ".npy");
  if (!npy && !EndsWith(path, ".pb")) return BadExtension(path);
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, ReadInputFile(path));
  Result<Tensor> tensor = npy ? ParseNpy(bytes) : ParseTensorProto(bytes);
  if (!tensor.ok()) return tensor.status().At("%s", path.c_str());
  return tensor;
}

Status WriteTensor(const Tensor& tensor, const std::string& path) {
  const bool npy = EndsWith(path, ".npy");
  if (!npy && !EndsWith(path, ".pb")) return BadExtension(path);
  const std::string bytes = npy ? SerializeNpy(tensor) : SerializeTensorProto(tensor);
  return ReplaceFile(path, npy ? kNpy : kTensorProto, bytes.data(), bytes.size());
}

}  // namespace rondo
