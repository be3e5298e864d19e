#include "tools/serve/text_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "tools/serve/text_worker_script.h"

extern char** environ;

namespace rondo::serve {

namespace {

constexpr std::chrono::seconds kMostTime{20};
constexpr size_t kMostAnswer = 256 << 20;

}  // namespace

Status TextWorker::Begin() {
  if (process_ != 0) return Status::Ok();
  int in[2], out[2];  // [0]: the server's end, [1]: the process's
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
    return Status::Error(Code::kIo, "no socket for the process of the model's texts: %s",
                         std::strerror(errno));
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) != 0) {
    close(in[0]), close(in[1]);
    return Status::Error(Code::kIo, "no socket for the process of the model's texts: %s",
                         std::strerror(errno));
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[1], 0);
  posix_spawn_file_actions_adddup2(&files, out[1], 1);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);  // the process must not inherit the connections
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  // A separate process group: a signal from the terminal reaches only the server, which then ends the
  // process.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  const char* line[] = {python_.c_str(), "-c", kTextWorkerScript, folder_.c_str(), nullptr};
  const int error =
      posix_spawnp(&process_, python_.c_str(), &files, &attributes, const_cast<char**>(line), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  close(in[1]), close(out[1]);
  to_ = in[0], from_ = out[0];
  read_.clear();
  if (error == 0) return Status::Ok();
  process_ = 0;
  End();
  return Status::Error(Code::kIo, "%s cannot be started for the model's texts: %s (--python)",
                       python_.c_str(), std::strerror(error));
}

void TextWorker::End() {
  if (process_ != 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
  process_ = 0, to_ = -1, from_ = -1;
}

Status TextWorker::Write(const std::string& line) {
  for (size_t done = 0; done < line.size();) {
    pollfd one{to_, POLLOUT, 0};
    if (poll(&one, 1, static_cast<int>(std::chrono::milliseconds(kMostTime).count())) <= 0) break;
    const ssize_t count = send(to_, line.data() + done, line.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) break;
    if (count > 0) done += static_cast<size_t>(count);
    if (done == line.size()) return Status::Ok();
  }
  return Status::Error(Code::kAborted, "the process of the model's texts does not read");
}

Status TextWorker::Read(std::chrono::steady_clock::time_point until) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  pollfd one{from_, POLLIN, 0};
  if (left.count() <= 0 || read_.size() > kMostAnswer || poll(&one, 1, static_cast<int>(left.count())) <= 0)
    return Status::Error(Code::kAborted, "the process of the model's texts did not answer within %lld s",
                         static_cast<long long>(kMostTime.count()));
  char bytes[65536];
  const ssize_t count = read(from_, bytes, sizeof(bytes));
  if (count == 0 || (count < 0 && errno != EINTR))
    return Status::Error(Code::kAborted, "the process of the model's texts has ended (%s)", python_.c_str());
  if (count > 0) read_.append(bytes, static_cast<size_t>(count));
  return Status::Ok();
}

Result<std::string> TextWorker::ReadLine() {
  const auto until = std::chrono::steady_clock::now() + kMostTime;
  size_t end = read_.npos;
  while ((end = read_.find('\n')) == read_.npos) RONDO_RETURN_IF_ERROR(Read(until));
  std::string line = read_.substr(0, end);
  read_.erase(0, end + 1);
  return line;
}

Result<std::string> TextWorker::ReadBytes(size_t count) {
  const auto until = std::chrono::steady_clock::now() + kMostTime;
  while (read_.size() < count) RONDO_RETURN_IF_ERROR(Read(until));
  std::string bytes = read_.substr(0, count);
  read_.erase(0, count);
  return bytes;
}

Result<std::string> TextWorker::Exchange(const std::string& line) {
  RONDO_RETURN_IF_ERROR(Begin());
  const auto start = std::chrono::steady_clock::now();
  const Status status = Write(line);
  Result<std::string> answer = status.ok() ? ReadLine() : Result<std::string>(status);
  if (answer.ok()) return answer;
  End();
  // This request did not cause an earlier death, so it is sent again; it may have caused a timeout.
  if (std::chrono::steady_clock::now() - start >= kMostTime) return answer.status();
  RONDO_RETURN_IF_ERROR(Begin());
  RONDO_RETURN_IF_ERROR(Write(line));
  Result<std::string> second = ReadLine();
  if (!second.ok()) End();
  return second;
}

Result<nlohmann::json> TextWorker::Ask(const nlohmann::json& request, std::string* tail) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RONDO_ASSIGN_OR_RETURN(
      const std::string line,
      Exchange(request.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n"));
  nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object())
    return Status::Error(Code::kInternal, "the process of the model's texts answered what is no JSON");
  if (const auto bytes = answer.find("bytes"); tail != nullptr && bytes != answer.end()) {
    Result<std::string> read = ReadBytes(bytes->get<size_t>());
    if (!read.ok()) {
      End();
      return read.status();
    }
    *tail = read.Take();
  }
  const auto error = answer.find("error");
  if (error == answer.end()) return answer;
  return Status::Error(Code::kInvalidArgument, "%s", error->get<std::string>().c_str());
}

}  // namespace rondo::serve
