#include "coordinator/coordinator_client.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "coordinator/coordinator.pb.h"
#include "coordinator/stoc_record.h"
#include "coordinator/znodes.h"

namespace nova {
namespace {

constexpr int kSettleTries = 100;
constexpr Nanos kMinCallNs = kSecond;
// A node that is to ask again soon sends so many heartbeats in the time of one.
constexpr Nanos kSoonerBy = 5;

template <typename Reply, typename Request>
StatusOr<Reply> CallMethod(ControlChannel* channel, const char* method, const Request& request,
                           Nanos deadline_ns) {
  NOVA_ASSIGN_OR_RETURN(const std::string bytes,
                        channel->Call(method, request.SerializeAsString(), deadline_ns));
  Reply reply;
  if (!reply.ParseFromString(bytes)) return absl::InternalError(StrCat(method, ": malformed answer"));
  return reply;
}

void PutFabricCounters(const FabricCounters& c, proto::FabricCounters* out) {
  out->set_regions(c.regions);
  out->set_connections(c.connections);
  out->set_pending_requests(c.pending_requests);
  out->set_bytes_sent(c.bytes_sent);
  out->set_bytes_written(c.bytes_written);
  out->set_bytes_read(c.bytes_read);
  out->set_protocol_errors(c.protocol_errors);
  out->set_access_errors(c.access_errors);
}

void PutDiskReport(const DiskReport& disk, proto::DiskReport* out) {
  out->set_fault(static_cast<proto::DiskState>(disk.fault));
  out->set_faults(disk.faults);
  out->set_full(disk.full);
  out->set_hung_ns(static_cast<uint64_t>(disk.hung_ns));
  out->set_read_ns(static_cast<uint64_t>(disk.read_ns));
  out->set_sync_ns(static_cast<uint64_t>(disk.sync_ns));
}

// The StoCs of a reply, and what it says of their disks.
StocList StocsOf(const proto::HeartbeatReply& reply) {
  StocList stocs;
  std::map<StocId, const proto::StocDisk*> disks;
  for (const proto::StocDisk& disk : reply.stoc_disks()) disks[StocId(disk.stoc())] = &disk;
  for (const std::string& s : reply.stocs()) {
    StatusOr<NodeInfo> info = DecodeNodeInfo(s);
    if (!info.ok()) continue;
    const auto disk = disks.find(info->stoc_id);
    // A state that a later version has is one to keep away from.
    if (disk != disks.end()) {
      info->disk = static_cast<DiskState>(
          std::clamp<int>(disk->second->state(), 0, static_cast<int>(kDiskStates) - 1));
      info->emptied = disk->second->emptied();
    }
    stocs.live.push_back(*std::move(info));
  }
  for (const uint32_t id : reply.lost_stocs()) stocs.lost.emplace_back(id);
  stocs.version = reply.stocs_version();
  return stocs;
}

// What a later version sets and this one does not know is left out.
LtcSettings SettingsOf(const proto::HeartbeatReply& reply) {
  LtcSettings settings;
  for (const proto::Setting& s : reply.settings()) settings.Set(s.name(), s.value()).IgnoreError();
  return settings;
}

// A lost answer is no answer: waits a moment, so that a store that has no connection is not asked in a tight
// loop.
void PauseBeforeRetry() { SleepFor(10 * kMillisecond); }

class NodeSessionImpl : public NodeSession {
 public:
  NodeSessionImpl(ConfigStore* store, std::unique_ptr<ControlChannel> channel, NodeOptions options,
                  NodeEvents events)
      : store_(store),
        channel_(std::move(channel)),
        options_(std::move(options)),
        events_(std::move(events)) {}
  ~NodeSessionImpl() override;
  void BeginToLeave() override;

  Status Join();

  const NodeInfo& self() const override { return options_.node; }
  Uuid cluster() const override { return cluster_; }
  Nanos lease_expiry_ns() const override { return lease_expiry_ns_.load(std::memory_order_acquire); }
  std::vector<NodeInfo> stocs() const override {
    MutexLock lock(&mu_);
    return stocs_.live;
  }
  StatusOr<RangeRecord> ReadRange(RangeId id) override;
  StatusOr<std::vector<RangeRecord>> ReadRanges() override {
    NOVA_ASSIGN_OR_RETURN(RangeRecords records, ReadRangeRecords(store_));
    return std::move(records.whole);
  }
  StatusOr<RangeRecord> UpdateRange(const RangeRecord& record) override;
  StatusOr<Handover> HandOverRange(const RangeRecord& before, const RangeRecord& after,
                                   Nanos doubt_ns) override;

 private:
  // The fate of one compare-and-set: the store never saw it (kNotSent), or perhaps did (kInDoubt).
  enum class Try { kWritten, kRefused, kNotSent, kInDoubt };
  // One compare-and-set of a znode. Waits for the store.
  Try TrySet(const std::string& path, const std::string& data, int64_t version, Status* refused);
  // Unavailable once the session has expired or the node leaves: who waits for the store gives up.
  Status CheckMayAsk() const;
  // Makes the node's entry in the store. FailedPrecondition: a later process has the name.
  Status Register();
  void RunHeartbeats();  // the thread: once a period, or sooner where told so, until the node leaves
  void HeartbeatOnce();  // asks the leader, and takes its reply; or loses the session
  // The other thread: whenever nobody has answered, it looks in the store where the leader is, for that may
  // be an address that this node was never told. A store that hangs holds up no heartbeat.
  void FindLeaders();
  // A reply to a heartbeat sent then: the lease, assignments, releases, StoCs.
  void TakeReply(Nanos sent_ns, const std::string& bytes);
  // A newer list of StoCs; tells events_.stocs if it differs.
  void TakeStocs(uint64_t version, StocList stocs);
  void CheckOwnNode();                // loses the session when the node's entry is gone, or another process'
  void Lose(const std::string& why);  // the node is no member any more: calls events_.lost, once

  ConfigStore* const store_;
  const std::unique_ptr<ControlChannel> channel_;
  NodeOptions options_;
  const NodeEvents events_;
  Uuid cluster_;
  std::atomic<Nanos> lease_expiry_ns_{0};

  mutable Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool leader_missed_ ABSL_GUARDED_BY(mu_) = false;  // nobody has answered since FindLeaders looked last
  StocList stocs_ ABSL_GUARDED_BY(mu_);

  // Of the heartbeat thread.
  CoordEpoch coord_epoch_;  // the highest seen (authority, C1)
  uint64_t stocs_version_ = 0;
  bool ask_again_soon_ = false;  // as the answer to the last heartbeat said
  bool lost_ = false;
  // Wait (R5): the earliest sound bound heard so far
  std::map<std::pair<RangeId, Epoch>, Nanos> old_lease_ends_ns_;

  std::unique_ptr<Thread> thread_;  // RunHeartbeats
  std::unique_ptr<Thread> finder_;  // FindLeaders
};

void NodeSessionImpl::BeginToLeave() {
  MutexLock lock(&mu_);
  stopping_ = true;
  wake_.SignalAll();
}

NodeSessionImpl::~NodeSessionImpl() {
  BeginToLeave();
  if (thread_ == nullptr) return;
  thread_->Join();
  finder_->Join();
  lease_expiry_ns_.store(0, std::memory_order_release);
  const StatusOr<Znode> node = store_->Get(NodePath(options_.node.name));
  if (node.ok() && node->mine) store_->Delete(NodePath(options_.node.name), node->version).IgnoreError();
}

Status NodeSessionImpl::Join() {
  if (!IsNodeName(options_.node.name)) {
    return absl::InvalidArgumentError(
        StrCat("bad node name '", options_.node.name, "': 1 to 64 letters, digits, '.', '_', '-'"));
  }
  NOVA_ASSIGN_OR_RETURN(cluster_, ReadClusterUuid(store_));
  if (!options_.cluster.IsNil() && cluster_ != options_.cluster) {
    return absl::InvalidArgumentError(StrCat("the configuration store is of cluster ", cluster_.ToString(),
                                             ", ", options_.node.name, " belongs to cluster ",
                                             options_.cluster.ToString()));
  }
  if (options_.node.incarnation == Incarnation()) {
    NOVA_ASSIGN_OR_RETURN(options_.node.incarnation, DrawIncarnation(store_));
  } else {
    // Where an older copy of the store was put back the counter would give it again (incarnation, N1).
    NOVA_RETURN_IF_ERROR(store_->RaiseCounter(kIncarnationPath, options_.node.incarnation.value()));
  }
  NOVA_RETURN_IF_ERROR(Annotate(Register(), StrCat("registering ", options_.node.name)));
  thread_ = std::make_unique<Thread>("node.heartbeat.0", [this] { RunHeartbeats(); });
  finder_ = std::make_unique<Thread>("node.finder.0", [this] { FindLeaders(); });
  return OkStatus();
}

Status NodeSessionImpl::Register() {
  const std::string path = NodePath(options_.node.name);
  const std::string data = EncodeNodeInfo(options_.node);
  Status last = absl::UnavailableError("no try");
  for (int i = 0; i < kSettleTries; ++i) {
    last = store_->Create(path, data, true);
    if (last.ok()) return last;
    if (!absl::IsAlreadyExists(last) && !absl::IsUnknown(last)) return last;
    const StatusOr<Znode> there = store_->Get(path);
    if (absl::IsNotFound(there.status())) continue;
    NOVA_RETURN_IF_ERROR(there.status());
    const StatusOr<NodeInfo> info = DecodeNodeInfo(there->data);
    // the answer was lost
    if (there->mine && info.ok() && info->incarnation == options_.node.incarnation) return OkStatus();
    if (info.ok() && info->incarnation > options_.node.incarnation) {
      return absl::FailedPreconditionError(
          StrCat("a later process (incarnation ", info->incarnation.value(), ") has the name"));
    }
    last = store_->Delete(path, there->version);  // of a former incarnation
    if (!last.ok() && !absl::IsNotFound(last) && !absl::IsAborted(last) && !absl::IsUnknown(last))
      return last;
  }
  return last;
}

void NodeSessionImpl::RunHeartbeats() {
  Thread::RaisePriority();
  Nanos next = Now();
  while (true) {
    {
      MutexLock lock(&mu_);
      while (!stopping_ && Now() < next) wake_.WaitUntil(&mu_, next);
      if (stopping_) return;
    }
    const Nanos sent = Now();
    ask_again_soon_ = false;
    HeartbeatOnce();
    next = sent + (ask_again_soon_ ? options_.heartbeat_ns / kSoonerBy : options_.heartbeat_ns);
  }
}

void NodeSessionImpl::HeartbeatOnce() {
  if (store_->session_state() == SessionState::kExpired)
    return Lose("its session with the configuration store has expired");
  proto::HeartbeatRequest request;
  request.set_name(options_.node.name);
  request.set_incarnation(options_.node.incarnation.value());
  request.set_stocs_version(stocs_version_);
  if (events_.report) {
    const NodeReport report = events_.report();
    request.set_queue_depth(report.queue_depth);
    request.set_disk_bytes(report.disk_bytes);
    request.set_disk_free_bytes(report.disk_free_bytes);
    request.set_stopping(report.stopping);
    if (report.disk) PutDiskReport(*report.disk, request.mutable_disk());
    for (const RangeLoad& load : report.ranges) {
      proto::RangeLoad* l = request.add_ranges();
      l->set_range(load.range.value());
      l->set_epoch(load.epoch.value());
      l->set_open(load.open);
      l->set_writes(load.writes);
      l->set_reads(load.reads);
      l->set_bytes(load.bytes);
      l->set_tables(load.tables.tables);
      l->set_degraded_tables(load.tables.degraded);
      l->set_fewest_table_copies(load.tables.fewest);
      l->set_rebuild_bytes(load.tables.rebuild_bytes);
      l->set_rebuilt_bytes(load.tables.rebuilt_bytes);
      l->set_tables_stocs_version(load.tables.stocs_version);
    }
    if (report.copies) {
      request.mutable_copies()->set_log(report.copies->log);
      request.mutable_copies()->set_manifest(report.copies->manifest);
      request.mutable_copies()->set_table(report.copies->table);
    }
    PutFabricCounters(report.fabric, request.mutable_fabric());
    for (const auto& [name, bytes] : report.memory) {
      proto::MemoryPool* pool = request.add_memory();
      pool->set_name(name);
      pool->set_bytes(bytes);
    }
    for (const OpenFailure& failure : report.not_opened) {
      proto::OpenFailure* f = request.add_not_opened();
      f->set_range(failure.range.value());
      f->set_epoch(failure.epoch.value());
      f->set_data_loss(failure.data_loss);
      f->set_why(failure.why);
    }
    for (const auto& [stoc, tables] : report.draining) {
      proto::TablesLeft* t = request.add_draining();
      t->set_stoc(stoc.value());
      t->set_tables(tables);
    }
  }
  const Nanos sent = Now();  // Lease (C3): the holder counts from here, whatever the channel does
  const StatusOr<std::string> answer = channel_->Call("Heartbeat", request.SerializeAsString(),
                                                      sent + std::max(kMinCallNs, options_.heartbeat_ns));
  if (!answer.ok()) {
    NOVA_LOG(INFO) << options_.node.name << ": heartbeat: " << answer.status().message();
    MutexLock lock(&mu_);
    leader_missed_ = true;
    return wake_.SignalAll();
  }
  TakeReply(sent, *answer);
}

void NodeSessionImpl::FindLeaders() {
  for (;;) {
    {
      MutexLock lock(&mu_);
      while (!stopping_ && !leader_missed_) wake_.Wait(&mu_);
      if (stopping_) return;
      leader_missed_ = false;
    }
    if (store_->session_state() != SessionState::kConnected) continue;
    const StatusOr<Znode> node = store_->Get(kCoordPath);
    if (!node.ok()) continue;
    if (const auto coord = CoordRecord::Decode(node->data); coord.ok()) channel_->Learn(coord->address);
  }
}

void NodeSessionImpl::TakeReply(Nanos sent_ns, const std::string& bytes) {
  const Nanos received_ns = Now();
  proto::HeartbeatReply reply;
  if (!reply.ParseFromString(bytes)) {
    NOVA_LOG(WARNING) << options_.node.name << ": malformed heartbeat answer";
    return;
  }
  if (CoordEpoch(reply.coord_epoch()) < coord_epoch_) return;  // C1: a deposed leader
  coord_epoch_ = CoordEpoch(reply.coord_epoch());
  if (reply.standing() == proto::HeartbeatReply::SUPERSEDED) return Lose("a later process has its name");
  if (reply.standing() == proto::HeartbeatReply::UNKNOWN) return CheckOwnNode();
  // C3: what is excluded is given up before the lease that excludes it begins.
  for (const proto::RangeEpoch& e : reply.excluded()) {
    if (events_.excluded) events_.excluded(RangeId(e.range()), Epoch(e.epoch()));
  }
  if (reply.lease_ns() > 0 && reply.lease_ns() < static_cast<uint64_t>(kNever / 2)) {
    const auto lease = static_cast<Nanos>(reply.lease_ns());
    const Nanos expiry = sent_ns + lease -
                         static_cast<Nanos>(static_cast<double>(lease) * options_.clock_rate_error) -
                         options_.lease_margin_ns;
    if (expiry > lease_expiry_ns_.load(std::memory_order_relaxed))
      lease_expiry_ns_.store(expiry, std::memory_order_release);
  }
  ask_again_soon_ = reply.ask_again_soon();
  if (reply.stocs_version() != stocs_version_) {
    TakeStocs(reply.stocs_version(), StocsOf(reply));
  }
  if (events_.faults_forgiven) events_.faults_forgiven(reply.forgiven_disk_faults());
  if (events_.settings) events_.settings(SettingsOf(reply));
  if (events_.draining) events_.draining(reply.draining());
  std::map<std::pair<RangeId, Epoch>, Nanos> ends;
  for (const proto::Assignment& a : reply.assigned()) {
    StatusOr<RangeRecord> record = RangeRecord::Decode(a.record(), a.version());
    if (!record.ok() || a.wait_ns() > static_cast<uint64_t>(kNever / 4)) {
      NOVA_LOG(ERROR) << options_.node.name << ": malformed assignment: " << record.status().message();
      continue;
    }
    const auto wait = static_cast<Nanos>(a.wait_ns());
    Nanos end =
        received_ns + wait + static_cast<Nanos>(static_cast<double>(wait) * options_.clock_rate_error);
    const std::pair<RangeId, Epoch> key{record->id, record->epoch};
    const auto known = old_lease_ends_ns_.find(key);
    if (known != old_lease_ends_ns_.end()) end = std::min(end, known->second);
    ends[key] = end;
    if (events_.assigned) events_.assigned(RangeAssignment{*std::move(record), end});
  }
  old_lease_ends_ns_ = std::move(ends);
  for (const proto::RangeEpoch& e : reply.release()) {
    if (events_.release) events_.release(RangeId(e.range()), Epoch(e.epoch()));
  }
}

void NodeSessionImpl::TakeStocs(uint64_t version, StocList stocs) {
  stocs_version_ = version;
  {
    MutexLock lock(&mu_);
    if (stocs_ == stocs) return;
    stocs_ = stocs;
  }
  if (events_.stocs) events_.stocs(stocs);
}

// The coordinator does not see us: it may be behind, or we may be gone.
void NodeSessionImpl::CheckOwnNode() {
  const StatusOr<Znode> node = store_->Get(NodePath(options_.node.name));
  if (absl::IsNotFound(node.status()) || (node.ok() && !node->mine)) {
    Lose("its registration is gone");
  } else if (absl::IsUnavailable(node.status())) {
    Lose("its session with the configuration store has expired");
  }
}

void NodeSessionImpl::Lose(const std::string& why) {
  if (lost_) return;
  lost_ = true;
  NOVA_LOG(ERROR) << options_.node.name << " (incarnation " << options_.node.incarnation.value()
                  << ") is no longer a member: " << why;
  if (events_.lost) events_.lost(why);
}

StatusOr<RangeRecord> NodeSessionImpl::ReadRange(RangeId id) {
  NOVA_RETURN_IF_ERROR(store_->Sync());
  NOVA_ASSIGN_OR_RETURN(const Znode node, store_->Get(RangePath(id)));
  return RangeRecord::Decode(node.data, node.version);
}

// One compare-and-set. kRefused, with *refused: it was not made, nor will be. kNotSent: nor will it, and
// nobody else was first.
NodeSessionImpl::Try NodeSessionImpl::TrySet(const std::string& path, const std::string& data,
                                             int64_t version, Status* refused) {
  if (store_->session_state() != SessionState::kConnected) return Try::kNotSent;
  const Status s = store_->Set(path, data, version);
  if (s.ok()) return Try::kWritten;
  if (absl::IsDeadlineExceeded(s)) return Try::kNotSent;
  if (absl::IsUnknown(s)) return Try::kInDoubt;
  *refused = s;
  return Try::kRefused;
}

// While an outcome is in doubt: whether to go on asking.
Status NodeSessionImpl::CheckMayAsk() const {
  if (store_->session_state() == SessionState::kExpired) {
    return absl::UnavailableError("the session has expired; the range belongs to another process");
  }
  MutexLock lock(&mu_);
  return stopping_ ? absl::UnavailableError("the node is leaving") : OkStatus();
}

// While the store does not answer this goes on asking: until it does, or the session is known to have
// expired, or the node leaves. A deadline could only end it in doubt.
StatusOr<RangeRecord> NodeSessionImpl::UpdateRange(const RangeRecord& record) {
  const std::string path = RangePath(record.id);
  const std::string data = record.Encode();
  RangeRecord written = record;
  written.version = record.version + 1;
  for (;; PauseBeforeRetry()) {
    Status refused;
    const Try tried = TrySet(path, data, record.version, &refused);
    if (tried == Try::kWritten) return written;
    if (tried == Try::kRefused) {
      if (!absl::IsAborted(refused)) return refused;
      // Perhaps by an earlier try of ours whose answer was lost.
      const StatusOr<Znode> node = store_->Get(path);
      if (node.ok() && node->version == written.version && node->data == data) return written;
      if (node.ok()) return refused;
    }
    NOVA_RETURN_IF_ERROR(CheckMayAsk());
  }
}

StatusOr<NodeSession::Handover> NodeSessionImpl::HandOverRange(const RangeRecord& before,
                                                               const RangeRecord& after, Nanos doubt_ns) {
  const std::string path = RangePath(before.id);
  const std::string datas[] = {after.Encode(), before.Encode()};  // to give away; to cancel
  const Nanos cancel_ns = Now() + doubt_ns;
  bool in_doubt = false;
  for (;; PauseBeforeRetry()) {
    const bool cancel = in_doubt && Now() >= cancel_ns;
    Status refused;
    const Try tried = TrySet(path, datas[cancel], before.version, &refused);
    std::optional<bool> cancelled;
    if (tried == Try::kWritten) cancelled = cancel;
    if (tried == Try::kNotSent && !in_doubt) return Handover{before, true};  // nothing is under way
    if (tried == Try::kInDoubt) in_doubt = true;
    if (tried == Try::kRefused) {
      if (!absl::IsAborted(refused)) return in_doubt ? absl::UnavailableError(refused.message()) : refused;
      const StatusOr<Znode> node = store_->Get(path);
      const bool next = node.ok() && node->version == before.version + 1;
      if (next && node->data == datas[false]) cancelled = false;
      if (next && in_doubt && node->data == datas[true]) cancelled = true;
      if (node.ok() && !cancelled) return refused;
    }
    if (cancelled) {
      Handover done{*cancelled ? before : after, *cancelled};
      done.record.version = before.version + 1;
      return done;
    }
    NOVA_RETURN_IF_ERROR(CheckMayAsk());
  }
}

}  // namespace

StatusOr<std::unique_ptr<NodeSession>> JoinCluster(ConfigStore* store,
                                                   std::unique_ptr<ControlChannel> channel,
                                                   NodeOptions options, NodeEvents events) {
  auto session =
      std::make_unique<NodeSessionImpl>(store, std::move(channel), std::move(options), std::move(events));
  NOVA_RETURN_IF_ERROR(session->Join());
  return std::unique_ptr<NodeSession>(std::move(session));
}

StatusOr<Incarnation> DrawIncarnation(ConfigStore* store) {
  NOVA_ASSIGN_OR_RETURN(const uint64_t incarnation, store->Increment(kIncarnationPath));
  return Incarnation(incarnation);
}

StatusOr<Uuid> ReadClusterUuid(ConfigStore* store) {
  const StatusOr<Znode> node = store->Get(kClusterPath);
  if (absl::IsNotFound(node.status()))
    return absl::UnavailableError("there is no cluster yet: start a coordinator first");
  NOVA_RETURN_IF_ERROR(node.status());
  NOVA_ASSIGN_OR_RETURN(const ClusterRecord record, ClusterRecord::Decode(node->data));
  return record.uuid;
}

namespace {

// The id that was drawn for that store; 0: none.
StatusOr<StocId> FindStocId(ConfigStore* store, const Uuid& store_uuid) {
  NOVA_RETURN_IF_ERROR(store->Sync());
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, store->Children(kStocsPath));
  for (const std::string& name : names) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(name, &number)) continue;
    const StatusOr<Znode> node = store->Get(StocPath(StocId(number)));
    if (absl::IsNotFound(node.status())) continue;
    NOVA_RETURN_IF_ERROR(node.status());
    const auto record = StocRecord::Decode(StocId(number), node->data, node->version);
    if (record.ok() && record->store == store_uuid) return StocId(number);
  }
  return StocId();
}

}  // namespace

StatusOr<StocId> DrawStocId(ConfigStore* store, const Uuid& store_uuid, const std::string& name) {
  NOVA_RETURN_IF_ERROR(ReadClusterUuid(store).status());
  if (!IsNodeName(name)) return absl::InvalidArgumentError(StrCat("bad node name '", name, "'"));
  StocRecord record;
  record.store = store_uuid;
  record.name = name;
  NOVA_ASSIGN_OR_RETURN(const StocId drawn, FindStocId(store, store_uuid));
  if (drawn != StocId()) return drawn;
  const std::string data = record.Encode();
  for (int i = 0; i < kSettleTries; ++i) {
    NOVA_ASSIGN_OR_RETURN(const uint64_t number, store->Increment(kStocIdPath));
    if (number > UINT32_MAX) return absl::ResourceExhaustedError("all StoC ids are used");
    const StocId id(static_cast<uint32_t>(number));
    const Status s = store->Create(StocPath(id), data);
    if (s.ok()) return id;
    if (!absl::IsUnknown(s) && !absl::IsAlreadyExists(s)) return s;
    // Nobody else was given this number: a record with our store is ours, and its answer was lost. Else
    // the id is spent: another.
    const StatusOr<Znode> node = store->Get(StocPath(id));
    if (node.ok() && node->data == data) return id;
    PauseBeforeRetry();
  }
  return absl::UnavailableError("no StoC id could be drawn");
}

StatusOr<RangeRecords> ReadRangeRecords(ConfigStore* store) {
  NOVA_RETURN_IF_ERROR(store->Sync());
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, store->Children(kRangesPath));
  RangeRecords records;
  for (const std::string& name : names) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(name, &number)) continue;  // no range's
    const std::string path = RangePath(RangeId(number));
    const StatusOr<Znode> node = store->Get(path);
    if (absl::IsNotFound(node.status())) continue;
    NOVA_RETURN_IF_ERROR(node.status());
    StatusOr<RangeRecord> record = RangeRecord::Decode(node->data, node->version);
    if (record.ok() && record->id != RangeId(number))
      record = absl::DataLossError(StrCat("the record of range ", record->id.value()));
    if (record.ok()) {
      records.whole.push_back(*std::move(record));
      continue;
    }
    if (records.unknown.empty()) records.why = Annotate(record.status(), path).ToString();
    records.unknown.emplace_back(number);
  }
  std::sort(records.whole.begin(), records.whole.end(),
            [](const RangeRecord& a, const RangeRecord& b) { return a.id < b.id; });
  return records;
}

CoordinatorClient::CoordinatorClient(std::unique_ptr<ControlChannel> channel)
    : channel_(std::move(channel)) {}
CoordinatorClient::~CoordinatorClient() = default;

Status CoordinatorClient::Refresh(Configuration* known, Nanos deadline_ns) {
  proto::ConfigurationRequest request;
  request.set_version(known->version);
  NOVA_ASSIGN_OR_RETURN(const auto reply, CallMethod<proto::ConfigurationReply>(
                                              channel_.get(), "GetConfiguration", request, deadline_ns));
  Uuid cluster;
  if (!Uuid::Parse(reply.cluster(), &cluster))
    return absl::InternalError("GetConfiguration: malformed answer");
  if (reply.full()) {
    known->ranges.clear();
    known->nodes.clear();
  }
  for (const uint64_t id : reply.removed_ranges()) {
    std::erase_if(known->ranges, [id](const auto& entry) { return entry.second.id == RangeId(id); });
  }
  for (const proto::Route& r : reply.ranges()) {
    known->ranges[r.lower()] =
        RangeRoute{RangeId(r.range()), r.lower(), r.upper(), Epoch(r.epoch()), r.open(), r.address()};
  }
  const auto forget = [known](const std::string& name) {
    std::erase_if(known->nodes, [&name](const NodeInfo& n) { return n.name == name; });
  };
  for (const std::string& name : reply.removed_nodes()) forget(name);
  for (const std::string& bytes : reply.nodes()) {
    NOVA_ASSIGN_OR_RETURN(NodeInfo node, DecodeNodeInfo(bytes));
    forget(node.name);
    known->nodes.push_back(std::move(node));
  }
  std::sort(known->nodes.begin(), known->nodes.end(),
            [](const NodeInfo& a, const NodeInfo& b) { return a.name < b.name; });
  known->cluster = cluster;
  known->max_value_bytes = reply.max_value_bytes();
  known->version = reply.version();
  return OkStatus();
}

Status CoordinatorClient::CreateRanges(const std::vector<std::string>& split_points, Nanos deadline_ns) {
  proto::CreateRangesRequest request;
  for (const std::string& split : split_points) request.add_split_points(split);
  return CallMethod<proto::CreateRangesReply>(channel_.get(), "CreateRanges", request, deadline_ns).status();
}

StatusOr<std::string> CoordinatorClient::StatusText(Nanos deadline_ns) {
  NOVA_ASSIGN_OR_RETURN(auto reply, CallMethod<proto::StatusReply>(channel_.get(), "GetStatus",
                                                                   proto::StatusRequest(), deadline_ns));
  return std::move(*reply.mutable_text());
}

StatusOr<std::string> CoordinatorClient::StatusJson(Nanos deadline_ns) {
  NOVA_ASSIGN_OR_RETURN(auto reply, CallMethod<proto::StatusReply>(channel_.get(), "GetStatus",
                                                                   proto::StatusRequest(), deadline_ns));
  if (reply.json().empty())
    return absl::UnimplementedError("the coordinator is older than this: it has no JSON");
  return std::move(*reply.mutable_json());
}

Status CoordinatorClient::Drain(const std::string& node, Nanos deadline_ns, std::string* left, bool force) {
  proto::DrainRequest request;
  request.set_node(node);
  request.set_force(force);
  NOVA_ASSIGN_OR_RETURN(const auto reply,
                        CallMethod<proto::DrainReply>(channel_.get(), "Drain", request, deadline_ns));
  *left = reply.left();
  return OkStatus();
}

Status CoordinatorClient::Undrain(const std::string& node, Nanos deadline_ns, std::string* now) {
  proto::UndrainRequest request;
  request.set_node(node);
  NOVA_ASSIGN_OR_RETURN(const auto reply,
                        CallMethod<proto::UndrainReply>(channel_.get(), "Undrain", request, deadline_ns));
  if (now != nullptr) *now = reply.now().empty() ? node + " takes part again" : reply.now();
  return OkStatus();
}

Status CoordinatorClient::Forget(StocId stoc, Nanos deadline_ns) {
  proto::ForgetRequest request;
  request.set_stoc(stoc.value());
  return CallMethod<proto::ForgetReply>(channel_.get(), "Forget", request, deadline_ns).status();
}

Status CoordinatorClient::ChangeSetting(const std::string& name, std::optional<int> value,
                                        Nanos deadline_ns) {
  proto::ChangeSettingRequest request;
  request.set_name(name);
  if (value) request.set_value(*value);
  return CallMethod<proto::ChangeSettingReply>(channel_.get(), "ChangeSetting", request, deadline_ns)
      .status();
}

Status CoordinatorClient::ForceOpen(RangeId range, bool accept_data_loss, Nanos deadline_ns,
                                    std::string* report) {
  proto::ForceOpenRequest request;
  request.set_range(range.value());
  request.set_accept_data_loss(accept_data_loss);
  NOVA_ASSIGN_OR_RETURN(const auto reply,
                        CallMethod<proto::ForceOpenReply>(channel_.get(), "ForceOpen", request, deadline_ns));
  *report = reply.report();
  if (!reply.done()) return absl::FailedPreconditionError("nothing was changed");
  return OkStatus();
}

}  // namespace nova
