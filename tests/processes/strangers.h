// Strangers: connections to a port from outside of the group of processes, and the data that they send.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "drivers/processes/reception.h"

namespace rondo {

using processes::File;

inline sockaddr_in LoopAt(uint16_t port, const char* host = "127.0.0.1") {
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  inet_pton(AF_INET, host, &at.sin_addr);
  return at;
}

// Connects; returns an invalid File if no process listens.
inline File Dial(uint16_t port, const char* host = "127.0.0.1") {
  const sockaddr_in at = LoopAt(port, host);
  File file(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(file.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) == 0 ? std::move(file)
                                                                                      : File();
}
// Connects as soon as a process listens.
inline File DialWhenOpen(uint16_t port) {
  for (;;) {
    File file = Dial(port);
    if (file.valid()) return file;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline void Say(const File& file, const std::string& words) {
  [[maybe_unused]] const ssize_t sent = send(file.get(), words.data(), words.size(), MSG_NOSIGNAL);
}

// A port at which no process listens.
inline uint16_t FreePort() {
  const File made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at = LoopAt(0);
  socklen_t size = sizeof(at);
  EXPECT_EQ(bind(made.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  EXPECT_EQ(getsockname(made.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  return ntohs(at.sin_port);
}

// A Hello with `magic` from a stranger that knows the protocol but not the key.
inline std::string HelloOf(const char* magic, uint32_t from, uint32_t to, uint32_t number) {
  processes::Hello hello;
  std::memcpy(&hello.magic, magic, sizeof(hello.magic));
  hello.from = from;
  hello.to = to;
  hello.number = number;
  return std::string(reinterpret_cast<const char*>(&hello), sizeof(hello));
}

// `each` connections of each kind to `port`, which stay open until this is destroyed. Some send `recorded`
// again.
class Strangers {
 public:
  Strangers(uint16_t port, int each, const std::string& hello, const std::string& recorded) {
    const std::string garbage = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + std::string(600, 'x');
    std::string huge = hello;
    huge.replace(8, 16, 16, '\xff');  // numbers and sizes
    for (int i = 0; i < each; ++i) {
      Add(port, "");
      Add(port, std::string(1, hello[0]));
      Add(port, garbage);
      Add(port, hello + std::string(400, 'f'));  // an invalid proof
      Add(port, huge + std::string(400, '\xff'));
      Add(port, hello.substr(0, hello.size() - 1));
      Add(port, recorded.empty() ? garbage : recorded);
    }
    dripping_ = DialWhenOpen(port);
    drip_ = std::thread([this, hello] {
      for (size_t i = 0; !done_ && i < hello.size(); ++i) {
        Say(dripping_, hello.substr(i, 1));
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    });
  }
  ~Strangers() {
    done_ = true;
    drip_.join();
  }
  size_t count() const { return files_.size() + 1; }

 private:
  void Add(uint16_t port, const std::string& words) {
    files_.push_back(DialWhenOpen(port));
    Say(files_.back(), words);
  }
  std::vector<File> files_;
  File dripping_;
  std::atomic<bool> done_{false};
  std::thread drip_;
};

// A proxy between a process that connects to port() and `to`. Records the data that the process sends.
class Recorder {
 public:
  explicit Recorder(uint16_t to) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = LoopAt(0);
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this, to] { Carry(to); });
  }
  ~Recorder() {
    shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }
  uint16_t port() const { return port_; }
  // Call it once both sides have ended.
  std::string Heard() {
    thread_.join();
    return heard_;
  }

 private:
  void Carry(uint16_t to) {
    const File from(accept(listener_.get(), nullptr, nullptr));
    if (!from.valid()) return;
    const File on = DialWhenOpen(to);
    pollfd files[2] = {{from.get(), POLLIN, 0}, {on.get(), POLLIN, 0}};
    while (poll(files, 2, -1) > 0) {
      for (int i = 0; i < 2; ++i) {
        if (files[i].revents == 0) continue;
        char words[4096];
        const ssize_t size = recv(files[i].fd, words, sizeof(words), 0);
        if (size <= 0) return;
        const std::string said(words, static_cast<size_t>(size));
        if (i == 0) heard_ += said;
        Say(i == 0 ? on : from, said);
      }
    }
  }
  File listener_;
  uint16_t port_ = 0;
  std::string heard_;
  std::thread thread_;
};

}  // namespace rondo
