#include "tests/cuda/emulated/caught_faults.h"

#include <iterator>

namespace rondo::emulated {
namespace {

thread_local CaughtFaults::Handler handler_of_thread = nullptr;
thread_local void* argument_of_thread = nullptr;
struct sigaction before[std::size(kFaults)];

void RestoreActions() {
  for (size_t k = 0; k < std::size(kFaults); ++k) sigaction(kFaults[k], &before[k], nullptr);
}

void OnFault(int signal, siginfo_t* info, void*) {
  if (handler_of_thread != nullptr) handler_of_thread(argument_of_thread, signal, info->si_addr);
  RestoreActions();  // the access is repeated
}

}  // namespace

CaughtFaults::CaughtFaults(Handler handler, void* argument) {
  handler_of_thread = handler;
  argument_of_thread = argument;
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;  // so that a handler may leave by longjmp
  for (size_t k = 0; k < std::size(kFaults); ++k) sigaction(kFaults[k], &action, &before[k]);
}

CaughtFaults::~CaughtFaults() {
  RestoreActions();
  handler_of_thread = nullptr;
}

}  // namespace rondo::emulated
