#include "tools/serve/v2_infer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/scalar.h"
#include "tools/serve/json_text.h"
#include "tools/serve/v2_types.h"

namespace rondo::serve {

using nlohmann::json;

namespace {

constexpr uint64_t kTextBytes = 24;  // upper bound on an element in JSON
constexpr uint64_t kMostOfDim = uint64_t{1} << 40;

Status Wrong(const std::string& sentence) {
  return Status::Error(Code::kInvalidArgument, "%s", sentence.c_str());
}

std::string Quoted(const std::string& name) { return "\"" + name.substr(0, 128) + "\""; }

std::string ShapeText(const json& dims) { return dims.dump(); }

json ListOf(const Shape& shape) {
  json dims = json::array();
  for (int64_t d : shape) dims.push_back(d);
  return dims;
}

// The parameter of that name, or null.
const json* Parameter(const json& object, const char* name) {
  const json* parameters = Member(object, "parameters");
  return parameters == nullptr ? nullptr : Member(*parameters, name);
}

class Parser {
 public:
  Parser(const std::vector<BatchForm>& forms, InferJob* job, InferAnswer* answer)
      : forms_(forms), job_(job), answer_(answer), body_(job->request.body) {}

  Status Run() {
    json request;
    RONDO_RETURN_IF_ERROR(ReadJson(&request));
    if (const json* id = Member(request, "id")) {
      if (!id->is_string()) return Wrong("\"id\" is no text");
      answer_->id = id->get<std::string>();
    }
    RONDO_RETURN_IF_ERROR(ReadTimeout(request));
    RONDO_RETURN_IF_ERROR(ChooseForm(request));
    RONDO_RETURN_IF_ERROR(ReadInputs(request));
    return ReadOutputs(request);
  }

 private:
  Status ReadJson(json* request) {
    binary_ = body_.size();
    const std::string& length = job_->request.Header("inference-header-content-length");
    if (!length.empty()) {
      const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), binary_);
      if (error != std::errc() || end != length.data() + length.size() || binary_ > body_.size())
        return Wrong("Inference-Header-Content-Length " + Quoted(length) + " is no number up to the body's " +
                     std::to_string(body_.size()) + " bytes");
    }
    if (!job_->request.charge.Take(binary_ * kJsonBytesPerByte)) return NoBytes();
    RONDO_ASSIGN_OR_RETURN(*request, ParseJson(std::string_view(body_).substr(0, binary_)));
    return Status::Ok();
  }

  static Status NoBytes() {
    return Status::Error(Code::kOutOfMemory,
                         "the requests under way hold as many bytes as they may; try again");
  }

  // In microseconds, as in Triton.
  Status ReadTimeout(const json& request) {
    const json* timeout = Parameter(request, "timeout");
    if (timeout == nullptr) return Status::Ok();
    if (!timeout->is_number_unsigned())
      return Wrong("the parameter \"timeout\" is no number of microseconds");
    const auto most = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::hours(1)).count());
    const std::chrono::microseconds given(std::min(timeout->get<uint64_t>(), most));
    if (given.count() > 0) job_->deadline = std::min(job_->deadline, Clock::now() + given);
    return Status::Ok();
  }

  Status ChooseForm(const json& request) {
    const json* program = Parameter(request, "program");
    std::string names;
    for (const BatchForm& form : forms_) {
      if (program != nullptr && *program == form.family.name()) job_->form = &form;
      for (const std::string& name : form.programs) {
        names += (names.empty() ? "" : ", ") + name;
        if (program != nullptr && *program == name) job_->form = &form;
      }
    }
    if (program == nullptr && forms_.size() == 1) job_->form = &forms_[0];
    if (job_->form != nullptr) return Status::Ok();
    if (program == nullptr)
      return Wrong("the model has several programs (" + names + "): say which by the parameter \"program\"");
    return Status::Error(Code::kNotFound, "there is no program %s; there are: %s", program->dump().c_str(),
                         names.c_str());
  }

  Status ReadInputs(const json& request) {
    const BatchForm& form = *job_->form;
    job_->inputs.assign(form.inputs.size(), {});
    const json* inputs = Member(request, "inputs");
    if (inputs == nullptr || !inputs->is_array()) return Wrong("the request has no list \"inputs\"");
    std::vector<size_t> numbers;
    for (const json& input : *inputs) RONDO_RETURN_IF_ERROR(ReadPort(input, &numbers));
    for (size_t i = 0; i < form.inputs.size(); ++i)
      if (std::find(numbers.begin(), numbers.end(), i) == numbers.end())
        return Wrong("the input " + Quoted(form.input(i).plan.name) + " is missing");
    RONDO_ASSIGN_OR_RETURN(job_->choice, form.family.Choose({job_->inputs.data(), job_->inputs.size()}));
    for (size_t i = 0; i < numbers.size(); ++i)
      RONDO_RETURN_IF_ERROR(ReadTensor((*inputs)[i], &job_->inputs[numbers[i]]));
    if (binary_ != body_.size())
      return Wrong(std::to_string(body_.size() - binary_) +
                   " bytes behind the last tensor belong to no input");
    return Status::Ok();
  }

  // Reads which input it is, and its shape.
  Status ReadPort(const json& input, std::vector<size_t>* numbers) {
    const BatchForm& form = *job_->form;
    const json *name = Member(input, "name"), *type = Member(input, "datatype"),
               *dims = Member(input, "shape");
    if (name == nullptr || !name->is_string()) return Wrong("an input has no \"name\"");
    const std::string text = name->get<std::string>();
    size_t number = 0;
    while (number < form.inputs.size() && form.input(number).plan.name != text) ++number;
    if (number == form.inputs.size())
      return Status::Error(Code::kNotFound, "the model has no input %s", Quoted(text).c_str());
    const std::string where = "the input " + Quoted(text);
    if (std::find(numbers->begin(), numbers->end(), number) != numbers->end())
      return Wrong(where + " is given twice");
    numbers->push_back(number);
    const BucketFamily::PaddedPort& port = form.input(number);
    if (type == nullptr || *type != V2Name(port.plan.dtype))
      return Wrong(where + " is of datatype " + (type == nullptr ? "none" : type->dump()) +
                   "; the model has " + V2Name(port.plan.dtype));
    Input& tensor = job_->inputs[number];
    tensor.index = form.inputs[number];
    tensor.dtype = port.plan.dtype;
    return ReadShape(port, dims, where, &tensor.shape);
  }

  // Reads its contents, as many bytes as its shape has.
  Status ReadTensor(const json& input, Input* tensor) {
    const std::string where = "the input " + Quoted((*Member(input, "name")).get<std::string>());
    const int64_t elements = tensor->shape.elements();
    const uint64_t bytes = tensor->bytes = static_cast<uint64_t>(elements * ByteSize(tensor->dtype));
    if (const json* size = Parameter(input, "binary_data_size")) {
      if (*size != bytes || bytes > body_.size() - binary_)
        return Wrong(where + " has " + size->dump() + " bytes of binary data, of " +
                     std::to_string(body_.size() - binary_) + " behind the JSON; its shape needs " +
                     std::to_string(bytes));
      tensor->data = reinterpret_cast<const uint8_t*>(body_.data()) + binary_;
      binary_ += bytes;
      return Status::Ok();
    }
    if (!job_->request.charge.Take(bytes)) return NoBytes();
    std::vector<uint8_t>& parsed = job_->parsed.emplace_back(std::max<uint64_t>(bytes, 1));
    tensor->data = parsed.data();
    return ReadData(Member(input, "data"), tensor->dtype, elements, where, parsed.data());
  }

  // Reads a shape with the model's rank and fixed dimensions; the family checks the others.
  static Status ReadShape(const BucketFamily::PaddedPort& port, const json* dims, const std::string& where,
                          Shape* shape) {
    const json wanted = DimsOf(port);
    bool fits = dims != nullptr && dims->is_array() && dims->size() == wanted.size();
    *shape = port.plan.shape;
    for (size_t i = 0; fits && i < wanted.size(); ++i) {
      const json& dim = (*dims)[i];
      fits = dim.is_number_integer() && (!dim.is_number_unsigned() || dim.get<uint64_t>() <= kMostOfDim) &&
             (wanted[i] == -1 || dim == wanted[i]);
      if (fits) (*shape)[static_cast<int>(i)] = dim.get<int64_t>();
    }
    if (fits) return Status::Ok();
    return Wrong(where + " has the shape " + (dims == nullptr ? "none" : ShapeText(*dims).substr(0, 128)) +
                 "; the model's is " + ShapeText(wanted));
  }

  // Reads flat or nested lists of numbers.
  Status ReadData(const json* data, DType type, int64_t elements, const std::string& where, uint8_t* to) {
    if (data == nullptr || !data->is_array()) return Wrong(where + " has neither \"data\" nor binary data");
    int64_t at = 0;
    RONDO_RETURN_IF_ERROR(ReadList(*data, type, elements, where, to, &at));
    if (at == elements) return Status::Ok();
    return Wrong(where + " has " + std::to_string(at) + " elements of data; its shape needs " +
                 std::to_string(elements));
  }

  Status ReadList(const json& list, DType type, int64_t elements, const std::string& where, uint8_t* to,
                  int64_t* at) {
    for (const json& item : list) {
      if (item.is_array()) {
        RONDO_RETURN_IF_ERROR(ReadList(item, type, elements, where, to, at));
        continue;
      }
      if (*at < elements && !Store(item, type, to, *at))
        return Wrong(where + ": " + JsonText(item).substr(0, 64) + " is no " + V2Name(type));
      ++*at;
    }
    return Status::Ok();
  }

  static bool Store(const json& item, DType type, uint8_t* to, int64_t at) {
    if (type == DType::kBool) {
      if (!item.is_boolean() && item != 0 && item != 1) return false;
      scalar::Store(type, to, at, int64_t{item.is_boolean() ? item.get<bool>() : item == 1});
      return true;
    }
    if (IsFloat(type)) {
      if (!item.is_number()) return false;
      scalar::Store(type, to, at, item.get<double>());
      return true;
    }
    if (!item.is_number_integer()) return false;
    if (type == DType::kU64) {
      if (!item.is_number_unsigned()) return false;
      scalar::Store(type, to, at, static_cast<int64_t>(item.get<uint64_t>()));
      return true;
    }
    if (item.is_number_unsigned() && item.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
    const int64_t value = item.get<int64_t>();
    if (scalar::WrapInt(value, type) != value) return false;
    scalar::Store(type, to, at, value);
    return true;
  }

  Status ReadOutputs(const json& request) {
    const BatchForm& form = *job_->form;
    const json* all_binary = Parameter(request, "binary_data_output");
    const bool binary = all_binary != nullptr && *all_binary == true;
    const json* outputs = Member(request, "outputs");
    if (outputs == nullptr) {
      for (size_t i = 0; i < form.outputs.size(); ++i) answer_->outputs.push_back({i, binary});
    } else if (!outputs->is_array()) {
      return Wrong("\"outputs\" is no list");
    } else {
      for (const json& output : *outputs) RONDO_RETURN_IF_ERROR(ReadOutput(output, binary));
    }
    uint64_t bytes = 0;
    for (size_t i = 0; i < form.outputs.size(); ++i) bytes += job_->OutputBytes(i);
    for (const InferAnswer::Wanted& wanted : answer_->outputs) {
      const auto elements = static_cast<uint64_t>(job_->OutputShape(wanted.output).elements());
      bytes += wanted.binary ? job_->OutputBytes(wanted.output) : elements * kTextBytes;
    }
    return job_->request.charge.Take(bytes) ? Status::Ok() : NoBytes();
  }

  Status ReadOutput(const json& output, bool binary) {
    const BatchForm& form = *job_->form;
    const json* name = Member(output, "name");
    if (name == nullptr || !name->is_string()) return Wrong("an output has no \"name\"");
    const std::string text = name->get<std::string>();
    if (Parameter(output, "classification") != nullptr)
      return Wrong("the output " + Quoted(text) + ": classification is not supported");
    if (const json* own = Parameter(output, "binary_data")) binary = *own == true;
    for (size_t i = 0; i < form.outputs.size(); ++i) {
      if (form.output(i).plan.name != text) continue;
      const bool twice = std::any_of(answer_->outputs.begin(), answer_->outputs.end(),
                                     [&](const InferAnswer::Wanted& other) { return other.output == i; });
      if (twice) return Wrong("the output " + Quoted(text) + " is wanted twice");
      answer_->outputs.push_back({i, binary});
      return Status::Ok();
    }
    return Status::Error(Code::kNotFound, "the model has no output %s", Quoted(text).c_str());
  }

  const std::vector<BatchForm>& forms_;
  InferJob* job_;
  InferAnswer* answer_;
  const std::string& body_;
  size_t binary_ = 0;  // begin of the next binary tensor
};

template <typename T>
void AppendNumber(T value, std::string* to) {
  char text[32];
  to->append(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

// Element `i` in JSON, with as few digits as distinguish it from its neighbours; null for NaN and infinity.
void AppendElement(DType type, const uint8_t* data, int64_t i, std::string* to) {
  if (type == DType::kBool) {
    to->append(data[i] != 0 ? "true" : "false");
  } else if (!IsFloat(type)) {
    const auto value = scalar::Load<int64_t>(type, data, i);
    type == DType::kU64 ? AppendNumber(static_cast<uint64_t>(value), to) : AppendNumber(value, to);
  } else if (type == DType::kF64) {
    const auto value = scalar::Load<double>(type, data, i);
    std::isfinite(value) ? AppendNumber(value, to) : void(to->append("null"));
  } else {
    const auto value = scalar::Load<float>(type, data, i);
    std::isfinite(value) ? AppendNumber(value, to) : void(to->append("null"));
  }
}

}  // namespace

json DimsOf(const BucketFamily::PaddedPort& port) {
  json dims = ListOf(port.plan.shape);
  for (const BucketDim& dim : port.dims) dims[dim.dim] = -1;
  return dims;
}

Status ParseInfer(const std::vector<BatchForm>& forms, InferJob* job, InferAnswer* answer) {
  return Parser(forms, job, answer).Run();
}

HttpResponse InferResponse(const InferJob& job, const InferAnswer& answer) {
  std::string text =
      "{\"model_name\":" + json(answer.model).dump() + ",\"model_version\":\"" + answer.version + "\"";
  if (!answer.id.empty()) text += ",\"id\":" + JsonText(answer.id);
  text += ",\"outputs\":[";
  std::string binary;
  for (const InferAnswer::Wanted& wanted : answer.outputs) {
    const BucketPort& port = job.form->output(wanted.output).plan;
    const std::vector<uint8_t>& bytes = job.outputs[wanted.output];
    if (text.back() != '[') text += ",";
    text += "{\"name\":" + json(port.name).dump() + ",\"datatype\":\"" + V2Name(port.dtype) +
            "\",\"shape\":" + ShapeText(ListOf(job.OutputShape(wanted.output)));
    if (wanted.binary) {
      text += ",\"parameters\":{\"binary_data_size\":" + std::to_string(bytes.size()) + "}}";
      binary.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      continue;
    }
    text += ",\"data\":[";
    const int64_t elements = static_cast<int64_t>(bytes.size()) / ByteSize(port.dtype);
    for (int64_t i = 0; i < elements; ++i) {
      if (i > 0) text += ",";
      AppendElement(port.dtype, bytes.data(), i, &text);
    }
    text += "]}";
  }
  text += "]}";
  HttpResponse response;
  const bool is_binary = std::any_of(answer.outputs.begin(), answer.outputs.end(),
                                     [](const InferAnswer::Wanted& wanted) { return wanted.binary; });
  if (is_binary) {
    response.type = "application/octet-stream";
    response.headers.emplace_back("Inference-Header-Content-Length", std::to_string(text.size()));
  }
  response.body = std::move(text) + binary;
  return response;
}

}  // namespace rondo::serve
