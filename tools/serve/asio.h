// Boost.Asio and Boost.Beast. Boost 1.74's awaitable.hpp uses declarations of <utility> but does not include
// it.
#pragma once

// clang-format off
#include <utility>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
// clang-format on
