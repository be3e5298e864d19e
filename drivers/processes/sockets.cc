#include "drivers/processes/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/stop.h"

namespace rondo::processes {
namespace {

void Set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

// Sends small messages at once; reports a machine that is gone after about 20 seconds.
void Prepare(int socket) {
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  Set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 20000);
}

}  // namespace

void File::Close() {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

bool WaitFor(const File& file, short events, Deadline deadline) {
  for (;;) {
    const uint64_t now = MonotonicNanoseconds();
    if (now >= deadline) return false;
    const uint64_t left = (deadline - now) / 1000000 + 1;
    pollfd one = {file.get(), events, 0};
    const int ready = poll(&one, 1, left < 1000 ? static_cast<int>(left) : 1000);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Result<File> ListenAt(const Place& place) {
  const int family = place.address.ss_family;
  File file(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (file.valid()) {
    Set(file.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    const bool any =
        family == AF_INET6 &&
        IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&place.address)->sin6_addr);
    if (family == AF_INET6) Set(file.get(), IPPROTO_IPV6, IPV6_V6ONLY, any ? 0 : 1);
    if (bind(file.get(), reinterpret_cast<const sockaddr*>(&place.address), place.size) == 0 &&
        listen(file.get(), 1024) == 0)
      return file;
  }
  const bool elsewhere = errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT;
  return Status::Error(elsewhere ? Code::kNotFound : Code::kIo, "listening at %s: %s", TextOf(place).text,
                       std::strerror(errno));
}

Result<File> ListenEverywhere() {
  Place place;
  place.address.ss_family = AF_INET6;
  place.size = sizeof(sockaddr_in6);
  Result<File> both = ListenAt(place);
  if (both.ok()) return both;
  place.address.ss_family = AF_INET;
  place.size = sizeof(sockaddr_in);
  return ListenAt(place);
}

Place PlaceOf(const File& file) {
  Place place;
  place.size = sizeof(place.address);
  if (getsockname(file.get(), reinterpret_cast<sockaddr*>(&place.address), &place.size) != 0) return Place();
  return place;
}

uint16_t PortOf(const Place& place) {
  return ntohs(place.address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&place.address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&place.address)->sin_port);
}

PlaceText TextOf(const Place& place) {
  PlaceText text;
  char host[INET6_ADDRSTRLEN] = "?";
  const bool six = place.address.ss_family == AF_INET6;
  if (six) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&place.address)->sin6_addr, host,
              sizeof(host));
  } else {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&place.address)->sin_addr, host, sizeof(host));
  }
  std::snprintf(text.text, sizeof(text.text), six ? "[%s]:%u" : "%s:%u", host, PortOf(place));
  return text;
}

File Accepted(const File& listener) {
  const int taken = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (taken < 0) return File();
  Prepare(taken);
  return File(taken);
}

File ConnectTo(const Place& place, Deadline deadline) {
  File file(socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!file.valid()) return File();
  Prepare(file.get());
  if (connect(file.get(), reinterpret_cast<const sockaddr*>(&place.address), place.size) == 0) return file;
  if (errno != EINPROGRESS || !WaitFor(file, POLLOUT, deadline)) return File();
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(file.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::move(file) : File();
}

bool SendAll(const File& file, const void* bytes, size_t size, Deadline deadline) {
  for (size_t done = 0; done < size;) {
    const ssize_t sent = send(file.get(), static_cast<const char*>(bytes) + done, size - done, MSG_NOSIGNAL);
    if (sent > 0) {
      done += static_cast<size_t>(sent);
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    } else if (!WaitFor(file, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool TakeAll(const File& file, void* bytes, size_t size, Deadline deadline) {
  for (size_t done = 0; done < size;) {
    const ssize_t taken = recv(file.get(), static_cast<char*>(bytes) + done, size - done, 0);
    if (taken > 0) {
      done += static_cast<size_t>(taken);
    } else if (taken == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (!WaitFor(file, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

}  // namespace rondo::processes
