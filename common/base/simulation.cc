#include "common/base/simulation.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <vector>

#include "common/base/log.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace nova {

namespace {
constexpr size_t kStackBytes = 512 * 1024;
constexpr size_t kGuardBytes = 4096;
}  // namespace

thread_local Simulation* Simulation::current_ = nullptr;

struct Simulation::Fiber {
  FiberId id = 0;
  std::string name;
  std::function<void()> body;
  Simulation* sim = nullptr;
  ucontext_t context;
  char* stack = nullptr;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* tsan = nullptr;
  enum { kRunnable, kBlocked, kDone } state = kRunnable;
  const void* key = nullptr;
  Nanos deadline_ns = kNever;
  bool woken = false;
};

struct Simulation::Rep {
  std::map<FiberId, std::unique_ptr<Fiber>> fibers;  // ordered: who is picked must not depend on addresses
  FiberId next_id = 1;
  ucontext_t scheduler;
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  size_t scheduler_stack_bytes = 0;
  void* scheduler_tsan = nullptr;
};

Simulation::Simulation(uint64_t seed) : rep_(std::make_unique<Rep>()), random_(seed) {}

Simulation::~Simulation() {
  NOVA_CHECK(rep_->fibers.empty()) << "fibers left";
}

Simulation::FiberId Simulation::Spawn(std::string name, std::function<void()> body) {
  auto f = std::make_unique<Fiber>();
  f->id = rep_->next_id++;
  f->name = std::move(name);
  f->body = std::move(body);
  f->sim = this;
  f->stack = static_cast<char*>(mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  NOVA_CHECK(f->stack != MAP_FAILED);
  mprotect(f->stack, kGuardBytes, PROT_NONE);
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack + kGuardBytes;
  f->context.uc_stack.ss_size = kStackBytes;
  f->context.uc_link = nullptr;
  const auto p = reinterpret_cast<uintptr_t>(f.get());
  makecontext(&f->context, reinterpret_cast<void (*)()>(&Simulation::FiberMain), 2, static_cast<unsigned>(p >> 32),
              static_cast<unsigned>(p));
#ifdef __SANITIZE_THREAD__
  f->tsan = __tsan_create_fiber(0);
#endif
  const FiberId id = f->id;
  Trace("spawn " + f->name);
  rep_->fibers.emplace(id, std::move(f));
  return id;
}

void Simulation::FiberMain(unsigned hi, unsigned lo) {
  auto* f = reinterpret_cast<Fiber*>((static_cast<uintptr_t>(hi) << 32) | lo);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &f->sim->rep_->scheduler_stack, &f->sim->rep_->scheduler_stack_bytes);
#endif
  f->body();
  f->body = nullptr;
  f->state = Fiber::kDone;
  f->sim->WakeAll(f);
  f->sim->SwitchToScheduler();
}

void Simulation::SwitchToScheduler() {
  Fiber* f = running_;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(f->state == Fiber::kDone ? nullptr : &f->fake_stack, rep_->scheduler_stack,
                                 rep_->scheduler_stack_bytes);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(rep_->scheduler_tsan, 0);
#endif
  swapcontext(&f->context, &rep_->scheduler);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(f->fake_stack, &rep_->scheduler_stack, &rep_->scheduler_stack_bytes);
#endif
}

void Simulation::Run(std::function<void()> main) {
  NOVA_CHECK(current_ == nullptr) << "a simulation inside a simulation";
  current_ = this;
#ifdef __SANITIZE_THREAD__
  rep_->scheduler_tsan = __tsan_get_current_fiber();
#endif
  const FiberId main_id = Spawn("main", std::move(main));
  while (rep_->fibers.contains(main_id)) Schedule();
  for (const auto& [id, f] : rep_->fibers) NOVA_CHECK(f->state == Fiber::kDone) << "fiber still there at the end: " << f->name;
  rep_->fibers.clear();
  current_ = nullptr;
}

Simulation::Fiber* Simulation::PickNext() {
  for (;;) {
    std::vector<Fiber*> runnable;
    Nanos next = kNever;
    for (auto& [id, f] : rep_->fibers) {
      if (f->state == Fiber::kRunnable) runnable.push_back(f.get());
      if (f->state == Fiber::kBlocked) next = std::min(next, f->deadline_ns);
    }
    if (!runnable.empty()) return runnable[random_.Uniform(runnable.size())];
    if (next == kNever) {
      for (auto& [id, f] : rep_->fibers) NOVA_LOG(ERROR) << "waits for ever: " << f->name;
      NOVA_CHECK(false) << "simulation deadlock";
    }
    now_ns_ = std::max(now_ns_, next);
    for (auto& [id, f] : rep_->fibers) {
      if (f->state == Fiber::kBlocked && f->deadline_ns <= now_ns_) {
        f->state = Fiber::kRunnable;
        f->woken = false;
      }
    }
  }
}

void Simulation::Schedule() {
  Fiber* f = PickNext();
  trace_hash_ = (trace_hash_ ^ f->id) * 0x100000001b3;
  running_ = f;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&rep_->scheduler_fake_stack, f->stack + kGuardBytes, kStackBytes);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(f->tsan, 0);
#endif
  swapcontext(&rep_->scheduler, &f->context);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(rep_->scheduler_fake_stack, nullptr, nullptr);
#endif
  running_ = nullptr;
  if (f->state != Fiber::kDone) return;
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(f->tsan);
#endif
  munmap(f->stack, kStackBytes + kGuardBytes);
  rep_->fibers.erase(f->id);
}

void Simulation::Join(FiberId fiber) {
  for (;;) {
    auto it = rep_->fibers.find(fiber);
    if (it == rep_->fibers.end() || it->second->state == Fiber::kDone) return;
    Block(it->second.get(), kNever);
  }
}

void Simulation::Yield() { SwitchToScheduler(); }

bool Simulation::Block(const void* key, Nanos deadline_ns) {
  Fiber* f = running_;
  f->state = Fiber::kBlocked;
  f->key = key;
  f->deadline_ns = deadline_ns;
  f->woken = false;
  SwitchToScheduler();
  f->key = nullptr;
  f->deadline_ns = kNever;
  return f->woken;
}

void Simulation::WakeOne(const void* key) {
  std::vector<Fiber*> waiting;
  for (auto& [id, f] : rep_->fibers) {
    if (f->state == Fiber::kBlocked && f->key == key) waiting.push_back(f.get());
  }
  if (waiting.empty()) return;
  Fiber* f = waiting[random_.Uniform(waiting.size())];
  f->state = Fiber::kRunnable;
  f->woken = true;
}

void Simulation::WakeAll(const void* key) {
  for (auto& [id, f] : rep_->fibers) {
    if (f->state == Fiber::kBlocked && f->key == key) {
      f->state = Fiber::kRunnable;
      f->woken = true;
    }
  }
}

void Simulation::Trace(std::string_view line) {
  ++trace_lines_;
  for (const char c : line) trace_hash_ = (trace_hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  trace_hash_ = (trace_hash_ ^ static_cast<uint64_t>(now_ns_)) * 0x100000001b3;
  if (trace_output_) trace_output_(line);
}

}  // namespace nova
