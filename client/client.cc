#include "client/client.h"

#include <cstdlib>

#include "client/client_core.h"
#include "client/client_rep.h"
#include "common/base/coding.h"
#include "common/base/log.h"
#include "common/rdma/factory/open_fabric.h"
#include "coordinator/grpc_channel.h"

namespace nova {

Client::Client(std::unique_ptr<ClientRep> rep) : rep_(std::move(rep)) {}

namespace {

constexpr size_t kMaxBatchBytes = 16 << 20;  // what one message carries
// Of the two values of a compare-and-swap, which travel in one message with the key.
constexpr size_t kMaxSwapBytes = kMaxMessageBytes - 2 * kMaxUserKeyBytes;
constexpr int kMaxThreads = 1024;  // each has memory and connections of its own

Status CheckOption(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return OkStatus();
  return absl::InvalidArgumentError(StrCat(name, " = ", value, ": must be in [", low, ", ", high, "]"));
}

Result CheckTtl(int64_t ttl_ms) {
  if (ttl_ms > 0 && ttl_ms <= kMaxTtlMs) return {};
  return {Outcome::kInvalidArgument,
          StrCat("a time to live of ", ttl_ms, " ms: must be in [1, ", kMaxTtlMs, "]")};
}

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

StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options,
                                                  const ClientEnvironment& environment) {
  NOVA_RETURN_IF_ERROR(CheckOption("timeout_ms", options.timeout_ms, 1, kMaxTimeoutMs));
  NOVA_RETURN_IF_ERROR(CheckOption("threads", options.threads, 1, kMaxThreads));
  NOVA_RETURN_IF_ERROR(CheckOption("snapshot_lease_ms", options.snapshot_lease_ms, 1000, 600'000));
  auto rep = std::make_unique<ClientRep>();
  rep->options = options;
  PutVarint32(&rep->key_prefix, options.keyspace);
  rep->keyspace_end = rep->key_prefix;
  ++rep->keyspace_end.back();  // a varint's last byte is below 0x80
  rep->client_id = RandomSeed();
  rep->coordinator = std::make_unique<CoordinatorClient>(environment.open_channel());
  Configuration configuration;
  NOVA_RETURN_IF_ERROR(
      Annotate(rep->coordinator->Refresh(&configuration, Now() + options.timeout_ms * kMillisecond),
               "asking the coordinator for the configuration"));
  NOVA_ASSIGN_OR_RETURN(rep->fabric, environment.open_fabric());
  Hello self;
  self.role = Role::kClient;
  self.cluster = configuration.cluster;
  self.name = ToNodeName("client");
  auto shared = std::make_shared<const Configuration>(std::move(configuration));
  for (int i = 0; i < options.threads; ++i) {
    auto lane = std::make_unique<ClientLane>();
    XchgOptions x;
    x.name = StrCat("client.xchg.", i);
    x.index = static_cast<uint16_t>(i);
    NOVA_ASSIGN_OR_RETURN(lane->xchg, Xchg::Open(rep->fabric.get(), self, x));
    lane->ltc = std::make_unique<LtcClient>(lane->xchg.get());
    lane->configuration = shared;
    rep->lanes.push_back(std::move(lane));
  }
  {
    MutexLock lock(&rep->mu);
    rep->configuration = shared;
  }
  {
    MutexLock lock(&rep->link->mu);
    rep->link->client = rep.get();
  }
  for (auto& lane : rep->lanes) lane->xchg->Start();
  rep->refresher = std::make_unique<Thread>("client.refresh.0", [r = rep.get()] { r->Refresh(); });
  return std::unique_ptr<Client>(new Client(std::move(rep)));
}

Client::~Client() {
  while (rep_->under_way.load() > 0) SleepFor(kMillisecond);
  {
    MutexLock lock(&rep_->link->mu);
    rep_->link->client = nullptr;
  }
  {
    MutexLock lock(&rep_->mu);
    rep_->stopping = true;
    rep_->wanted.SignalAll();
  }
  rep_->refresher->Join();
  for (auto& lane : rep_->lanes) lane->xchg->Stop();
}

// --- operations on one key, or one range

void Client::PutAsync(std::string_view key, std::string_view value, const WriteOptions& options,
                      std::function<void(Result)> done) {
  Result checked = ClientRep::CheckKey(key);
  if (checked.ok()) checked = rep_->CheckValue(value);
  if (checked.ok() && options.ttl_ms != 0) checked = CheckTtl(options.ttl_ms);
  if (!checked.ok()) return done(std::move(checked));
  auto op = rep_->NewOp("put", rep_->Stored(key));
  op->end = std::move(done);
  const auto ttl_ms = options.ttl_ms != 0 ? std::optional<uint64_t>(options.ttl_ms) : std::nullopt;
  op->send = [rep = rep_.get(), value = std::string(value), ttl_ms, sync = options.sync](const Target& target,
                                                                                         const OpRef& op) {
    const WriteRequest request{target.range, target.epoch, rep->client_id, op->request_number,
                               op->key,      value,        ttl_ms,         sync};
    op->lane->ltc->Put(target.address, request, op->deadline_ns,
                       [rep, op](Outcome o) { rep->EndWrite(op, o); });
  };
  rep_->Start(std::move(op));
}

void Client::DeleteAsync(std::string_view key, const WriteOptions& options,
                         std::function<void(Result)> done) {
  Result checked = ClientRep::CheckKey(key);
  if (!checked.ok()) return done(std::move(checked));
  auto op = rep_->NewOp("delete", rep_->Stored(key));
  op->end = std::move(done);
  op->send = [rep = rep_.get(), sync = options.sync](const Target& target, const OpRef& op) {
    const WriteRequest request{target.range, target.epoch, rep->client_id, op->request_number,
                               op->key,      {},           std::nullopt,   sync};
    op->lane->ltc->Delete(target.address, request, op->deadline_ns,
                          [rep, op](Outcome o) { rep->EndWrite(op, o); });
  };
  rep_->Start(std::move(op));
}

// From range to range, in the order of keys. What is not answered is unknown, as of any write; what is
// refused behind a range that is done already is not "not applied" either.
void Client::DeleteRangeAsync(std::string_view begin, std::string_view end, const WriteOptions& options,
                              std::function<void(Result)> done) {
  Result checked = ClientRep::CheckKeyRange(begin, end);
  if (!checked.ok()) return done(std::move(checked));
  auto op = rep_->NewOp("delete-range", rep_->Stored(begin));
  // stored: everything below it is deleted; empty: nothing is
  const auto reached = std::make_shared<std::string>();
  op->end = [reached, prefix = rep_->key_prefix.size(), done = std::move(done)](Result result) {
    if (!result.ok() && !reached->empty()) {
      result.outcome = Outcome::kUnknown;
      result.message += StrCat("; the keys below ", reached->substr(prefix), " are deleted");
    }
    done(std::move(result));
  };
  op->send = [rep = rep_.get(), end = rep_->StoredEnd(end), reached, sync = options.sync](
                 const Target& target, const OpRef& op) {
    const bool last = target.upper.empty() || end <= target.upper;
    const std::string to = last ? end : target.upper;
    const WriteRequest request{target.range, target.epoch, rep->client_id, op->request_number,
                               op->key,      to,           std::nullopt,   sync};
    op->lane->ltc->DeleteRange(
        target.address, request, op->deadline_ns, [rep, op, last, to, reached](Outcome o) {
          if (o != Outcome::kOk || last) return rep->EndWrite(op, o);
          *reached = op->key = to;
          op->request_number = rep->next_request.fetch_add(1, std::memory_order_relaxed);
          rep->Try(op);
        });
  };
  rep_->Start(std::move(op));
}

void Client::WriteAsync(const WriteBatch& batch, const WriteOptions& options,
                        std::function<void(Result)> done) {
  if (batch.count() == 0) return done({});
  if (batch.bytes() > kMaxBatchBytes) {
    return done({Outcome::kInvalidArgument,
                 StrCat("the batch has ", batch.bytes(), " bytes, the limit is ", kMaxBatchBytes)});
  }
  std::string entries;
  std::string_view least = batch.entry(0).key, greatest = least;
  std::string deleted_to;  // stored: where the range deletions of the batch end; empty: it has none
  for (size_t i = 0; i < batch.count(); ++i) {
    WriteBatch::Entry e = batch.entry(i);
    const bool range_delete = e.type == ValueType::kDeleteRange;
    Result checked = range_delete ? ClientRep::CheckKeyRange(e.key, e.value) : ClientRep::CheckKey(e.key);
    if (checked.ok() && !range_delete) checked = rep_->CheckValue(e.value);
    if (checked.ok() && e.type == ValueType::kPutTtl) checked = CheckTtl(e.ttl_ms);
    if (!checked.ok())
      return done({checked.outcome, StrCat("entry ", i, " of the batch: ", checked.message)});
    least = std::min(least, e.key);
    greatest = std::max(greatest, e.key);
    const std::string end = range_delete ? rep_->StoredEnd(e.value) : "";
    deleted_to = std::max(deleted_to, end);
    if (range_delete) e.value = end;
    BatchRequest::AppendEntry(rep_->key_prefix, e, &entries);
  }
  auto op = rep_->NewOp("batch", rep_->Stored(least));
  op->end = std::move(done);
  op->send = [rep = rep_.get(), greatest = rep_->Stored(greatest), deleted_to = std::move(deleted_to),
              count = static_cast<uint32_t>(batch.count()), entries = std::move(entries),
              sync = options.sync](const Target& target, const OpRef& op) {
    // of one range, as each batch (K6) is
    if (!target.Contains(greatest) || (!target.upper.empty() && deleted_to > target.upper)) {
      op->last_where = "its keys are of more than one range";
      return rep->Finish(op.get(), Outcome::kInvalidArgument);
    }
    const BatchRequest request{target.range, target.epoch, rep->client_id, op->request_number, count,
                               entries,      sync};
    op->lane->ltc->Batch(target.address, request, op->deadline_ns, [rep, op, count](Outcome o) {
      if (o == Outcome::kInvalidArgument)
        op->last_where = StrCat(count, " entries: over the limits of ", op->last_where);
      rep->EndWrite(op, o);
    });
  };
  rep_->Start(std::move(op));
}

void Client::CompareAndSwapAsync(std::string_view key, std::optional<std::string_view> expected,
                                 std::optional<std::string_view> desired, const WriteOptions& options,
                                 std::function<void(Result)> done) {
  Result checked = ClientRep::CheckKey(key);
  if (checked.ok() && desired) checked = rep_->CheckValue(*desired);
  if (checked.ok() && expected) checked = rep_->CheckValue(*expected);
  const size_t bytes = expected.value_or("").size() + desired.value_or("").size();
  if (checked.ok() && bytes > kMaxSwapBytes) {
    checked = {Outcome::kInvalidArgument,
               StrCat("the two values have ", bytes, " bytes, the limit is ", kMaxSwapBytes)};
  }
  if (!checked.ok()) return done(std::move(checked));
  auto op = rep_->NewOp("compare-and-swap", rep_->Stored(key));
  op->end = std::move(done);
  op->send = [rep = rep_.get(), expected = std::optional<std::string>(expected),
              desired = std::optional<std::string>(desired),
              sync = options.sync](const Target& target, const OpRef& op) {
    const CompareAndSwapRequest request{target.range, target.epoch, rep->client_id, op->request_number,
                                        op->key,      expected,     desired,        sync};
    op->lane->ltc->CompareAndSwap(target.address, request, op->deadline_ns,
                                  [rep, op](Outcome o) { rep->EndWrite(op, o); });
  };
  rep_->Start(std::move(op));
}

void Client::GetAsync(std::string_view key, const ReadOptions& options, std::function<void(GetResult)> done) {
  Result checked = ClientRep::CheckKey(key);
  if (checked.ok()) checked = rep_->CheckSnapshot(options.snapshot);
  if (!checked.ok()) return done({std::move(checked), {}});
  auto op = rep_->NewOp("get", rep_->Stored(key));
  op->snapshot = options.snapshot;
  const auto value = std::make_shared<std::string>();
  op->end = [value, done = std::move(done)](Result result) { done({std::move(result), std::move(*value)}); };
  op->send = [rep = rep_.get(), value](const Target& target, const OpRef& op) {
    const GetRequest request{target.range, target.epoch, target.snapshot, op->key};
    op->lane->ltc->Get(target.address, request, rep->ReadDeadline(*op),
                       [rep, op, value](Outcome o, std::string_view found, std::string_view why) {
                         if (rep->RetriesRead(op, o, why)) return;
                         value->assign(found);
                         rep->Finish(op.get(), o);
                       });
  };
  rep_->Start(std::move(op));
}

void Client::TakeSnapshotAsync(std::function<void(SnapshotResult)> done) {
  rep_->TakeSnapshot(std::move(done));
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

Result Client::Put(std::string_view key, std::string_view value, const WriteOptions& options) {
  return Wait<Result>([&](auto done) { PutAsync(key, value, options, done); });
}
Result Client::Delete(std::string_view key, const WriteOptions& options) {
  return Wait<Result>([&](auto done) { DeleteAsync(key, options, done); });
}
Result Client::DeleteRange(std::string_view begin, std::string_view end, const WriteOptions& options) {
  return Wait<Result>([&](auto done) { DeleteRangeAsync(begin, end, options, done); });
}
Result Client::Write(const WriteBatch& batch, const WriteOptions& options) {
  return Wait<Result>([&](auto done) { WriteAsync(batch, options, done); });
}
Result Client::CompareAndSwap(std::string_view key, std::optional<std::string_view> expected,
                              std::optional<std::string_view> desired, const WriteOptions& options) {
  return Wait<Result>([&](auto done) { CompareAndSwapAsync(key, expected, desired, options, done); });
}
GetResult Client::Get(std::string_view key, const ReadOptions& options) {
  return Wait<GetResult>([&](auto done) { GetAsync(key, options, done); });
}
MultiGetResult Client::MultiGet(std::span<const std::string_view> keys, const ReadOptions& options) {
  return Wait<MultiGetResult>([&](auto done) { MultiGetAsync(keys, options, done); });
}
ScanResult Client::Scan(std::string_view from, const ScanOptions& options) {
  return Wait<ScanResult>([&](auto done) { ScanAsync(from, options, done); });
}
SnapshotResult Client::TakeSnapshot() {
  return Wait<SnapshotResult>([&](auto done) { TakeSnapshotAsync(done); });
}

uint64_t Client::retries() const { return rep_->retries.load(); }
size_t Client::range_count() { return rep_->Current()->ranges.size(); }

std::string Client::StatusText() {
  const auto text = rep_->coordinator->StatusText(Now() + rep_->options.timeout_ms * kMillisecond);
  return text.ok() ? *text : StrCat("error: ", text.status().message(), "\n");
}

StatusOr<std::string> Client::StatusJson() {
  return rep_->coordinator->StatusJson(Now() + rep_->options.timeout_ms * kMillisecond);
}

Status Client::CreateRanges(const std::vector<std::string>& split_keys) {
  std::vector<std::string> stored;
  for (const std::string& key : split_keys) stored.push_back(rep_->Stored(key));
  NOVA_RETURN_IF_ERROR(
      rep_->coordinator->CreateRanges(stored, Now() + rep_->options.timeout_ms * kMillisecond));
  rep_->WantRefresh();
  return OkStatus();
}

Status Client::Drain(const std::string& node, std::string* left, bool force) {
  return rep_->coordinator->Drain(node, Now() + rep_->options.timeout_ms * kMillisecond, left, force);
}
Status Client::Undrain(const std::string& node, std::string* now) {
  return rep_->coordinator->Undrain(node, Now() + rep_->options.timeout_ms * kMillisecond, now);
}

Status Client::Forget(uint32_t stoc) {
  return rep_->coordinator->Forget(StocId(stoc), Now() + rep_->options.timeout_ms * kMillisecond);
}

Status Client::ChangeSetting(const std::string& name, std::optional<int> value) {
  return rep_->coordinator->ChangeSetting(name, value, Now() + rep_->options.timeout_ms * kMillisecond);
}

Status Client::ForceOpen(uint64_t range, bool accept_data_loss, std::string* report) {
  return rep_->coordinator->ForceOpen(RangeId(range), accept_data_loss,
                                      Now() + rep_->options.timeout_ms * kMillisecond, report);
}

}  // namespace nova
