#include "ltc/ltc_server.h"

#include "ltc/protocol.h"

namespace nova {
namespace {

// A stored key as a client may send it: a keyspace and 1 to 4096 bytes of user key.
bool IsValidStoredKey(std::string_view key) {
  size_t keyspace = 0;
  while (keyspace < key.size() && keyspace < 5 && (static_cast<uint8_t>(key[keyspace]) & 0x80) != 0) ++keyspace;
  ++keyspace;
  return key.size() > keyspace && key.size() <= keyspace + kMaxUserKeyBytes;
}

}  // namespace

LtcServer::LtcServer(std::vector<XchgExecutor*> executors, const LtcServerOptions& options,
                     std::function<Nanos()> lease_expiry_ns, Metrics* metrics)
    : executors_(std::move(executors)),
      options_(options),
      lease_expiry_ns_(std::move(lease_expiry_ns)),
      lanes_(executors_.size()),
      ranges_(std::make_shared<const RangeMap>()),
      puts_(metrics->counter("nova_ltc_requests_total{op=\"write\"}")),
      gets_(metrics->counter("nova_ltc_requests_total{op=\"get\"}")),
      scans_(metrics->counter("nova_ltc_requests_total{op=\"scan\"}")),
      not_owner_(metrics->counter("nova_ltc_not_owner_total")) {
  for (size_t i = 0; i < executors_.size(); ++i) {
    Xchg* const xchg = executors_[i]->xchg();
    xchg->Handle(static_cast<uint16_t>(LtcRequest::kPut),
                 [this, i](const IncomingCall& call) { HandleWrite(i, call, ValueType::kPut); });
    xchg->Handle(static_cast<uint16_t>(LtcRequest::kDelete),
                 [this, i](const IncomingCall& call) { HandleWrite(i, call, ValueType::kDelete); });
    xchg->Handle(static_cast<uint16_t>(LtcRequest::kGet), [this, i](const IncomingCall& call) { HandleGet(i, call); });
    xchg->Handle(static_cast<uint16_t>(LtcRequest::kScan), [this, i](const IncomingCall& call) { HandleScan(i, call); });
  }
}

void LtcServer::SetRanges(std::shared_ptr<const RangeMap> ranges) {
  {
    MutexLock lock(&mu_);
    ranges_ = std::move(ranges);
    generation_.fetch_add(1, std::memory_order_release);
  }
  // Idle lanes let go of what is no longer here.
  for (size_t i = 0; i < executors_.size(); ++i) {
    executors_[i]->Submit([this, i] {
      Range* range;
      FindRange(i, RangeId(), Epoch(), {}, &range);
    });
  }
}

Outcome LtcServer::FindRange(size_t index, RangeId id, Epoch epoch, std::string_view key, Range** range) {
  Lane& lane = lanes_[index];
  if (lane.generation != generation_.load(std::memory_order_acquire) || lane.ranges == nullptr) {
    MutexLock lock(&mu_);
    lane.ranges = ranges_;
    lane.generation = generation_.load(std::memory_order_relaxed);
  }
  const auto it = lane.ranges->find(id);
  if (it == lane.ranges->end() || it->second->epoch() != epoch || !it->second->Contains(key)) {
    not_owner_->Add();
    return Outcome::kNotOwner;
  }
  *range = it->second.get();
  return Outcome::kOk;
}

void LtcServer::HandleWrite(size_t index, const IncomingCall& call, ValueType type) {
  Xchg* const xchg = executors_[index]->xchg();
  WriteRequest request;
  if (!WriteRequest::Parse(call.body, &request)) return xchg->Close(call.connection);
  puts_->Add();
  const auto refuse = [&](Outcome o) { xchg->Reply(call.connection, call.request_id, o, {}); };
  if (!IsValidStoredKey(request.key) || request.value.size() > options_.max_value_bytes) return refuse(Outcome::kInvalidArgument);
  Range* range;
  const Outcome found = FindRange(index, request.range, request.epoch, request.key, &range);
  if (found != Outcome::kOk) return refuse(found);
  if (options_.writes_need_lease && !HasLease()) return refuse(Outcome::kNotOwner);
  const WriteEntry entry{type, request.key, request.value};
  const WriteOp op{{&entry, 1}, request.client_id, request.request_number, call.deadline_ns};
  range->Write(executors_[index], op, [this, xchg, connection = call.connection, id = call.request_id](Outcome o) {
    // C3 in mode none; C4: a logged write needs no lease.
    if (o == Outcome::kOk && options_.writes_need_lease && !HasLease()) o = Outcome::kUnknown;
    xchg->Reply(connection, id, o, {});
  });
}

void LtcServer::HandleGet(size_t index, const IncomingCall& call) {
  Xchg* const xchg = executors_[index]->xchg();
  GetRequest request;
  if (!GetRequest::Parse(call.body, &request)) return xchg->Close(call.connection);
  gets_->Add();
  Range* range;
  const Outcome found = IsValidStoredKey(request.key) ? FindRange(index, request.range, request.epoch, request.key, &range)
                                                      : Outcome::kInvalidArgument;
  if (found != Outcome::kOk) return xchg->Reply(call.connection, call.request_id, found, {});
  range->Get(executors_[index], request.key, call.deadline_ns,
             [this, xchg, connection = call.connection, id = call.request_id](Outcome o, std::string_view value) {
               if (!HasLease()) return xchg->Reply(connection, id, Outcome::kNotOwner, {});  // C3
               const std::string_view parts[] = {value};
               xchg->Reply(connection, id, o, parts);
             });
}

void LtcServer::HandleScan(size_t index, const IncomingCall& call) {
  Xchg* const xchg = executors_[index]->xchg();
  ScanRequest request;
  if (!ScanRequest::Parse(call.body, &request)) return xchg->Close(call.connection);
  scans_->Add();
  Range* range;
  const Outcome found = request.limit == 0 || request.limit > options_.max_scan_limit
                            ? Outcome::kInvalidArgument
                            : FindRange(index, request.range, request.epoch, request.from, &range);
  if (found != Outcome::kOk) return xchg->Reply(call.connection, call.request_id, found, {});
  ScanOp op{std::string(request.from), std::string(request.to), request.limit, call.deadline_ns};
  range->Scan(executors_[index], std::move(op),
              [this, xchg, connection = call.connection, id = call.request_id](Outcome o, ScanPage page) {
                if (!HasLease()) return xchg->Reply(connection, id, Outcome::kNotOwner, {});  // C3
                if (o != Outcome::kOk) return xchg->Reply(connection, id, o, {});
                const std::string header = ScanReply{page.count, page.more, {}}.EncodeHeader();
                const std::string_view parts[] = {header, page.entries};
                xchg->Reply(connection, id, o, parts);
              });
}

}  // namespace nova
