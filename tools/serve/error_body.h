// ErrorBody: a sentence as an error body that both of the server's protocols understand.
#pragma once

#include <string>

#include "core/status.h"
#include "tools/serve/http_message.h"

namespace rondo::serve {

// {"error": "the sentence"}
std::string ErrorBody(const std::string& sentence);
// The HTTP status for an error of the runtime: 4xx if the request is at fault.
int HttpStatusOf(Code code);
HttpResponse ErrorResponse(int status, const std::string& sentence);
HttpResponse ErrorResponse(const Status& status);
// 429 and 503, with Retry-After.
HttpResponse BusyResponse(int status, const std::string& sentence);

}  // namespace rondo::serve
