#include "ltc/ltc_client.h"

namespace nova {

void LtcClient::Write(LtcRequest type, const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done) {
  const std::string header = request.EncodeHeader();
  const std::string_view parts[] = {header, request.key, request.value};
  xchg_->Call(xchg_->peer(address), static_cast<uint16_t>(type), parts, deadline_ns,
              [done = std::move(done)](const CallResult& r) mutable { done(r.outcome); });
}

void LtcClient::Put(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done) {
  Write(LtcRequest::kPut, address, request, deadline_ns, std::move(done));
}

void LtcClient::Delete(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done) {
  Write(LtcRequest::kDelete, address, request, deadline_ns, std::move(done));
}

void LtcClient::Get(const std::string& address, const GetRequest& request, Nanos deadline_ns, GetDone done) {
  const std::string header = request.EncodeHeader();
  const std::string_view parts[] = {header, request.key};
  xchg_->Call(xchg_->peer(address), static_cast<uint16_t>(LtcRequest::kGet), parts, deadline_ns,
              [done = std::move(done)](const CallResult& r) mutable { done(r.outcome, r.body); });
}

void LtcClient::Scan(const std::string& address, const ScanRequest& request, Nanos deadline_ns, ScanDone done) {
  const std::string body = request.Encode();
  const std::string_view parts[] = {body};
  xchg_->Call(xchg_->peer(address), static_cast<uint16_t>(LtcRequest::kScan), parts, deadline_ns,
              [done = std::move(done)](const CallResult& r) mutable {
                ScanReply reply;
                if (r.outcome == Outcome::kOk && !ScanReply::Parse(r.body, &reply)) return done(Outcome::kInternal, {});
                done(r.outcome, reply);
              });
}

}  // namespace nova
