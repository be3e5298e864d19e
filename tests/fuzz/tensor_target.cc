// Tensor files: .npy, TensorProto and safetensors. The data must fit the shape that was read, and npy and
// TensorProto must read back as written.
#include <string>

#include "formats/tensor/npy.h"
#include "formats/tensor/safetensors.h"
#include "formats/tensor/tensor.h"
#include "formats/tensor/tensor_proto.h"
#include "tests/fuzz/target.h"

namespace rondo::fuzz {
namespace {

constexpr const char* kStages[] = {"refused", "read"};
constexpr size_t kHeader = 512;  // the first bytes, which may be text

void CheckTensor(const Tensor& tensor, size_t file) {
  Shape shape;
  const std::vector<int64_t> dims(tensor.shape.begin(), tensor.shape.end());
  const Result<int64_t> bytes = CheckedBytes(tensor.dtype, dims, &shape);
  if (!bytes.ok() || static_cast<size_t>(*bytes) != tensor.bytes.size()) {
    Broken("a tensor of %zu bytes whose shape says otherwise", tensor.bytes.size());
  }
  // TensorProto stores small elements in varints of one byte, and widest elements are 8 bytes.
  if (tensor.bytes.size() > 8 * file) {
    Broken("a tensor of %zu bytes from a file of %zu", tensor.bytes.size(), file);
  }
}

void CheckSame(const Tensor& a, const Result<Tensor>& b) {
  if (!b.ok()) Broken("a written tensor is not read: %s", b.status().message());
  const Tensor& other = const_cast<Result<Tensor>&>(b).operator*();
  if (!(other.shape == a.shape) || other.bytes != a.bytes) Broken("a tensor reads back changed");
}

std::vector<Tensor> Samples() {
  std::vector<Tensor> samples;
  for (int i = 0; i < kNumDTypes; ++i) {
    Tensor t;
    t.name = "t" + std::to_string(i);
    t.dtype = static_cast<DType>(i);
    if (i != 3) t.shape = Shape{2, i % 3, 2};
    t.bytes.resize(static_cast<size_t>(t.shape.elements() * ByteSize(t.dtype)));
    for (size_t j = 0; j < t.bytes.size(); ++j)
      t.bytes[j] = t.dtype == DType::kBool ? j % 2 : static_cast<uint8_t>(j);
    samples.push_back(std::move(t));
  }
  return samples;
}

Bytes ToBytes(const std::string& text) { return Bytes(text.begin(), text.end()); }

class Npys final : public Target {
 public:
  const char* name() const override { return "npy"; }
  Span<const char* const> stages() const override { return kStages; }
  Bytes Mutate(Span<const uint8_t> input, Random& random) override {
    return MutateNumbers(input, kHeader, random);
  }
  size_t Run(Span<const uint8_t> input) override {
    const Bytes file(input.begin(), input.end());
    Result<Tensor> tensor = ParseNpy(file);
    if (!tensor.ok()) return 0;
    CheckTensor(*tensor, file.size());
    CheckSame(*tensor, ParseNpy(ToBytes(SerializeNpy(*tensor))));
    return 1;
  }
  std::vector<Seed> MakeSeeds() override {
    std::vector<Seed> seeds;
    for (const Tensor& t : Samples()) {
      seeds.push_back({std::string(Name(t.dtype)) + ".npy", ToBytes(SerializeNpy(t))});
    }
    std::string fortran(seeds[0].bytes.begin(), seeds[0].bytes.end());
    fortran.replace(fortran.find("False"), 5, "True ");
    seeds.push_back({"fortran.npy", ToBytes(fortran)});
    return seeds;
  }
};

class TensorProtos final : public Target {
 public:
  const char* name() const override { return "tensor_proto"; }
  Span<const char* const> stages() const override { return kStages; }
  Bytes Mutate(Span<const uint8_t> input, Random& random) override { return MutateBytes(input, random); }
  size_t Run(Span<const uint8_t> input) override {
    const Bytes file(input.begin(), input.end());
    Result<Tensor> tensor = ParseTensorProto(file);
    if (!tensor.ok()) return 0;
    CheckTensor(*tensor, file.size());
    CheckSame(*tensor, ParseTensorProto(ToBytes(SerializeTensorProto(*tensor))));
    return 1;
  }
  std::vector<Seed> MakeSeeds() override {
    std::vector<Seed> seeds;
    for (const Tensor& t : Samples()) {
      seeds.push_back({std::string(Name(t.dtype)) + ".pb", ToBytes(SerializeTensorProto(t))});
    }
    // Typed fields instead of raw bytes: dims 3, data_type, packed values.
    seeds.push_back({"floats.pb", {0x08, 2, 0x10, 1, 0x22, 8, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}});
    seeds.push_back({"int32s.pb", {0x08, 3, 0x10, 9, 0x2a, 3, 1, 0, 1}});
    seeds.push_back({"int64s.pb", {0x08, 3, 0x10, 7, 0x3a, 3, 1, 2, 3}});
    return seeds;
  }
};

class Safetensors final : public Target {
 public:
  const char* name() const override { return "safetensors"; }
  Span<const char* const> stages() const override { return kStages; }
  Bytes Mutate(Span<const uint8_t> input, Random& random) override {
    return MutateNumbers(input, kHeader, random);
  }
  size_t Run(Span<const uint8_t> input) override {
    const Bytes file(input.begin(), input.end());
    Result<std::vector<Tensor>> tensors = ParseSafetensors(file);
    if (!tensors.ok()) return 0;
    for (const Tensor& tensor : *tensors) CheckTensor(tensor, file.size());
    return 1;
  }
  std::vector<Seed> MakeSeeds() override {
    const auto file = [](const std::string& header, size_t data) {
      std::string text(8, '\0');
      text[0] = static_cast<char>(header.size());
      return ToBytes(text + header + std::string(data, '\1'));
    };
    return {{"empty.safetensors", file("{}", 0)},
            {"one.safetensors", file(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 16)},
            {"two.safetensors", file(R"({"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},)"
                                     R"("b":{"dtype":"I64","shape":[],"data_offsets":[6,14]}})",
                                     14)},
            {"metadata.safetensors", file(R"({"__metadata__":{"k":"v"},"a":)"
                                          R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                          1)}};
  }
};

}  // namespace

std::unique_ptr<Target> NpyTarget() { return std::make_unique<Npys>(); }
std::unique_ptr<Target> TensorProtoTarget() { return std::make_unique<TensorProtos>(); }
std::unique_ptr<Target> SafetensorsTarget() { return std::make_unique<Safetensors>(); }

}  // namespace rondo::fuzz
