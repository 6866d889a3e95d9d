// LtcClient: the request path to LTCs: encodes requests, decodes replies. Routing and retries are the client
// library's.
//
// Thread safety: OnXchg of `xchg`.   Ownership: what a request views is copied or sent before the call
//                returns; a reply's views are valid during `done`.   Errors: outcomes as xchg.h:
//                kUnavailable: not sent; kUnknown: sent and unanswered; kInternal: a malformed reply.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/rdma/xchg.h"
#include "ltc/wire/protocol.h"

namespace nova {

class LtcClient {
 public:
  explicit LtcClient(Xchg* xchg) : xchg_(xchg) {}
  void Put(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  void Delete(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  void DeleteRange(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  void Batch(const std::string& address, const BatchRequest& request, Nanos deadline_ns, OpDone done);
  void CompareAndSwap(const std::string& address, const CompareAndSwapRequest& request, Nanos deadline_ns,
                      OpDone done);
  using GetDone = absl::AnyInvocable<void(Outcome, std::string_view value)>;
  void Get(const std::string& address, const GetRequest& request, Nanos deadline_ns, GetDone done);
  using ScanDone = absl::AnyInvocable<void(Outcome, const ScanReply&)>;
  void Scan(const std::string& address, const ScanRequest& request, Nanos deadline_ns, ScanDone done);
  using MultiGetDone = absl::AnyInvocable<void(Outcome, const MultiGetReply&)>;
  void MultiGet(const std::string& address, const MultiGetRequest& request, Nanos deadline_ns,
                MultiGetDone done);
  using SnapshotDone = absl::AnyInvocable<void(Outcome, uint64_t snapshot)>;
  void TakeSnapshot(const std::string& address, const SnapshotRequest& request, Nanos deadline_ns,
                    SnapshotDone done);
  void RenewSnapshot(const std::string& address, const SnapshotRequest& request, Nanos deadline_ns,
                     OpDone done);
  void DropSnapshot(const std::string& address, const SnapshotRequest& request, Nanos deadline_ns,
                    OpDone done);
  // `reply` is of a list, `text` of what did not succeed.
  using CheckpointDone =
      absl::AnyInvocable<void(Outcome, const CheckpointReply& reply, std::string_view text)>;
  void Checkpoint(const std::string& address, const CheckpointRequest& request, Nanos deadline_ns,
                  CheckpointDone done);

  // Looks at each request under way, and since when it is. Those for which `ends` is true end as they would
  // at their deadlines.
  void LookAtRequests(const std::function<bool(RangeId, Epoch, Nanos since_ns)>& ends);

 private:
  void Call(LtcRequest type, const std::string& address, const CallTag& tag,
            std::span<const std::string_view> parts, Nanos deadline_ns, OpDone done);
  template <typename Reply, typename Done>
  void CallFor(LtcRequest type, const std::string& address, const CallTag& tag, std::string_view body,
               Nanos deadline_ns, Done done);
  void Write(LtcRequest type, const std::string& address, const WriteRequest& request, Nanos deadline_ns,
             OpDone done);
  Peer* PeerAt(const std::string& address);

  Xchg* const xchg_;
};

}  // namespace nova
