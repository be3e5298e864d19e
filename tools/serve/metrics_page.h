// MetricsPage: the server's counters in Prometheus' text format: models, connections, and the runtime's own.
#pragma once

#include <string>

#include "tools/serve/catalog.h"
#include "tools/serve/http_server.h"

namespace rondo::serve {

std::string MetricsPage(const Backend& backend, const Catalog& catalog, const HttpCounts& http,
                        const ByteBudget& budget);

}  // namespace rondo::serve
