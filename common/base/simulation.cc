#include "common/base/simulation.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
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
#include <sanitizer/asan_interface.h>
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
  const Host* host = nullptr;
};

// By number: who is picked must not depend on addresses.
template <typename Fiber>
struct OrderedFibers {
  std::vector<Fiber*> fibers;
  static bool Before(const Fiber* a, const Fiber* b) { return a->id < b->id; }
  void Add(Fiber* f) { fibers.insert(std::lower_bound(fibers.begin(), fibers.end(), f, Before), f); }
  void Remove(Fiber* f) { fibers.erase(std::lower_bound(fibers.begin(), fibers.end(), f, Before)); }
};

struct Simulation::Rep {
  OrderedFibers<Fiber> runnable;
  std::unordered_map<const void*, OrderedFibers<Fiber>> waiting;  // by key
  std::set<std::pair<Nanos, Fiber*>> deadlines;                   // of those that wait; in true time
  std::map<FiberId, std::unique_ptr<Fiber>> fibers;
  FiberId next_id = 1;
  ucontext_t scheduler;
  std::vector<char*> stacks;  // of fibers that have ended
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  size_t scheduler_stack_bytes = 0;
  void* scheduler_tsan = nullptr;

  ~Rep() {
    for (char* stack : stacks) munmap(stack, kStackBytes + kGuardBytes);
  }
  char* TakeStack() {
    if (!stacks.empty()) {
      char* const stack = stacks.back();
      stacks.pop_back();
      return stack;
    }
    auto* const stack = static_cast<char*>(mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    NOVA_CHECK(stack != MAP_FAILED);
    mprotect(stack, kGuardBytes, PROT_NONE);
    return stack;
  }
  void ReturnStack(char* stack) {
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(stack + kGuardBytes, kStackBytes);  // of frames that never returned
#endif
    stacks.push_back(stack);
  }
};

Simulation::Simulation(uint64_t seed) : rep_(std::make_unique<Rep>()), random_(seed) {}

Simulation::~Simulation() { NOVA_CHECK(rep_->fibers.empty()) << "fibers left"; }

Simulation::FiberId Simulation::Spawn(std::string name, std::function<void()> body) {
  auto f = std::make_unique<Fiber>();
  f->id = rep_->next_id++;
  f->name = std::move(name);
  f->body = std::move(body);
  f->sim = this;
  if (running_ != nullptr) f->host = running_->host;
  f->stack = rep_->TakeStack();
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack + kGuardBytes;
  f->context.uc_stack.ss_size = kStackBytes;
  f->context.uc_link = nullptr;
  makecontext(&f->context, &Simulation::FiberMain, 0);
#ifdef __SANITIZE_ADDRESS__
  // AddressSanitizer forgets, in each swapcontext, all that it knows of the stack named here: half of a
  // simulation's time. It is told of each switch (__sanitizer_start_switch_fiber), and need not.
  f->context.uc_stack = {};
#endif
#ifdef __SANITIZE_THREAD__
  f->tsan = __tsan_create_fiber(0);
#endif
  const FiberId id = f->id;
  Trace("spawn " + f->name);
  rep_->runnable.Add(f.get());
  rep_->fibers.emplace(id, std::move(f));
  return id;
}

void Simulation::FiberMain() {
  Fiber* const f = current_->running_;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &f->sim->rep_->scheduler_stack,
                                  &f->sim->rep_->scheduler_stack_bytes);
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
  for (const auto& [id, f] : rep_->fibers)
    NOVA_CHECK(f->state == Fiber::kDone) << "fiber still there at the end: " << f->name;
  rep_->fibers.clear();
  current_ = nullptr;
}

const Simulation::Host* Simulation::host() const { return running_ == nullptr ? nullptr : running_->host; }
void Simulation::set_host(const Host* host) { running_->host = host; }

Nanos Simulation::LocalNow() const {
  const Host* const h = host();
  return h == nullptr || h->clock_rate == 1
             ? now_ns_
             : static_cast<Nanos>(static_cast<double>(now_ns_) * h->clock_rate);
}

int64_t Simulation::LocalWallMs() const {
  const Host* const h = host();
  return 1'700'000'000'000 + now() / kMillisecond + (h == nullptr ? 0 : h->wall_offset_ms);
}

// The first moment at which the caller's clock is there.
Nanos Simulation::TrueTime(Nanos local_ns) const {
  const Host* const h = host();
  if (h == nullptr || h->clock_rate == 1 || local_ns == kNever) return local_ns;
  return static_cast<Nanos>(std::ceil(static_cast<double>(local_ns) / h->clock_rate)) + 1;
}

void Simulation::MakeRunnable(Fiber* f, bool woken) {
  if (f->deadline_ns != kNever) rep_->deadlines.erase({f->deadline_ns, f});
  if (f->key != nullptr) {
    const auto it = rep_->waiting.find(f->key);
    it->second.Remove(f);
    if (it->second.fibers.empty()) rep_->waiting.erase(it);
  }
  f->state = Fiber::kRunnable;
  f->woken = woken;
  rep_->runnable.Add(f);
}

std::string Simulation::FibersText() const {
  std::string text;
  for (const auto& [id, f] : rep_->fibers) {
    text += "\n  " + f->name + (f->host == nullptr ? "" : " of " + f->host->name);
    if (f->state == Fiber::kRunnable) {
      text += ": runs";
    } else if (f->deadline_ns == kNever) {
      text += ": waits for ever";
    } else {
      text += ": waits until " + std::to_string(f->deadline_ns / kMillisecond) + " ms";
    }
  }
  return text;
}

Simulation::Fiber* Simulation::PickNext() {
  const std::vector<Fiber*>& runnable = rep_->runnable.fibers;
  if (runnable.empty()) {
    if (rep_->deadlines.empty()) {
      NOVA_CHECK(false) << "simulation deadlock" << FibersText();
    }
    now_ns_ = std::max(now_ns_, rep_->deadlines.begin()->first);
    while (!rep_->deadlines.empty() && rep_->deadlines.begin()->first <= now_ns_) {
      MakeRunnable(rep_->deadlines.begin()->second, /*woken=*/false);
    }
  }
  return runnable[random_.Uniform(runnable.size())];
}

void Simulation::Schedule() {
  Fiber* f = PickNext();
  rep_->runnable.Remove(f);
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
  if (f->state == Fiber::kRunnable) rep_->runnable.Add(f);  // it yielded
  if (f->state != Fiber::kDone) return;
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(f->tsan);
#endif
  rep_->ReturnStack(f->stack);
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
  f->deadline_ns = TrueTime(deadline_ns);
  f->woken = false;
  if (key != nullptr) rep_->waiting[key].Add(f);
  if (f->deadline_ns != kNever) rep_->deadlines.insert({f->deadline_ns, f});
  SwitchToScheduler();
  f->key = nullptr;
  f->deadline_ns = kNever;
  return f->woken;
}

void Simulation::WakeOne(const void* key) {
  const auto it = rep_->waiting.find(key);
  if (it == rep_->waiting.end()) return;
  const std::vector<Fiber*>& waiting = it->second.fibers;
  MakeRunnable(waiting[random_.Uniform(waiting.size())], /*woken=*/true);
}

void Simulation::WakeAll(const void* key) {
  const auto it = rep_->waiting.find(key);
  if (it == rep_->waiting.end()) return;
  for (Fiber* f : std::vector<Fiber*>(it->second.fibers)) MakeRunnable(f, /*woken=*/true);
}

void Simulation::Trace(std::string_view line) {
  ++trace_lines_;
  for (const char c : line) trace_hash_ = (trace_hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  trace_hash_ = (trace_hash_ ^ static_cast<uint64_t>(now_ns_)) * 0x100000001b3;
  if (trace_output_) trace_output_(line);
}

}  // namespace nova
