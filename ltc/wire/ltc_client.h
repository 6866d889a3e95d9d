// LtcClient: the request path to LTCs: encodes requests, decodes replies. Routing and retries are the client
// library's (client/client_rep.h).
//
// Every method makes one try: it sends to `address`, connecting if need be, and calls its `done` once, on the
// thread of `xchg`, at the latest at `deadline_ns`.
//
// Thread safety: OnXchg of `xchg`.
// Ownership: bytes that a request views are copied or sent before the call returns. A reply's views are valid
//   during `done`.
// Errors: outcomes as in common/rdma/xchg.h. kUnavailable: not sent. kUnknown: sent, and not answered.
//   kInternal: the reply is malformed.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/rdma/xchg.h"
#include "ltc/wire/protocol.h"

namespace nova {

// See the head of this file.
class LtcClient {
 public:
  explicit LtcClient(Xchg* xchg) : xchg_(xchg) {}
  // Writes: kOk: written, as durably as was asked. kUnknown, kInternal: perhaps written. Any other outcome:
  // not written; of kNotOwner, kBusy, kNoSpace and kUnavailable the request may be sent again (no write
  // twice, A1).
  void Put(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  void Delete(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  void DeleteRange(const std::string& address, const WriteRequest& request, Nanos deadline_ns, OpDone done);
  void Batch(const std::string& address, const BatchRequest& request, Nanos deadline_ns, OpDone done);
  // kConditionFailed: the key has another value. Else as the other writes.
  void CompareAndSwap(const std::string& address, const CompareAndSwapRequest& request, Nanos deadline_ns,
                      OpDone done);
  // `value` is the key's if the outcome is kOk. In all reads, of another outcome, `why` says for people what
  // failed at the LTC; it may be empty.
  using GetDone = absl::AnyInvocable<void(Outcome, std::string_view value, std::string_view why)>;
  void Get(const std::string& address, const GetRequest& request, Nanos deadline_ns, GetDone done);
  using ScanDone = absl::AnyInvocable<void(Outcome, const ScanReply&, std::string_view why)>;
  using BeginScanDone = absl::AnyInvocable<void(Outcome, const BeginScanReply&, std::string_view why)>;
  // The first page of a scan, and a snapshot for the others if there may be any.
  void BeginScan(const std::string& address, const BeginScanRequest& request, Nanos deadline_ns,
                 BeginScanDone done);
  // One page of a scan; reply.more says whether to ask for the next.
  void Scan(const std::string& address, const ScanRequest& request, Nanos deadline_ns, ScanDone done);
  using MultiGetDone = absl::AnyInvocable<void(Outcome, const MultiGetReply&, std::string_view why)>;
  // Values of as many first keys as fit into one reply; ask again for the others.
  void MultiGet(const std::string& address, const MultiGetRequest& request, Nanos deadline_ns,
                MultiGetDone done);
  // `snapshot` is the id that the LTC gave.
  using SnapshotDone = absl::AnyInvocable<void(Outcome, uint64_t snapshot)>;
  // kBusy: clients hold as many snapshots of the range as they may.
  void TakeSnapshot(const std::string& address, const TakeSnapshotRequest& request, Nanos deadline_ns,
                    SnapshotDone done);
  // These two, kSnapshotEnded: the lease is over, or the range has another owner.
  void RenewSnapshot(const std::string& address, const RenewSnapshotRequest& request, Nanos deadline_ns,
                     OpDone done);
  void DropSnapshot(const std::string& address, const DropSnapshotRequest& request, Nanos deadline_ns,
                    OpDone done);
  // Make, list, delete or restore. `reply` is the answer to a list. `text` says for people why a request did
  // not succeed.
  using CheckpointDone =
      absl::AnyInvocable<void(Outcome, const CheckpointReply& reply, std::string_view text)>;
  void Checkpoint(const std::string& address, const CheckpointRequest& request, Nanos deadline_ns,
                  CheckpointDone done);

  // Calls `ends` for each request under way, with the time at which it was asked for. Those for which it is
  // true end at once, as they would at their deadlines.
  void LookAtRequests(const std::function<bool(RangeId, Epoch, Nanos since_ns)>& ends);

 private:
  // Sends a request whose body is `parts` one after the other. `tag` names its range and epoch for
  // LookAtRequests.
  void Call(LtcRequest type, const std::string& address, const CallTag& tag,
            std::span<const std::string_view> parts, Nanos deadline_ns, OpDone done);
  // Call, with the reply parsed as a Reply; one that does not parse is kInternal.
  template <typename Reply, typename Done>
  void CallFor(LtcRequest type, const std::string& address, const CallTag& tag, std::string_view body,
               Nanos deadline_ns, Done done);
  // The common part of Put, Delete and DeleteRange.
  void Write(LtcRequest type, const std::string& address, const WriteRequest& request, Nanos deadline_ns,
             OpDone done);
  // The LTC there; made at the first request to it.
  Peer* PeerAt(const std::string& address);

  Xchg* const xchg_;
};

}  // namespace nova
