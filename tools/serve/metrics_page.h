// MetricsPage: what a server counts, in Prometheus' text format: models, connections, and the runtime's own.
#ifndef RONDO_TOOLS_SERVE_METRICS_PAGE_H_
#define RONDO_TOOLS_SERVE_METRICS_PAGE_H_

#include <string>

#include "tools/serve/catalog.h"
#include "tools/serve/http_server.h"

namespace rondo::serve {

std::string MetricsPage(const Backend& backend, const Catalog& catalog, const HttpCounts& http,
                        const ByteBudget& budget);

}  // namespace rondo::serve

#endif  // RONDO_TOOLS_SERVE_METRICS_PAGE_H_
