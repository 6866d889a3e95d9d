#include "ltc/wire/ltc_client.h"

namespace nova {
namespace {

template <typename Request>
CallTag TagOf(const Request& request) {
  return {request.range.value(), request.epoch.value()};
}

}  // namespace

// Which LTC it is does not matter: the range's epoch is in the request.
Peer* LtcClient::PeerAt(const std::string& address) {
  static const PeerIdentity kAnLtc{Role::kLtc};
  return xchg_->peer(address, kAnLtc);
}

void LtcClient::Call(LtcRequest type, const std::string& address, const CallTag& tag,
                     std::span<const std::string_view> parts, Nanos deadline_ns, OpDone done) {
  xchg_->Call(
      PeerAt(address), static_cast<uint16_t>(type), parts, deadline_ns,
      [done = std::move(done)](const CallResult& r) mutable { done(r.outcome); }, tag);
}

void LtcClient::LookAtRequests(const std::function<bool(RangeId, Epoch, Nanos since_ns)>& ends) {
  xchg_->LookAtCalls([&ends](const CallTag& tag, Nanos since_ns) {
    return ends(RangeId(tag.subject), Epoch(tag.version), since_ns);
  });
}

// done(outcome, reply, why), where the reply is parsed.
template <typename Reply, typename Done>
void LtcClient::CallFor(LtcRequest type, const std::string& address, const CallTag& tag,
                        std::string_view body, Nanos deadline_ns, Done done) {
  const std::string_view parts[] = {body};
  xchg_->Call(
      PeerAt(address), static_cast<uint16_t>(type), parts, deadline_ns,
      [done = std::move(done)](const CallResult& r) mutable {
        Reply reply;
        if (r.outcome != Outcome::kOk) return done(r.outcome, reply, r.body);
        const bool parsed = ParseBody(r.body, &reply);
        parsed ? done(Outcome::kOk, reply, {})
               : done(Outcome::kInternal, Reply{}, "a reply that does not parse");
      },
      tag);
}

void LtcClient::Write(LtcRequest type, const std::string& address, const WriteRequest& request,
                      Nanos deadline_ns, OpDone done) {
  const std::string header = request.EncodeHeader();
  const std::string_view parts[] = {header, request.key, request.value};
  Call(type, address, TagOf(request), parts, deadline_ns, std::move(done));
}

void LtcClient::Put(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done) {
  Write(LtcRequest::kPut, address, request, deadline_ns, std::move(done));
}

void LtcClient::Delete(const std::string& address, const WriteRequest& request, Nanos deadline_ns,
                       OpDone done) {
  Write(LtcRequest::kDelete, address, request, deadline_ns, std::move(done));
}

void LtcClient::DeleteRange(const std::string& address, const WriteRequest& request, Nanos deadline_ns,
                            OpDone done) {
  Write(LtcRequest::kDeleteRange, address, request, deadline_ns, std::move(done));
}

void LtcClient::Batch(const std::string& address, const BatchRequest& request, Nanos deadline_ns,
                      OpDone done) {
  const std::string header = request.EncodeHeader();
  const std::string_view parts[] = {header, request.entries};
  Call(LtcRequest::kBatch, address, TagOf(request), parts, deadline_ns, std::move(done));
}

void LtcClient::CompareAndSwap(const std::string& address, const CompareAndSwapRequest& request,
                               Nanos deadline_ns, OpDone done) {
  const std::string header = request.EncodeHeader();
  const std::string_view parts[] = {header, request.key, request.expected.value_or(""),
                                    request.desired.value_or("")};
  Call(LtcRequest::kCompareAndSwap, address, TagOf(request), parts, deadline_ns, std::move(done));
}

void LtcClient::Get(const std::string& address, const GetRequest& request, Nanos deadline_ns, GetDone done) {
  const std::string header = Body(request);
  const std::string_view parts[] = {header, request.key};
  xchg_->Call(
      PeerAt(address), static_cast<uint16_t>(LtcRequest::kGet), parts, deadline_ns,
      [done = std::move(done)](const CallResult& r) mutable {
        r.outcome == Outcome::kOk ? done(r.outcome, r.body, {}) : done(r.outcome, {}, r.body);
      },
      TagOf(request));
}

void LtcClient::BeginScan(const std::string& address, const BeginScanRequest& request, Nanos deadline_ns,
                          BeginScanDone done) {
  CallFor<BeginScanReply>(LtcRequest::kBeginScan, address, TagOf(request), Body(request), deadline_ns,
                          std::move(done));
}

void LtcClient::Scan(const std::string& address, const ScanRequest& request, Nanos deadline_ns,
                     ScanDone done) {
  CallFor<ScanReply>(LtcRequest::kScan, address, TagOf(request), request.Encode(), deadline_ns,
                     std::move(done));
}

void LtcClient::MultiGet(const std::string& address, const MultiGetRequest& request, Nanos deadline_ns,
                         MultiGetDone done) {
  CallFor<MultiGetReply>(LtcRequest::kMultiGet, address, TagOf(request), Body(request), deadline_ns,
                         std::move(done));
}

void LtcClient::TakeSnapshot(const std::string& address, const TakeSnapshotRequest& request,
                             Nanos deadline_ns, SnapshotDone done) {
  CallFor<TakeSnapshotReply>(
      LtcRequest::kTakeSnapshot, address, TagOf(request), Body(request), deadline_ns,
      [done = std::move(done)](Outcome o, const TakeSnapshotReply& reply, std::string_view /*why*/) mutable {
        done(o, reply.snapshot);
      });
}

void LtcClient::RenewSnapshot(const std::string& address, const RenewSnapshotRequest& request,
                              Nanos deadline_ns, OpDone done) {
  const std::string body = Body(request);
  const std::string_view parts[] = {body};
  Call(LtcRequest::kRenewSnapshot, address, TagOf(request), parts, deadline_ns, std::move(done));
}

void LtcClient::DropSnapshot(const std::string& address, const DropSnapshotRequest& request,
                             Nanos deadline_ns, OpDone done) {
  const std::string body = Body(request);
  const std::string_view parts[] = {body};
  Call(LtcRequest::kDropSnapshot, address, TagOf(request), parts, deadline_ns, std::move(done));
}

void LtcClient::Checkpoint(const std::string& address, const CheckpointRequest& request, Nanos deadline_ns,
                           CheckpointDone done) {
  const std::string body = Body(request);
  const std::string_view parts[] = {body};
  xchg_->Call(
      PeerAt(address), static_cast<uint16_t>(LtcRequest::kCheckpoint), parts, deadline_ns,
      [done = std::move(done)](const CallResult& r) mutable {
        CheckpointReply reply;
        if (r.outcome != Outcome::kOk) return done(r.outcome, reply, r.body);
        const bool parsed = ParseBody(r.body, &reply);
        done(parsed ? Outcome::kOk : Outcome::kInternal, reply, {});
      },
      TagOf(request));
}

}  // namespace nova
