#include "common/base/thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "common/base/simulation.h"

namespace nova {

struct Thread::Rep {
  std::string name;
  std::thread thread;
  Simulation* sim = nullptr;
  Simulation::FiberId fiber = 0;
  bool joined = false;
};

Thread::Thread(std::string name, std::function<void()> body) : rep_(std::make_unique<Rep>()) {
  rep_->name = std::move(name);
  rep_->sim = Simulation::Current();
  if (rep_->sim != nullptr) {
    rep_->fiber = rep_->sim->Spawn(rep_->name, std::move(body));
    return;
  }
  rep_->thread = std::thread([name = rep_->name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    body();
  });
}

Thread::~Thread() { Join(); }

void Thread::Join() {
  if (rep_->joined) return;
  rep_->joined = true;
  if (rep_->sim != nullptr) {
    rep_->sim->Join(rep_->fiber);
  } else {
    rep_->thread.join();
  }
}

const std::string& Thread::name() const { return rep_->name; }

const void* Thread::CurrentId() {
  if (Simulation* sim = Simulation::Current()) return sim->CurrentFiber();
  static thread_local char marker;
  return &marker;
}

bool Thread::RaisePriority() {
  if (Simulation::Current() != nullptr) return true;
  return setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), -10) == 0;
}

int Thread::Processors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace nova
