// LtcClient: the request path to LTCs: encodes requests, decodes replies. Routing and retries are the client library's.
//
// Thread safety: OnXchg of `xchg`.   Ownership: key and value are copied or sent before the call returns; a reply's views are
// valid during `done`.   Errors: outcomes as xchg.h: kUnavailable: not sent; kUnknown: sent and unanswered.
#pragma once

#include <string>
#include <string_view>

#include "common/rdma/xchg.h"
#include "ltc/protocol.h"

namespace nova {

class LtcClient {
 public:
  explicit LtcClient(Xchg* xchg) : xchg_(xchg) {}
  void Put(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  void Delete(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  using GetDone = absl::AnyInvocable<void(Outcome, std::string_view value)>;
  void Get(const std::string& address, const GetRequest& request, Nanos deadline_ns, GetDone done);
  using ScanDone = absl::AnyInvocable<void(Outcome, const ScanReply&)>;
  void Scan(const std::string& address, const ScanRequest& request, Nanos deadline_ns, ScanDone done);

 private:
  void Write(LtcRequest type, const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  Xchg* const xchg_;
};

}  // namespace nova
