#include "ltc/server/ltc_server.h"

#include <algorithm>

#include "common/base/failpoint.h"
#include "common/rdma/handle_body.h"

namespace nova {
namespace {

constexpr Nanos kSweepPeriod = 5 * kSecond;  // of snapshots whose lease is over
// what the keys that a multi-get reads at a time may bring at most
constexpr uint64_t kMultiGetReadBytes = 16 << 20;
constexpr uint64_t kMultiGetReadKeys = 64;

// A stored key as a client may send it: a keyspace and 1 to 4096 bytes of user key.
bool IsValidStoredKey(std::string_view key) {
  size_t keyspace = 0;
  while (keyspace < key.size() && keyspace < 5 && (static_cast<uint8_t>(key[keyspace]) & 0x80) != 0)
    ++keyspace;
  ++keyspace;
  return key.size() > keyspace && key.size() <= keyspace + kMaxUserKeyBytes;
}

// Of a range deletion: a stored key, or just a keyspace.
bool IsBound(std::string_view key) { return !key.empty() && key.size() <= 5 + kMaxUserKeyBytes; }

// Keys just below `to` (empty: the end) are the range's.
bool EndsIn(const Range& range, std::string_view to) {
  if (to.empty()) return range.spec().upper.empty();
  return to > range.spec().lower && (range.spec().upper.empty() || to <= range.spec().upper);
}

// The outcome of a request for a snapshot. A caller that has given up would neither read at it nor drop it.
Outcome UnlessLate(Outcome o, Nanos deadline_ns) {
  return o == Outcome::kOk && Now() >= deadline_ns ? Outcome::kDeadlineExceeded : o;
}

}  // namespace

// As nova_ltc_requests_total has them, which counts snapshots too.
const std::pair<LtcServer::Op, const char*> LtcServer::kOpNames[] = {
    {kWriteOp, "write"}, {kBatchOp, "batch"},        {kSwapOp, "compare_and_swap"},
    {kGetOp, "get"},     {kMultiGetOp, "multi_get"}, {kScanOp, "scan"}};

LtcServer::LtcServer(std::vector<XchgExecutor*> executors, const LtcServerOptions& options,
                     std::function<Nanos()> lease_expiry_ns, Metrics* metrics)
    : executors_(std::move(executors)),
      options_(options),
      lease_expiry_ns_(std::move(lease_expiry_ns)),
      lanes_(executors_.size()),
      ranges_(std::make_shared<const RangeMap>()),
      snapshots_(options.max_snapshots_per_range),
      puts_(metrics->counter("nova_ltc_requests_total{op=\"write\"}")),
      batches_(metrics->counter("nova_ltc_requests_total{op=\"batch\"}")),
      swaps_(metrics->counter("nova_ltc_requests_total{op=\"compare_and_swap\"}")),
      gets_(metrics->counter("nova_ltc_requests_total{op=\"get\"}")),
      multi_gets_(metrics->counter("nova_ltc_requests_total{op=\"multi_get\"}")),
      scans_(metrics->counter("nova_ltc_requests_total{op=\"scan\"}")),
      snapshots_taken_(metrics->counter("nova_ltc_requests_total{op=\"snapshot\"}")),
      not_owner_(metrics->counter("nova_ltc_not_owner_total")),
      malformed_(metrics->counter("nova_ltc_malformed_requests_total")) {
  for (size_t i = 0; i < executors_.size(); ++i) {
    served_ns_.push_back(std::make_unique<Served>());
    Handle(i, LtcRequest::kPut, kWriteOp, &LtcServer::HandleWrite<ValueType::kPut>);
    Handle(i, LtcRequest::kDelete, kWriteOp, &LtcServer::HandleWrite<ValueType::kDelete>);
    Handle(i, LtcRequest::kDeleteRange, kWriteOp, &LtcServer::HandleWrite<ValueType::kDeleteRange>);
    Handle(i, LtcRequest::kBatch, kBatchOp, &LtcServer::HandleBatch);
    Handle(i, LtcRequest::kCompareAndSwap, kSwapOp, &LtcServer::HandleCompareAndSwap);
    Handle(i, LtcRequest::kGet, kGetOp, &LtcServer::HandleGet);
    Handle(i, LtcRequest::kMultiGet, kMultiGetOp, &LtcServer::HandleMultiGet);
    Handle(i, LtcRequest::kScan, kScanOp, &LtcServer::HandleScan);
    Handle(i, LtcRequest::kBeginScan, kScanOp, &LtcServer::HandleBeginScan);
    Handle(i, LtcRequest::kTakeSnapshot, kNotTimed, &LtcServer::HandleTakeSnapshot);
    Handle(i, LtcRequest::kRenewSnapshot, kNotTimed, &LtcServer::HandleRenewSnapshot);
    Handle(i, LtcRequest::kDropSnapshot, kNotTimed, &LtcServer::HandleDropSnapshot);
    Handle(i, LtcRequest::kCheckpoint, kNotTimed, &LtcServer::HandleCheckpoint);
  }
  for (const auto& [op, name] : kOpNames) {
    metrics->AddHistogram(StrCat("nova_ltc_request_ns{op=\"", name, "\"}"), [this, op = op](Histogram* sum) {
      for (const auto& served : served_ns_) sum->Merge((*served)[op]);
    });
  }
  executors_[0]->xchg()->AddTimer(kSweepPeriod, [this] { snapshots_.Sweep(Now()); });
  metrics->AddCallback("nova_ltc_snapshots", [this] { return static_cast<double>(snapshots_.size()); });
}

template <typename Request>
void LtcServer::Handle(size_t index, LtcRequest type, Op op,
                       void (LtcServer::*handler)(size_t, const IncomingCall&, const Request&)) {
  HandleBody<Request>(
      executors_[index]->xchg(), type, malformed_,
      [this, index, handler](const IncomingCall& call, const Request& request) {
        (this->*handler)(index, call, request);
      },
      op == kNotTimed ? nullptr : &(*served_ns_[index])[op]);
}

void LtcServer::SetRanges(std::shared_ptr<const RangeMap> ranges) {
  snapshots_.KeepOnly([&ranges](RangeId id, Epoch epoch) {
    const auto it = ranges->find(id);
    return it != ranges->end() && it->second->spec().epoch == epoch;
  });
  {
    MutexLock lock(&mu_);
    ranges_ = std::move(ranges);
    generation_.fetch_add(1, std::memory_order_release);
  }
  // Idle lanes let go of what is no longer here.
  for (size_t i = 0; i < executors_.size(); ++i) {
    executors_[i]->Submit([this, i] {
      Range* range;
      FindRange(i, RangeId(), Epoch(), &range);
    });
  }
}

void LtcServer::CloseMalformed(size_t index, const IncomingCall& call) {
  malformed_->Add();
  executors_[index]->xchg()->Close(call.connection);
}

Outcome LtcServer::FindRange(size_t index, RangeId id, Epoch epoch, Range** range) {
  Lane& lane = lanes_[index];
  if (lane.generation != generation_.load(std::memory_order_acquire) || lane.ranges == nullptr) {
    MutexLock lock(&mu_);
    lane.ranges = ranges_;
    lane.generation = generation_.load(std::memory_order_relaxed);
  }
  const auto it = lane.ranges->find(id);
  if (it == lane.ranges->end() || it->second->spec().epoch != epoch) {
    not_owner_->Add();
    return Outcome::kNotOwner;
  }
  *range = it->second.get();
  return Outcome::kOk;
}

Outcome LtcServer::FindRangeOf(size_t index, RangeId id, Epoch epoch, std::string_view key, Range** range) {
  const Outcome found = FindRange(index, id, epoch, range);
  if (found != Outcome::kOk || (*range)->Contains(key)) return found;
  not_owner_->Add();
  return Outcome::kNotOwner;
}

Outcome LtcServer::FindSnapshot(const Range& range, uint64_t id,
                                std::shared_ptr<const Snapshot>* snapshot) const {
  if (id == 0) return Outcome::kOk;
  *snapshot = snapshots_.Find(range.id(), range.spec().epoch, id, Now());
  return *snapshot == nullptr ? Outcome::kSnapshotEnded : Outcome::kOk;
}

// --- writes

Outcome LtcServer::IsWritable(ValueType type, std::string_view key, std::string_view value,
                              std::optional<uint64_t> ttl_ms) const {
  if (type == ValueType::kDeleteRange)
    return IsBound(key) && IsBound(value) ? Outcome::kOk : Outcome::kInvalidArgument;
  const bool valid = IsValidStoredKey(key) && value.size() <= options_.max_value_bytes &&
                     (!ttl_ms || (*ttl_ms > 0 && *ttl_ms <= static_cast<uint64_t>(kMaxTtlMs)));
  return valid ? Outcome::kOk : Outcome::kInvalidArgument;
}

WriteDone LtcServer::ReplyToWrite(size_t index, const IncomingCall& call) {
  return [this, xchg = executors_[index]->xchg(), connection = call.connection,
          id = call.request_id](Outcome o) {
    // A lease (C3) in mode none; else writes need no lease (C4).
    if (o == Outcome::kOk && options_.writes_need_lease && !HasLease()) o = Outcome::kUnknown;
    // C3: it says what was read. Nothing was written.
    if (o == Outcome::kConditionFailed && !HasLease()) o = Outcome::kNotOwner;
    xchg->Reply(connection, id, o, {});
  };
}

template <ValueType type>
void LtcServer::HandleWrite(size_t index, const IncomingCall& call, const WriteRequest& request) {
  Xchg* const xchg = executors_[index]->xchg();
  if ((type != ValueType::kPut && request.ttl_ms) || (type == ValueType::kDelete && !request.value.empty()))
    return CloseMalformed(index, call);
  puts_->Add();
  Range* range;
  Outcome found = IsWritable(type, request.key, request.value, request.ttl_ms);
  if (found == Outcome::kOk) found = FindRangeOf(index, request.range, request.epoch, request.key, &range);
  if (found == Outcome::kOk && options_.writes_need_lease && !HasLease()) found = Outcome::kNotOwner;
  if (found != Outcome::kOk) return xchg->Reply(call.connection, call.request_id, found, {});
  WriteEntry entry{type, request.key, request.value};
  if (request.ttl_ms) {
    entry.type = ValueType::kPutTtl;
    entry.ttl_ms = static_cast<int64_t>(*request.ttl_ms);
  }
  range->Write(executors_[index],
               {{&entry, 1}, request.client_id, request.request_number, call.deadline_ns, request.sync},
               ReplyToWrite(index, call));
}

// Atomicity (K6): the range refuses what is not all its own.
void LtcServer::HandleBatch(size_t index, const IncomingCall& call, const BatchRequest& request) {
  Xchg* const xchg = executors_[index]->xchg();
  const auto refuse = [&](Outcome o) { xchg->Reply(call.connection, call.request_id, o, {}); };
  batches_->Add();
  if (request.count == 0 || request.count > options_.max_batch_entries)
    return refuse(Outcome::kInvalidArgument);
  std::vector<WriteBatch::Entry> parsed;
  if (!request.ParseEntries(&parsed)) return CloseMalformed(index, call);
  std::vector<WriteEntry> entries;
  entries.reserve(parsed.size());
  for (const WriteBatch::Entry& e : parsed) {
    const auto ttl_ms = e.type == ValueType::kPutTtl ? std::optional<uint64_t>(e.ttl_ms) : std::nullopt;
    if (IsWritable(e.type, e.key, e.value, ttl_ms) != Outcome::kOk) return refuse(Outcome::kInvalidArgument);
    entries.push_back({e.type, e.key, e.value, e.ttl_ms});
  }
  Range* range;
  const Outcome found = FindRangeOf(index, request.range, request.epoch, entries[0].key, &range);
  if (found != Outcome::kOk) return refuse(found);
  if (options_.writes_need_lease && !HasLease()) return refuse(Outcome::kNotOwner);
  range->Write(executors_[index],
               {entries, request.client_id, request.request_number, call.deadline_ns, request.sync},
               ReplyToWrite(index, call));
}

void LtcServer::HandleCompareAndSwap(size_t index, const IncomingCall& call,
                                     const CompareAndSwapRequest& request) {
  Xchg* const xchg = executors_[index]->xchg();
  swaps_->Add();
  Range* range;
  Outcome found = IsWritable(ValueType::kPut, request.key, request.desired.value_or(""), std::nullopt);
  if (found == Outcome::kOk) found = FindRangeOf(index, request.range, request.epoch, request.key, &range);
  if (found == Outcome::kOk && options_.writes_need_lease && !HasLease()) found = Outcome::kNotOwner;
  if (found != Outcome::kOk) return xchg->Reply(call.connection, call.request_id, found, {});
  CompareAndSwapOp op;
  op.key = request.key;
  if (request.expected) op.expected = *request.expected;
  if (request.desired) op.desired = *request.desired;
  op.client_id = request.client_id;
  op.request_number = request.request_number;
  op.deadline_ns = call.deadline_ns;
  op.sync = request.sync;
  range->CompareAndSwap(executors_[index], std::move(op), ReplyToWrite(index, call));
}

// --- reads

void LtcServer::HandleGet(size_t index, const IncomingCall& call, const GetRequest& request) {
  Xchg* const xchg = executors_[index]->xchg();
  gets_->Add();
  Range* range;
  std::shared_ptr<const Snapshot> snapshot;
  Outcome found = IsValidStoredKey(request.key)
                      ? FindRangeOf(index, request.range, request.epoch, request.key, &range)
                      : Outcome::kInvalidArgument;
  if (found == Outcome::kOk) found = FindSnapshot(*range, request.snapshot, &snapshot);
  if (found == Outcome::kOk && !HasLease()) {
    found = Outcome::kNotOwner;  // C3: at once; and again before the reply
  }
  if (found != Outcome::kOk) return xchg->Reply(call.connection, call.request_id, found, {});
  auto done = [this, xchg, connection = call.connection, id = call.request_id](Outcome o,
                                                                               std::string_view value) {
    if (!HasLease()) return xchg->Reply(connection, id, Outcome::kNotOwner, {});  // C3
    NOVA_FP_VOID("ltc.lease_checked");
    const std::string_view parts[] = {value};
    xchg->Reply(connection, id, o, parts);
  };
  snapshot == nullptr
      ? range->Get(executors_[index], request.key, call.deadline_ns, std::move(done))
      : range->GetAt(executors_[index], *snapshot, request.key, call.deadline_ns, std::move(done));
}

template <typename Request>
Outcome LtcServer::BeginPage(size_t index, const IncomingCall& call, const Request& request, Range** range) {
  scans_->Add();
  if (request.limit == 0 || request.limit > options_.max_scan_limit) return Outcome::kInvalidArgument;
  if (const Outcome o = FindRange(index, request.range, request.epoch, range); o != Outcome::kOk) return o;
  // Where it begins must be of this range: the client goes on where a range ends.
  if (!(request.reverse ? EndsIn(**range, request.to) : (*range)->Contains(request.from)))
    return Outcome::kNotOwner;
  if (!HasLease()) return Outcome::kNotOwner;  // C3, as in HandleGet
  const uint64_t longest = uint64_t{request.limit} * (kMaxUserKeyBytes + options_.max_value_bytes);
  executors_[index]->xchg()->ExpectReply(call.request_id, std::min(options_.page_bytes, longest));
  return Outcome::kOk;
}

void LtcServer::HandleScan(size_t index, const IncomingCall& call, const ScanRequest& request) {
  Xchg* const xchg = executors_[index]->xchg();
  Range* range;
  std::shared_ptr<const Snapshot> snapshot;
  Outcome found = BeginPage(index, call, request, &range);
  if (found == Outcome::kOk) found = FindSnapshot(*range, request.snapshot, &snapshot);
  if (found != Outcome::kOk) return xchg->Reply(call.connection, call.request_id, found, {});
  ScanOp op{std::string(request.from), std::string(request.to), request.limit,
            call.deadline_ns,          std::move(snapshot),     request.reverse};
  range->Scan(executors_[index], std::move(op),
              [this, xchg, connection = call.connection, id = call.request_id](Outcome o, ScanPage page) {
                if (!HasLease()) return xchg->Reply(connection, id, Outcome::kNotOwner, {});  // C3
                const std::string_view why[] = {page.why};
                if (o != Outcome::kOk) return xchg->Reply(connection, id, o, why);
                const std::string header = Body(ScanReply{page.count, page.more, {}});
                const std::string_view parts[] = {header, page.entries};
                xchg->Reply(connection, id, o, parts);
              });
}

// The snapshot is there before the page is read, and kept for the client only if more may follow.
void LtcServer::HandleBeginScan(size_t index, const IncomingCall& call, const BeginScanRequest& request) {
  XchgExecutor* const on = executors_[index];
  Range* range;
  const Outcome found =
      request.lease_ms == 0 ? Outcome::kInvalidArgument : BeginPage(index, call, request, &range);
  if (found != Outcome::kOk) return on->xchg()->Reply(call.connection, call.request_id, found, {});
  ScanOp op{std::string(request.from), std::string(request.to), request.limit,
            call.deadline_ns,          /*snapshot=*/nullptr,    request.reverse};
  range->TakeSnapshot(
      on, EndOfLease(request.lease_ms),
      [this, on, keep = range->shared_from_this(), op = std::move(op), connection = call.connection,
       id = call.request_id,
       beyond_limit = request.beyond_limit](Outcome o, std::shared_ptr<Snapshot> taken) mutable {
        const Nanos deadline_ns = op.deadline_ns;
        o = UnlessLate(o, deadline_ns);
        if (o != Outcome::kOk) return on->xchg()->Reply(connection, id, o, {});
        op.snapshot = taken;
        const uint32_t limit = beyond_limit ? op.limit : UINT32_MAX;
        keep->Scan(on, std::move(op), [=, this](Outcome scanned, ScanPage page) {
          scanned = UnlessLate(scanned, deadline_ns);
          if (!HasLease()) return on->xchg()->Reply(connection, id, Outcome::kNotOwner, {});  // C3
          const std::string_view why[] = {page.why};
          if (scanned != Outcome::kOk) return on->xchg()->Reply(connection, id, scanned, why);
          BeginScanReply reply{0, {page.count, page.more, {}}};
          if (page.more || page.count >= limit) {
            snapshots_taken_->Add();
            reply.snapshot = snapshots_.Add(keep->id(), keep->spec().epoch, taken, Now());
            if (reply.snapshot == 0) return on->xchg()->Reply(connection, id, Outcome::kBusy, {});
          }
          const std::string header = Body(reply);
          const std::string_view parts[] = {header, page.entries};
          on->xchg()->Reply(connection, id, scanned, parts);
        });
      });
}

struct LtcServer::MultiGetCall {
  std::shared_ptr<Range> range;
  XchgExecutor* on = nullptr;
  ConnectionId connection;
  uint64_t id = 0;
  Nanos deadline_ns = kNever;
  std::vector<std::string> keys;
  std::shared_ptr<const Snapshot> snapshot;  // null: all keys are read at once
  size_t read_at_a_time = 0;
  uint32_t answered = 0;
  std::string answers;

  void Reply() {
    const std::string header = MultiGetReply::EncodeHeader(answered);
    const std::string_view parts[] = {header, answers};
    on->xchg()->Reply(connection, id, Outcome::kOk, parts);
  }
  void Refuse(Outcome o, std::string_view why = {}) {
    const std::string_view parts[] = {why};
    on->xchg()->Reply(connection, id, o, parts);
  }
};

void LtcServer::HandleMultiGet(size_t index, const IncomingCall& call, const MultiGetRequest& request) {
  Xchg* const xchg = executors_[index]->xchg();
  multi_gets_->Add();
  const auto get = std::make_shared<MultiGetCall>();
  Range* range;
  const bool valid =
      !request.keys.empty() && std::all_of(request.keys.begin(), request.keys.end(), IsValidStoredKey);
  Outcome found = valid ? FindRange(index, request.range, request.epoch, &range) : Outcome::kInvalidArgument;
  if (found == Outcome::kOk) found = FindSnapshot(*range, request.snapshot, &get->snapshot);
  if (found == Outcome::kOk && !std::all_of(request.keys.begin(), request.keys.end(),
                                            [&](auto key) { return range->Contains(key); })) {
    found = Outcome::kNotOwner;
  }
  if (found == Outcome::kOk && !HasLease()) found = Outcome::kNotOwner;  // C3, as in HandleGet
  if (found != Outcome::kOk) return xchg->Reply(call.connection, call.request_id, found, {});
  const uint64_t longest = uint64_t{request.keys.size()} * options_.max_value_bytes;
  xchg->ExpectReply(call.request_id, std::min(options_.page_bytes, longest));
  get->range = range->shared_from_this();
  get->on = executors_[index];
  get->connection = call.connection;
  get->id = call.request_id;
  get->deadline_ns = call.deadline_ns;
  get->keys.assign(request.keys.begin(), request.keys.end());
  get->read_at_a_time =
      std::clamp<uint64_t>(kMultiGetReadBytes / options_.max_value_bytes, 1, kMultiGetReadKeys);
  if (get->snapshot != nullptr || get->keys.size() <= get->read_at_a_time) return ReadSome(get);
  const Nanos expires = std::min(call.deadline_ns, Now() + options_.max_snapshot_lease_ms * kMillisecond);
  range->TakeSnapshot(get->on, expires, [this, get](Outcome o, std::shared_ptr<Snapshot> snapshot) {
    if (o != Outcome::kOk) return get->Refuse(o);
    get->snapshot = std::move(snapshot);
    ReadSome(get);
  });
}

// The next few keys; then other requests have their turn.
void LtcServer::ReadSome(const std::shared_ptr<MultiGetCall>& get) {
  const auto first = get->keys.begin() + get->answered;
  const auto last =
      first + static_cast<ptrdiff_t>(std::min(get->keys.size() - get->answered, get->read_at_a_time));
  get->range->MultiGet(
      get->on, {first, last}, get->snapshot, get->deadline_ns,
      [this, get](Outcome o, std::vector<std::optional<std::string>> values, std::string_view why) {
        if (!HasLease()) return get->Refuse(Outcome::kNotOwner);  // C3
        if (o != Outcome::kOk) return get->Refuse(o, why);
        for (const auto& value : values) {
          MultiGetReply::AppendAnswer(value, &get->answers);
          ++get->answered;
          if (get->answers.size() >= options_.page_bytes) break;
        }
        if (get->answered == get->keys.size() || get->answers.size() >= options_.page_bytes) {
          return get->Reply();
        }
        get->on->Submit([this, get] { ReadSome(get); });
      });
}

// --- snapshots

void LtcServer::HandleTakeSnapshot(size_t index, const IncomingCall& call,
                                   const TakeSnapshotRequest& request) {
  Xchg* const xchg = executors_[index]->xchg();
  snapshots_taken_->Add();
  Range* range;
  const Outcome found = request.lease_ms == 0 ? Outcome::kInvalidArgument
                                              : FindRange(index, request.range, request.epoch, &range);
  if (found != Outcome::kOk) return xchg->Reply(call.connection, call.request_id, found, {});
  range->TakeSnapshot(
      executors_[index], EndOfLease(request.lease_ms),
      [this, xchg, connection = call.connection, id = call.request_id, deadline_ns = call.deadline_ns,
       request](Outcome o, std::shared_ptr<Snapshot> taken) {
        if (!HasLease()) return xchg->Reply(connection, id, Outcome::kNotOwner, {});  // C3
        o = UnlessLate(o, deadline_ns);
        if (o != Outcome::kOk) return xchg->Reply(connection, id, o, {});
        const TakeSnapshotReply reply{snapshots_.Add(request.range, request.epoch, std::move(taken), Now())};
        if (reply.snapshot == 0) return xchg->Reply(connection, id, Outcome::kBusy, {});
        const std::string body = Body(reply);
        const std::string_view parts[] = {body};
        xchg->Reply(connection, id, o, parts);
      });
}

void LtcServer::HandleRenewSnapshot(size_t index, const IncomingCall& call,
                                    const RenewSnapshotRequest& request) {
  Range* range;
  Outcome o = request.lease_ms == 0 ? Outcome::kInvalidArgument
                                    : FindRange(index, request.range, request.epoch, &range);
  if (o == Outcome::kOk && !range->serves_reads()) o = Outcome::kNotOwner;
  if (o == Outcome::kOk &&
      !snapshots_.Renew(request.range, request.epoch, request.snapshot, Now(), EndOfLease(request.lease_ms)))
    o = Outcome::kSnapshotEnded;
  executors_[index]->xchg()->Reply(call.connection, call.request_id, o, {});
}

void LtcServer::HandleDropSnapshot(size_t index, const IncomingCall& call,
                                   const DropSnapshotRequest& request) {
  Range* range;
  Outcome o = FindRange(index, request.range, request.epoch, &range);
  if (o == Outcome::kOk && !snapshots_.Drop(request.range, request.epoch, request.snapshot, Now()))
    o = Outcome::kSnapshotEnded;
  executors_[index]->xchg()->Reply(call.connection, call.request_id, o, {});
}

// --- checkpoints

namespace {

// `in_runs`: the tables of the version's runs.
uint64_t BytesOf(const Checkpoint& checkpoint, const std::set<const TableHandle*>& in_runs,
                 uint64_t* pinned) {
  uint64_t bytes = 0;
  *pinned = 0;
  for (const Run& run : checkpoint.runs) {
    for (const TableRef& t : run.tables) {
      bytes += UsedBytes(t->info());
      if (!in_runs.contains(t.get())) *pinned += UsedBytes(t->info());
    }
  }
  return bytes;
}

std::string ListOf(const Version& version) {
  CheckpointReply reply;
  std::set<const TableHandle*> in_runs;  // a table has one handle, wherever it is
  for (const Run& run : version.runs()) {
    for (const TableRef& t : run.tables) in_runs.insert(t.get());
  }
  for (const CheckpointRef& c : version.checkpoints()) {
    CheckpointReply::Entry e{c->name, c->sequence, static_cast<uint64_t>(c->created_ms), 0, 0};
    e.bytes = BytesOf(*c, in_runs, &e.pinned_bytes);
    reply.entries.push_back(e);
  }
  return Body(reply);
}

Status Do(CheckpointVerb verb, const std::string& name, Range* range, Nanos deadline_ns) {
  switch (verb) {
    case CheckpointVerb::kCreate:
      return range->checkpoints().Create(name, deadline_ns);
    case CheckpointVerb::kList:
      return OkStatus();
    case CheckpointVerb::kDelete:
      return range->checkpoints().Delete(name);
    case CheckpointVerb::kRestore:
      return range->checkpoints().Restore(name, deadline_ns);
  }
  return absl::InternalError("no such verb");
}

}  // namespace

// What changes the manifest is fenced by its epoch and needs no lease (C4); a list is a read.
void LtcServer::HandleCheckpoint(size_t index, const IncomingCall& call, const CheckpointRequest& request) {
  constexpr int kMostLists = 64;
  XchgExecutor* const on = executors_[index];
  Range* range;
  const bool list = request.verb == CheckpointVerb::kList;
  const Outcome found = FindRange(index, request.range, request.epoch, &range);
  if (found != Outcome::kOk) return on->xchg()->Reply(call.connection, call.request_id, found, {});
  if (list && !range->serves_reads())
    return on->xchg()->Reply(call.connection, call.request_id, Outcome::kNotOwner, {});
  std::atomic<int>* const running = list ? &checkpoint_lists_ : &checkpoint_changes_;
  const bool may_run = running->fetch_add(1) < (list ? kMostLists : 1);
  const bool queued =
      may_run && run_control_([this, on, running, held = range->shared_from_this(), verb = request.verb,
                               name = std::string(request.name), deadline = call.deadline_ns,
                               connection = call.connection, id = call.request_id] {
        const Status s = Do(verb, name, held.get(), deadline);
        std::string body = !s.ok()                         ? std::string(s.message())
                           : verb == CheckpointVerb::kList ? ListOf(*held->versions().current())
                                                           : "";
        running->fetch_sub(1);
        on->Submit([this, on, connection, id, verb, o = ToOutcome(s), body = std::move(body)] {
          // C3
          if (verb == CheckpointVerb::kList && !HasLease())
            return on->xchg()->Reply(connection, id, Outcome::kNotOwner, {});
          const std::string_view parts[] = {body};
          on->xchg()->Reply(connection, id, o, parts);
        });
      });
  if (queued) return;
  running->fetch_sub(1);
  on->xchg()->Reply(call.connection, call.request_id, Outcome::kBusy, {});
}

}  // namespace nova
