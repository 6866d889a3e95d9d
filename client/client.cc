#include "client/client.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "client/client_core.h"
#include "common/base/coding.h"
#include "common/base/keys.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "common/rdma/open_fabric.h"
#include "common/rdma/xchg.h"
#include "coordinator/coordinator_client.h"
#include "coordinator/grpc_channel.h"
#include "ltc/ltc_client.h"

namespace nova {
namespace {

constexpr Nanos kReadTry = 2 * kSecond;           // of one try of a read: a stopped server must not eat the whole deadline
constexpr Nanos kFirstBackoff = 2 * kMillisecond;
constexpr Nanos kMaxBackoff = 100 * kMillisecond;
constexpr Nanos kMinRefreshPeriod = 20 * kMillisecond;
constexpr uint32_t kScanPage = 10'000;            // entries asked of one LTC at a time

enum class OpKind { kPut, kDelete, kGet, kScan };

struct Op {
  OpKind kind = OpKind::kGet;
  std::string key;  // stored; of a scan: where it goes on
  std::string value;
  size_t limit = 0;
  Nanos deadline_ns = 0;
  Nanos backoff_ns = kFirstBackoff;
  uint64_t request_number = 0;
  std::function<void(Result)> write_done;
  std::function<void(GetResult)> get_done;
  std::function<void(ScanResult)> scan_done;
  GetResult get;
  ScanResult scan;
  Outcome last = Outcome::kUnavailable;  // of the try before
  std::string last_where;
};

const char* NameOf(OpKind kind) {
  switch (kind) {
    case OpKind::kPut: return "put";
    case OpKind::kDelete: return "delete";
    case OpKind::kGet: return "get";
    case OpKind::kScan: return "scan";
  }
  return "?";
}

// The route of the range that holds `key`; null: none does.
const RangeRoute* FindRoute(const Configuration& configuration, const std::string& key) {
  auto it = configuration.ranges.upper_bound(key);
  if (it == configuration.ranges.begin()) return nullptr;
  const RangeRoute& route = std::prev(it)->second;
  return route.upper.empty() || key < route.upper ? &route : nullptr;
}

}  // namespace

struct Client::Rep {
  ClientOptions options;
  std::string key_prefix;    // the keyspace
  std::string keyspace_end;  // the first stored key behind it
  uint64_t client_id = 0;
  std::unique_ptr<CoordinatorClient> coordinator;
  std::unique_ptr<Fabric> fabric;
  struct Lane {
    std::unique_ptr<Xchg> xchg;
    std::unique_ptr<LtcClient> ltc;
    std::shared_ptr<const Configuration> configuration;
    std::vector<std::shared_ptr<Op>> waiting;  // for a newer configuration
    Random random;
  };
  std::vector<std::unique_ptr<Lane>> lanes;
  std::atomic<uint64_t> next_lane{0};
  std::atomic<uint64_t> next_request{1};
  std::atomic<uint64_t> retries{0};
  std::atomic<int64_t> under_way{0};

  Mutex mu;
  CondVar wanted;
  bool refresh_wanted ABSL_GUARDED_BY(mu) = false;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  std::shared_ptr<const Configuration> configuration ABSL_GUARDED_BY(mu);
  std::unique_ptr<Thread> refresher;

  // --- configuration

  // The body of thread client.refresh: single flight, asleep until somebody found the configuration wrong.
  void Refresh() {
    Configuration known = *Current();
    for (;;) {
      {
        MutexLock lock(&mu);
        while (!refresh_wanted && !stopping) wanted.Wait(&mu);
        if (stopping) return;
        refresh_wanted = false;
      }
      const Nanos next = Now() + kMinRefreshPeriod;
      const Status s = coordinator->Refresh(&known, Now() + kSecond);
      if (!s.ok()) NOVA_LOG(INFO) << "configuration not refreshed: " << s;
      auto fresh = std::make_shared<const Configuration>(known);
      {
        MutexLock lock(&mu);
        configuration = fresh;
      }
      for (auto& lane : lanes) {
        lane->xchg->Submit([lane = lane.get(), fresh] { lane->configuration = fresh; });
      }
      SleepUntil(next);
    }
  }
  std::shared_ptr<const Configuration> Current() {
    MutexLock lock(&mu);
    return configuration;
  }
  void WantRefresh() {
    MutexLock lock(&mu);
    refresh_wanted = true;
    wanted.Signal();
  }

  // --- operations

  void Start(std::shared_ptr<Op> op) {
    op->deadline_ns = Now() + options.timeout_ms * kMillisecond;
    op->request_number = next_request.fetch_add(1, std::memory_order_relaxed);
    under_way.fetch_add(1);
    Lane* lane = lanes[next_lane.fetch_add(1, std::memory_order_relaxed) % lanes.size()].get();
    lane->xchg->Submit([this, lane, op = std::move(op)]() mutable { Try(lane, std::move(op)); });
  }

  void Try(Lane* lane, std::shared_ptr<Op> op) {
    const Nanos now = Now();
    if (now >= op->deadline_ns) return GiveUp(std::move(op));
    const RangeRoute* route = FindRoute(*lane->configuration, op->key);
    if (route == nullptr || !route->open || route->address.empty()) {
      op->last = Outcome::kUnavailable;
      op->last_where = route == nullptr ? "no range holds the key" : StrCat("range ", route->id.value(), " has no owner now");
      return RetryLater(lane, std::move(op));
    }
    op->last_where = StrCat("range ", route->id.value(), " epoch ", route->epoch.value(), " at ", route->address);
    switch (op->kind) {
      case OpKind::kPut:
      case OpKind::kDelete: return TryWrite(lane, *route, std::move(op));
      case OpKind::kGet: return TryGet(lane, *route, std::move(op));
      case OpKind::kScan: return TryScan(lane, *route, std::move(op));
    }
  }

  void TryWrite(Lane* lane, const RangeRoute& route, std::shared_ptr<Op> op) {
    const WriteRequest request{route.id, route.epoch, client_id, op->request_number, op->key, op->value};
    const Nanos deadline = op->deadline_ns;
    const OpKind kind = op->kind;
    auto done = [this, lane, op = std::move(op)](Outcome o) mutable {
      if (IsRetryable(o)) {  // A1: definitely not applied
        op->last = o;
        return RetryLater(lane, std::move(op));
      }
      Finish(op.get(), o);
    };
    kind == OpKind::kPut ? lane->ltc->Put(route.address, request, deadline, std::move(done))
                         : lane->ltc->Delete(route.address, request, deadline, std::move(done));
  }

  void TryGet(Lane* lane, const RangeRoute& route, std::shared_ptr<Op> op) {
    const GetRequest request{route.id, route.epoch, op->key};
    const Nanos deadline = std::min(op->deadline_ns, Now() + kReadTry);
    lane->ltc->Get(route.address, request, deadline, [this, lane, op = std::move(op)](Outcome o, std::string_view value) mutable {
      if (IsRetryable(o) || o == Outcome::kUnknown) {  // a read may be asked again whatever became of it
        op->last = o;
        return RetryLater(lane, std::move(op));
      }
      op->get.value.assign(value);
      Finish(op.get(), o);
    });
  }

  void TryScan(Lane* lane, const RangeRoute& route, std::shared_ptr<Op> op) {
    const size_t left = op->limit - op->scan.entries.size();
    const ScanRequest request{route.id, route.epoch, static_cast<uint32_t>(std::min<size_t>(left, kScanPage)), op->key, keyspace_end};
    const Nanos deadline = std::min(op->deadline_ns, Now() + kReadTry);
    const std::string upper = route.upper.empty() || route.upper >= keyspace_end ? "" : route.upper;
    lane->ltc->Scan(route.address, request, deadline,
                    [this, lane, upper, op = std::move(op)](Outcome o, const ScanReply& reply) mutable {
                      if (IsRetryable(o) || o == Outcome::kUnknown) {
                        op->last = o;
                        return RetryLater(lane, std::move(op));
                      }
                      if (o != Outcome::kOk || !TakePage(op.get(), reply)) {
                        return Finish(op.get(), o == Outcome::kOk ? Outcome::kInternal : o);
                      }
                      const bool full = op->scan.entries.size() >= op->limit;
                      if (full || (!reply.more && reply.count < kScanPage && upper.empty())) return Finish(op.get(), Outcome::kOk);
                      if (!reply.more && reply.count < kScanPage) op->key = upper;  // this range has no more: the next one
                      op->backoff_ns = kFirstBackoff;
                      Try(lane, std::move(op));
                    });
  }

  // Adds a page's entries; the scan goes on after the last of them.
  bool TakePage(Op* op, const ScanReply& reply) {
    std::string_view in = reply.entries, key, value;
    for (uint32_t i = 0; i < reply.count; ++i) {
      if (!GetLengthPrefixed(&in, &key) || !GetLengthPrefixed(&in, &value) || !key.starts_with(key_prefix)) return false;
      op->scan.entries.emplace_back(key.substr(key_prefix.size()), value);
      op->key.assign(key);
    }
    if (reply.count > 0) op->key.push_back('\0');
    return in.empty();
  }

  void RetryLater(Lane* lane, std::shared_ptr<Op> op) {
    if (op->last != Outcome::kBusy && op->last != Outcome::kNoSpace) WantRefresh();
    retries.fetch_add(1, std::memory_order_relaxed);
    const Nanos wait = op->backoff_ns / 2 + static_cast<Nanos>(lane->random.Uniform(static_cast<uint64_t>(op->backoff_ns)));
    op->backoff_ns = std::min(kMaxBackoff, op->backoff_ns * 2);
    const Nanos when = Now() + wait;
    if (when >= op->deadline_ns) return GiveUp(std::move(op));
    lane->xchg->RunAt(when, [this, lane, op = std::move(op)]() mutable { Try(lane, std::move(op)); });
  }

  // The deadline passed between tries: the last try was definitely not applied, so neither is the operation.
  void GiveUp(std::shared_ptr<Op> op) {
    Finish(op.get(), op->last == Outcome::kUnknown ? Outcome::kUnavailable : op->last);
  }

  void Finish(Op* op, Outcome o) {
    Result result{o, {}};
    if (o != Outcome::kOk) {
      result.message = StrCat(NameOf(op->kind), ": ", absl::string_view(OutcomeName(o).data(), OutcomeName(o).size()),
                              o == Outcome::kNotFound ? "" : " (" + op->last_where + ")");
    }
    switch (op->kind) {
      case OpKind::kPut:
      case OpKind::kDelete: op->write_done(std::move(result)); break;
      case OpKind::kGet:
        static_cast<Result&>(op->get) = std::move(result);
        op->get_done(std::move(op->get));
        break;
      case OpKind::kScan:
        static_cast<Result&>(op->scan) = std::move(result);
        if (o != Outcome::kOk) op->scan.entries.clear();
        op->scan_done(std::move(op->scan));
        break;
    }
    under_way.fetch_sub(1);
  }

  // InvalidArgument before anything is sent.
  static Result CheckKey(std::string_view key) {
    if (key.empty()) return {Outcome::kInvalidArgument, "the key is empty"};
    if (key.size() > kMaxUserKeyBytes) {
      return {Outcome::kInvalidArgument, StrCat("the key has ", key.size(), " bytes, the limit is ", kMaxUserKeyBytes)};
    }
    return {};
  }
  std::string Stored(std::string_view key) const { return key_prefix + std::string(key); }
};

Client::Client(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

namespace {

std::string FirstOf(const std::string& given, const char* variable, const char* otherwise) {
  if (!given.empty()) return given;
  const char* from_environment = std::getenv(variable);
  return from_environment != nullptr ? from_environment : otherwise;
}

StatusOr<std::unique_ptr<Fabric>> FabricOf(const ClientOptions& options) {
  FabricChoice choice;
  choice.fabric = FirstOf(options.fabric, "NOVA_FABRIC", "auto");
  choice.rdma_device = FirstOf(options.rdma_device, "NOVA_RDMA_DEVICE", "");
  NOVA_ASSIGN_OR_RETURN(OpenedFabric opened, OpenFabric(choice));
  NOVA_LOG(INFO) << "client: " << opened.text;
  return std::move(opened.fabric);
}

}  // namespace

StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  if (options.coordinators.empty()) return absl::InvalidArgumentError("no coordinator address");
  ClientEnvironment environment;
  environment.open_channel = [&options] { return OpenGrpcChannel(options.coordinators); };
  environment.open_fabric = [&options] { return FabricOf(options); };
  return Connect(options, environment);
}

StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options, const ClientEnvironment& environment) {
  if (options.timeout_ms < 1 || options.threads < 1) return absl::InvalidArgumentError("timeout_ms and threads must be positive");
  auto rep = std::make_unique<Rep>();
  rep->options = options;
  PutVarint32(&rep->key_prefix, options.keyspace);
  rep->keyspace_end = rep->key_prefix;
  ++rep->keyspace_end.back();  // a varint's last byte is below 0x80
  rep->client_id = RandomSeed();
  rep->coordinator = std::make_unique<CoordinatorClient>(environment.open_channel());
  Configuration configuration;
  NOVA_RETURN_IF_ERROR(Annotate(rep->coordinator->Refresh(&configuration, Now() + options.timeout_ms * kMillisecond),
                                "asking the coordinator for the configuration"));
  NOVA_ASSIGN_OR_RETURN(rep->fabric, environment.open_fabric());
  Hello self;
  self.role = Role::kClient;
  self.cluster = configuration.cluster;
  std::strncpy(self.name.data(), "client", self.name.size() - 1);
  auto shared = std::make_shared<const Configuration>(std::move(configuration));
  for (int i = 0; i < options.threads; ++i) {
    auto lane = std::make_unique<Rep::Lane>();
    XchgOptions x;
    x.name = StrCat("client.xchg.", i);
    x.index = static_cast<uint16_t>(i);
    lane->xchg = std::make_unique<Xchg>(rep->fabric.get(), self, x);
    lane->ltc = std::make_unique<LtcClient>(lane->xchg.get());
    lane->configuration = shared;
    rep->lanes.push_back(std::move(lane));
  }
  {
    MutexLock lock(&rep->mu);
    rep->configuration = shared;
  }
  for (auto& lane : rep->lanes) lane->xchg->Start();
  rep->refresher = std::make_unique<Thread>("client.refresh.0", [r = rep.get()] { r->Refresh(); });
  return std::unique_ptr<Client>(new Client(std::move(rep)));
}

Client::~Client() {
  while (rep_->under_way.load() > 0) SleepFor(kMillisecond);
  {
    MutexLock lock(&rep_->mu);
    rep_->stopping = true;
    rep_->wanted.SignalAll();
  }
  rep_->refresher->Join();
  for (auto& lane : rep_->lanes) lane->xchg->Stop();
}

void Client::PutAsync(std::string_view key, std::string_view value, std::function<void(Result)> done) {
  Result checked = Rep::CheckKey(key);
  const uint32_t max = rep_->Current()->max_value_bytes;
  if (checked.ok() && max != 0 && value.size() > max) {
    checked = {Outcome::kInvalidArgument, StrCat("the value has ", value.size(), " bytes, the limit is ", max)};
  }
  if (!checked.ok()) return done(std::move(checked));
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kPut;
  op->key = rep_->Stored(key);
  op->value.assign(value);
  op->write_done = std::move(done);
  rep_->Start(std::move(op));
}

void Client::DeleteAsync(std::string_view key, std::function<void(Result)> done) {
  Result checked = Rep::CheckKey(key);
  if (!checked.ok()) return done(std::move(checked));
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kDelete;
  op->key = rep_->Stored(key);
  op->write_done = std::move(done);
  rep_->Start(std::move(op));
}

void Client::GetAsync(std::string_view key, std::function<void(GetResult)> done) {
  Result checked = Rep::CheckKey(key);
  if (!checked.ok()) return done({std::move(checked), {}});
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kGet;
  op->key = rep_->Stored(key);
  op->get_done = std::move(done);
  rep_->Start(std::move(op));
}

void Client::ScanAsync(std::string_view from, size_t limit, std::function<void(ScanResult)> done) {
  if (from.size() > kMaxUserKeyBytes || limit == 0) {
    return done({{Outcome::kInvalidArgument, limit == 0 ? "a scan of no entries" : "the start key is too long"}, {}});
  }
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kScan;
  op->key = rep_->Stored(from);
  op->limit = limit;
  op->scan_done = std::move(done);
  rep_->Start(std::move(op));
}

namespace {

// Runs an asynchronous operation and waits for it.
template <typename R, typename StartFn>
R Wait(const StartFn& start) {
  R result;
  Notification done;
  start([&](R r) {
    result = std::move(r);
    done.Notify();
  });
  done.Wait();
  return result;
}

}  // namespace

Result Client::Put(std::string_view key, std::string_view value) {
  return Wait<Result>([&](auto done) { PutAsync(key, value, done); });
}
Result Client::Delete(std::string_view key) {
  return Wait<Result>([&](auto done) { DeleteAsync(key, done); });
}
GetResult Client::Get(std::string_view key) {
  return Wait<GetResult>([&](auto done) { GetAsync(key, done); });
}
ScanResult Client::Scan(std::string_view from, size_t limit) {
  return Wait<ScanResult>([&](auto done) { ScanAsync(from, limit, done); });
}

uint64_t Client::retries() const { return rep_->retries.load(); }
size_t Client::range_count() { return rep_->Current()->ranges.size(); }

std::string Client::StatusText() {
  const auto text = rep_->coordinator->StatusText(Now() + rep_->options.timeout_ms * kMillisecond);
  return text.ok() ? *text : StrCat("error: ", text.status().message(), "\n");
}

Status Client::CreateRanges(const std::vector<std::string>& split_keys) {
  std::vector<std::string> stored;
  for (const std::string& key : split_keys) stored.push_back(rep_->Stored(key));
  NOVA_RETURN_IF_ERROR(rep_->coordinator->CreateRanges(stored, Now() + rep_->options.timeout_ms * kMillisecond));
  rep_->WantRefresh();
  return OkStatus();
}

Status Client::Drain(const std::string& node, std::string* left) {
  return rep_->coordinator->Drain(node, Now() + rep_->options.timeout_ms * kMillisecond, left);
}

Status Client::ForceOpen(uint64_t range, bool accept_data_loss, std::string* report) {
  return rep_->coordinator->ForceOpen(RangeId(range), accept_data_loss, Now() + rep_->options.timeout_ms * kMillisecond, report);
}

}  // namespace nova
