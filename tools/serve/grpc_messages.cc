#include "tools/serve/grpc_messages.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace rondo::serve {

using inference::InferParameter;
using inference::ModelInferRequest;
using nlohmann::json;

namespace {

constexpr const char* kLength = "Inference-Header-Content-Length";

json ValueOf(const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kBoolParam: return parameter.bool_param();
    case InferParameter::kInt64Param:
      if (parameter.int64_param() < 0) return parameter.int64_param();
      return static_cast<uint64_t>(parameter.int64_param());
    case InferParameter::kStringParam: return parameter.string_param();
    case InferParameter::kDoubleParam: return parameter.double_param();
    case InferParameter::kUint64Param: return parameter.uint64_param();
    default: return nullptr;
  }
}

template <typename Map>
json ParametersOf(const Map& parameters) {
  json all = json::object();
  for (const auto& [name, value] : parameters) all[name] = ValueOf(value);
  return all;
}

// Appends the numbers as elements of type To. False if one does not fit.
template <typename To, typename Numbers>
bool Append(const Numbers& numbers, std::string* bytes) {
  for (const auto number : numbers) {
    const auto element = static_cast<To>(number);
    if (std::is_integral_v<To> && static_cast<decltype(number)>(element) != number) return false;
    bytes->append(reinterpret_cast<const char*>(&element), sizeof(element));
  }
  return true;
}

// Appends the elements of a tensor given as numbers.
Status AppendContents(const ModelInferRequest::InferInputTensor& input, std::string* bytes) {
  const inference::InferTensorContents& c = input.contents();
  const std::string& type = input.datatype();
  const bool fits = type == "BOOL"     ? Append<uint8_t>(c.bool_contents(), bytes)
                    : type == "INT8"   ? Append<int8_t>(c.int_contents(), bytes)
                    : type == "INT16"  ? Append<int16_t>(c.int_contents(), bytes)
                    : type == "INT32"  ? Append<int32_t>(c.int_contents(), bytes)
                    : type == "INT64"  ? Append<int64_t>(c.int64_contents(), bytes)
                    : type == "UINT8"  ? Append<uint8_t>(c.uint_contents(), bytes)
                    : type == "UINT16" ? Append<uint16_t>(c.uint_contents(), bytes)
                    : type == "UINT32" ? Append<uint32_t>(c.uint_contents(), bytes)
                    : type == "UINT64" ? Append<uint64_t>(c.uint64_contents(), bytes)
                    : type == "FP32"   ? Append<float>(c.fp32_contents(), bytes)
                    : type == "FP64"   ? Append<double>(c.fp64_contents(), bytes)
                                       : false;
  if (fits) return Status::Ok();
  return Status::Error(Code::kInvalidArgument,
                       "the input \"%.128s\": its contents are no %.32s; send raw_input_contents",
                       input.name().c_str(), type.c_str());
}

template <typename Shape>
json ListOf(const Shape& shape) {
  json dims = json::array();
  for (const int64_t dim : shape) dims.push_back(dim);
  return dims;
}

// Reads the server's own answers, whose members are known.
template <typename Message>
void ReadTensor(const json& port, Message* tensor) {
  tensor->set_name(port["name"].get<std::string>());
  tensor->set_datatype(port["datatype"].get<std::string>());
  for (const json& dim : port["shape"]) tensor->add_shape(dim.get<int64_t>());
}

}  // namespace

Status WriteInferRequest(const ModelInferRequest& message, HttpRequest* request) {
  json head = {{"parameters", ParametersOf(message.parameters())}, {"inputs", json::array()}};
  head["parameters"]["binary_data_output"] = true;
  if (!message.id().empty()) head["id"] = message.id();
  std::string bytes;
  const bool raw = message.raw_input_contents_size() > 0;
  if (raw && message.raw_input_contents_size() != message.inputs_size()) {
    return Status::Error(Code::kInvalidArgument, "%d inputs, but %d raw_input_contents",
                         message.inputs_size(), message.raw_input_contents_size());
  }
  for (int i = 0; i < message.inputs_size(); ++i) {
    const auto& input = message.inputs(i);
    const size_t before = bytes.size();
    if (raw) {
      bytes += message.raw_input_contents(i);
    } else {
      RONDO_RETURN_IF_ERROR(AppendContents(input, &bytes));
    }
    json parameters = ParametersOf(input.parameters());
    parameters["binary_data_size"] = bytes.size() - before;
    head["inputs"].push_back({{"name", input.name()},
                              {"datatype", input.datatype()},
                              {"shape", ListOf(input.shape())},
                              {"parameters", parameters}});
  }
  for (const auto& output : message.outputs()) {
    json parameters = ParametersOf(output.parameters());
    parameters["binary_data"] = true;
    head["outputs"].push_back({{"name", output.name()}, {"parameters", parameters}});
  }
  std::string text = head.dump(-1, ' ', false, json::error_handler_t::replace);
  request->headers["inference-header-content-length"] = std::to_string(text.size());
  request->body = std::move(text) + bytes;
  return Status::Ok();
}

Status ReadInferResponse(const HttpResponse& response, inference::ModelInferResponse* message) {
  size_t length = response.body.size();
  for (const auto& [name, value] : response.headers) {
    if (name == kLength) std::from_chars(value.data(), value.data() + value.size(), length);
  }
  const json head = json::parse(std::string_view(response.body).substr(0, length));
  message->set_model_name(head["model_name"].get<std::string>());
  message->set_model_version(head["model_version"].get<std::string>());
  if (head.contains("id")) message->set_id(head["id"].get<std::string>());
  size_t at = length;
  for (const json& output : head["outputs"]) {
    ReadTensor(output, message->add_outputs());
    const auto bytes = output["parameters"]["binary_data_size"].get<size_t>();
    message->add_raw_output_contents(response.body.substr(at, bytes));
    at += bytes;
  }
  return Status::Ok();
}

void ReadServerMetadata(const HttpResponse& response, inference::ServerMetadataResponse* message) {
  const json server = json::parse(response.body);
  message->set_name(server["name"].get<std::string>());
  message->set_version(server["version"].get<std::string>());
}

void ReadModelMetadata(const HttpResponse& response, inference::ModelMetadataResponse* message) {
  const json model = json::parse(response.body);
  message->set_name(model["name"].get<std::string>());
  for (const json& version : model["versions"]) message->add_versions(version.get<std::string>());
  message->set_platform(model["platform"].get<std::string>());
  for (const json& port : model["inputs"]) ReadTensor(port, message->add_inputs());
  for (const json& port : model["outputs"]) ReadTensor(port, message->add_outputs());
}

grpc::Status StatusOf(const HttpResponse& response) {
  const json body = json::parse(response.body, nullptr, false);
  const std::string sentence = body.is_object() && body.contains("error") && body["error"].is_string()
                                   ? body["error"].get<std::string>()
                                   : response.body.substr(0, 512);
  switch (response.status) {
    case 200: return grpc::Status::OK;
    case 400: return {grpc::StatusCode::INVALID_ARGUMENT, sentence};
    case 404: return {grpc::StatusCode::NOT_FOUND, sentence};
    case 413:
    case 429: return {grpc::StatusCode::RESOURCE_EXHAUSTED, sentence};
    case 503: return {grpc::StatusCode::UNAVAILABLE, sentence};
    case 504: return {grpc::StatusCode::DEADLINE_EXCEEDED, sentence};
    default: return {grpc::StatusCode::INTERNAL, sentence};
  }
}

grpc::Status StatusOf(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {grpc::StatusCode::INVALID_ARGUMENT, status.message()};
}

}  // namespace rondo::serve
