#include "tools/serve/error_body.h"

#include <nlohmann/json.hpp>

namespace rondo::serve {

std::string ErrorBody(const std::string& sentence) {
  return nlohmann::json{{"error", sentence}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int HttpStatusOf(Code code) {
  switch (code) {
    case Code::kOk: return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange: return 400;
    case Code::kNotFound: return 404;
    case Code::kUnsupported: return 501;
    case Code::kOutOfMemory:
    case Code::kAborted:
    case Code::kFailedPrecondition: return 503;
    case Code::kCancelled:
    case Code::kDeadlineExceeded: return 504;
    default: return 500;
  }
}

HttpResponse ErrorResponse(int status, const std::string& sentence) {
  HttpResponse response;
  response.status = status;
  response.body = ErrorBody(sentence);
  return response;
}

HttpResponse ErrorResponse(const Status& status) {
  const int number = HttpStatusOf(status.code());
  return number == 503 ? BusyResponse(number, status.message()) : ErrorResponse(number, status.message());
}

HttpResponse BusyResponse(int status, const std::string& sentence) {
  HttpResponse response = ErrorResponse(status, sentence);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace rondo::serve
