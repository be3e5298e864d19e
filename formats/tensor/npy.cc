#include "formats/tensor/npy.h"

#include <cctype>
#include <cstring>
#include <string_view>

namespace rondo {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;

struct NpyType {
  const char* text;
  DType dtype;
};
// The first row of a dtype is used for writing.
constexpr NpyType kTypes[] = {
    {"<f4", DType::kF32}, {"<f2", DType::kF16}, {"<f8", DType::kF64},  {"<i8", DType::kI64},
    {"<i4", DType::kI32}, {"<i2", DType::kI16}, {"|i1", DType::kI8},   {"|u1", DType::kU8},
    {"<u2", DType::kU16}, {"<u4", DType::kU32}, {"<u8", DType::kU64},  {"|b1", DType::kBool},
    {"<i1", DType::kI8},  {"<u1", DType::kU8},  {"<b1", DType::kBool},
};

// A type that numpy lacks is written as unsigned integers of its width.
const char* DescrOf(DType dtype) {
  for (const NpyType& type : kTypes) {
    if (type.dtype == dtype) return type.text;
  }
  return DescrOf(ByteSize(dtype) == 1 ? DType::kU8 : DType::kU16);
}

// Parses the header: a Python dictionary literal with exactly the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Status Parse(std::string* descr, bool* fortran, std::vector<int64_t>* dims) {
    bool have_descr = false, have_order = false, have_shape = false;
    if (!Eat('{')) return Bad("'{'");
    while (!Eat('}')) {
      std::string key;
      if (!Quoted(&key)) return Bad("a quoted key");
      if (!Eat(':')) return Bad("':'");
      if (key == "descr") {
        have_descr = true;
        if (!Quoted(descr)) {
          return Status::Error(Code::kUnsupported, "the npy header's descr is not one simple type");
        }
      } else if (key == "fortran_order") {
        have_order = true;
        if (Word("True")) {
          *fortran = true;
        } else if (Word("False")) {
          *fortran = false;
        } else {
          return Bad("True or False");
        }
      } else if (key == "shape") {
        have_shape = true;
        RONDO_RETURN_IF_ERROR(Tuple(dims));
      } else {
        return Status::Error(Code::kCorrupt, "the npy header has an unknown key '%.40s'", key.c_str());
      }
      if (!Eat(',') && Peek() != '}') return Bad("',' or '}'");
    }
    if (!have_descr || !have_order || !have_shape) {
      return Status::Error(Code::kCorrupt, "the npy header lacks %s",
                           !have_descr   ? "descr"
                           : !have_order ? "fortran_order"
                                         : "shape");
    }
    if (Peek() != 0) return Bad("its end");
    return Status::Ok();
  }

 private:
  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : 0;
  }
  bool Eat(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool Word(std::string_view word) {
    Peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool Quoted(std::string* out) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    *out = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return true;
  }
  Status Tuple(std::vector<int64_t>* dims) {
    if (!Eat('(')) return Bad("'('");
    while (!Eat(')')) {
      int64_t value = 0;
      size_t digits = 0;
      Peek();
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_, ++digits) {
        if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
            __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value)) {
          return Status::Error(Code::kCorrupt, "a dimension in the npy header exceeds 2^63");
        }
      }
      if (digits == 0) return Bad("a dimension");
      if (dims->size() > 64) return Bad("at most 64 dimensions");
      dims->push_back(value);
      if (!Eat(',') && Peek() != ')') return Bad("',' or ')'");
    }
    return Status::Ok();
  }
  Status Bad(const char* expected) {
    return Status::Error(Code::kCorrupt, "the npy header has, at byte %zu, something else than %s", at_,
                         expected);
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Converts column-major bytes to row-major ones.
std::vector<uint8_t> FromFortran(const uint8_t* data, const Shape& shape, int64_t size) {
  const int64_t count = shape.elements();
  std::vector<uint8_t> out(static_cast<size_t>(count * size));
  int64_t index[kMaxRank] = {}, strides[kMaxRank] = {};
  int64_t stride = 1;
  for (int d = 0; d < shape.rank; ++d) {
    strides[d] = stride;
    stride *= shape[d];
  }
  for (int64_t i = 0, from = 0; i < count; ++i) {
    std::memcpy(out.data() + i * size, data + from * size, static_cast<size_t>(size));
    for (int d = shape.rank - 1; d >= 0; --d) {
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Result<Tensor> ParseNpy(const std::vector<uint8_t>& file) {
  if (file.size() < kMagicBytes + 4 || std::memcmp(file.data(), kMagic, kMagicBytes) != 0) {
    return Status::Error(Code::kCorrupt, "not an npy file: it does not begin with \\x93NUMPY and a version");
  }
  const int major = file[6];
  if (major < 1 || major > 3) {
    return Status::Error(Code::kUnsupported, "npy version %d is not one of 1, 2, 3", major);
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t start = kMagicBytes + 2 + length_bytes;
  if (file.size() < start)
    return Status::Error(Code::kCorrupt, "the npy file ends inside its header's length");
  size_t header = 0;
  for (size_t i = 0; i < length_bytes; ++i) header |= size_t{file[8 + i]} << (8 * i);
  if (header > file.size() - start) {
    return Status::Error(Code::kCorrupt, "the npy header of %zu bytes exceeds the file's %zu", header,
                         file.size());
  }

  std::string descr;
  bool fortran = false;
  std::vector<int64_t> dims;
  HeaderParser parser(std::string_view(reinterpret_cast<const char*>(file.data()) + start, header));
  RONDO_RETURN_IF_ERROR(parser.Parse(&descr, &fortran, &dims));

  Tensor tensor;
  bool known = false;
  for (const NpyType& type : kTypes) {
    if (!known && descr == type.text) {
      tensor.dtype = type.dtype;
      known = true;
    }
  }
  if (!known) {
    return Status::Error(
        Code::kUnsupported,
        "npy type '%.20s' is not one of the little-endian f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1",
        descr.c_str());
  }
  RONDO_ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(tensor.dtype, dims, &tensor.shape));
  const size_t have = file.size() - start - header;
  if (static_cast<uint64_t>(bytes) != have) {
    return Status::Error(Code::kCorrupt, "the npy file holds %zu bytes of data where its shape needs %lld",
                         have, static_cast<long long>(bytes));
  }
  const uint8_t* data = file.data() + start + header;
  if (fortran && tensor.shape.rank > 1) {
    tensor.bytes = FromFortran(data, tensor.shape, ByteSize(tensor.dtype));
  } else {
    tensor.bytes.assign(data, data + bytes);
  }
  return tensor;
}

std::string SerializeNpy(const Tensor& tensor) {
  std::string header =
      std::string("{'descr': '") + DescrOf(tensor.dtype) + "', 'fortran_order': False, 'shape': (";
  for (int d = 0; d < tensor.shape.rank; ++d) {
    header += std::to_string(tensor.shape[d]);
    if (d + 1 < tensor.shape.rank) header += ", ";
    if (tensor.shape.rank == 1) header += ",";
  }
  header += "), }";
  const size_t prefix = kMagicBytes + 4;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';

  std::string out(kMagic, kMagicBytes);
  out += '\1';
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return out;
}

}  // namespace rondo
