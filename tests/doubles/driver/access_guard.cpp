#include "tests/doubles/driver/access_guard.hpp"

#include <setjmp.h>
#include <signal.h>

#include <mutex>

namespace vmem::sim {
namespace {

thread_local sigjmp_buf* t_guard = nullptr;

struct sigaction g_before_segv;
struct sigaction g_before_bus;

void on_fault(int signal, siginfo_t* info, void* context) {
  if (t_guard != nullptr) siglongjmp(*t_guard, 1);
  const struct sigaction& before = signal == SIGSEGV ? g_before_segv : g_before_bus;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    // The instruction is executed again when this returns, and then ends the process as it would have.
    ::sigaction(signal, &before, nullptr);
  } else {
    before.sa_handler(signal);
  }
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, &g_before_segv);
  ::sigaction(SIGBUS, &action, &g_before_bus);
}

}  // namespace

bool run_guarded(const std::function<void()>& work) {
  static std::once_flag installed;
  std::call_once(installed, install);
  sigjmp_buf guard;
  if (sigsetjmp(guard, 1) != 0) {
    t_guard = nullptr;
    return false;
  }
  t_guard = &guard;
  work();
  t_guard = nullptr;
  return true;
}

}  // namespace vmem::sim
