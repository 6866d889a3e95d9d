#include "experiments/peers/client.h"

#include <algorithm>

#include "experiments/peers/process.h"

namespace nova {

Client::Client(std::function<void()> operation, const ClientOptions& options)
    : operation_(std::move(operation)),
      options_(options),
      thread_(std::make_unique<Thread>("client", [this] { Loop(); })) {}

Client::~Client() { End(); }

pid_t Client::thread() const {
  started_.Wait();
  return tid_;
}

void Client::End() {
  ending_.store(true, std::memory_order_relaxed);
  thread_->Join();
}

void Client::Loop() {
  tid_ = CurrentThread();
  started_.Notify();
  for (Nanos begin = Now(); !ending_.load(std::memory_order_relaxed);) {
    operation_();
    const Nanos end = Now();
    Count(begin, end);
    if (operations() == 1) first_done_.Notify();
    begin = end;
  }
}

void Client::Count(Nanos begin, Nanos end) {
  const Nanos took = end - begin;
  operations_.store(operations_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (took > longest_.load(std::memory_order_relaxed)) longest_.store(took, std::memory_order_relaxed);
  const auto window = static_cast<size_t>((end - options_.origin) / kWindow);
  if (window >= windows_.size()) windows_.resize(window + 1);
  ++windows_[window];
  if (begin < options_.counts_from) return;
  latency_.Add(static_cast<uint64_t>(took));
  if (took > kStall) ++stalls_;
}

std::function<void()> OperationOf(Mix mix) {
  return [mix = std::make_shared<Mix>(std::move(mix))] { mix->RunOne(); };
}

std::vector<Sequence> SequencesFor(int clients, const RecordOptions& options, uint64_t seed,
                                   Distribution distribution) {
  std::vector<Sequence> sequences;
  for (int i = 0; i < clients; ++i)
    sequences.emplace_back(distribution, options.count, seed + static_cast<uint64_t>(i));
  return sequences;
}

Clients StartClients(Store* store, const Workload& workload, const RecordOptions& options,
                     std::vector<Sequence> sequences, const ClientOptions& client) {
  Clients clients;
  uint64_t seed = 0;
  for (Sequence& s : sequences) {
    clients.push_back(
        std::make_unique<Client>(OperationOf(Mix(store, workload, options, std::move(s), ++seed)), client));
  }
  return clients;
}

uint64_t OperationsOf(const Clients& clients) {
  uint64_t sum = 0;
  for (const auto& c : clients) sum += c->operations();
  return sum;
}

Nanos TakeLongestOf(const Clients& clients) {
  Nanos longest = 0;
  for (const auto& c : clients) longest = std::max(longest, c->TakeLongest());
  return longest;
}

}  // namespace nova
