#include "drivers/processes/sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/stop.h"

namespace rondo::processes {
namespace {

void Set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

// Small messages at once; a machine that is gone is told after some 20 seconds.
void Prepare(int socket) {
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  Set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  Set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 20000);
}

// On every address of IPv6 and IPv4, or where there is no IPv6, of IPv4.
int Bound(bool six, uint16_t port) {
  const int made = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  Set(made, SOL_SOCKET, SO_REUSEADDR, 1);
  Set(made, IPPROTO_TCP, TCP_DEFER_ACCEPT, 30);  // who comes speaks first: who says nothing holds nobody up
  if (six) Set(made, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  sockaddr_in6 any6 = {};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4 = {};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  const auto* any = six ? reinterpret_cast<const sockaddr*>(&any6) : reinterpret_cast<const sockaddr*>(&any4);
  if (bind(made, any, six ? sizeof(any6) : sizeof(any4)) == 0 && listen(made, 256) == 0) return made;
  const int error = errno;
  close(made);
  errno = error;
  return -1;
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

Result<File> Listen(uint16_t* port) {
  int made = Bound(true, *port);
  if (made < 0) made = Bound(false, *port);
  if (made < 0) {
    return Status::Error(Code::kIo, "listening at port %u: %s", *port, std::strerror(errno));
  }
  File file(made);
  sockaddr_storage at = {};
  socklen_t size = sizeof(at);
  getsockname(made, reinterpret_cast<sockaddr*>(&at), &size);
  *port = ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&at)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&at)->sin_port);
  return file;
}

File Accept(const File& listener, Deadline deadline) {
  while (WaitFor(listener, POLLIN, deadline)) {
    const int taken = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (taken < 0) continue;
    Prepare(taken);
    return File(taken);
  }
  return File();
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
