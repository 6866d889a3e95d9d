#include "experiments/fabric_bench/log_replication.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/executor.h"
#include "common/base/log.h"
#include "common/base/sim_disk.h"
#include "logc/log_client.h"
#include "stoc/stoc_client.h"
#include "stoc/stoc_server.h"

namespace nova {
namespace {

Hello HelloOf(Role role, const std::string& name, uint64_t incarnation) {
  Hello h;
  h.role = role;
  h.incarnation = incarnation;
  std::strncpy(h.name.data(), name.c_str(), h.name.size() - 1);
  return h;
}

double MedianOf(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// A StoC without a cluster around it, and a region for bare WRITEs.
struct Stoc {
  Stoc(std::unique_ptr<Fabric> f, const std::string& address, uint32_t id)
      : fabric(std::move(f)),
        disk(medium.Mount()),
        log_memory(fabric.get(), {64 << 20, 1 << 20, 2}),
        buffer_memory(fabric.get(), {8 << 20, 1 << 20, 1}),
        segments(&log_memory, &metrics),
        bytes(4096) {
    info.name = info.host = StrCat("stoc-", id);
    info.role = Role::kStoc;
    info.stoc_id = StocId(id);
    info.incarnation = Incarnation(1);
    files = *FileStore::Open(disk.get(), {.reserve_bytes = 0, .max_open_files = 8}, &metrics);
    const Hello hello = HelloOf(Role::kStoc, info.name, 1);
    XchgOptions x;
    x.name = "stoc.xchg.0";
    xchg = *Xchg::Open(fabric.get(), hello, x);
    StocServerOptions options;
    options.incarnation = info.incarnation;
    others = std::make_unique<StocClient>(fabric.get(), std::vector<Xchg*>{xchg.get()});
    server = std::make_unique<StocServer>(
        options,
        StocParts{&fences, &segments, &log_memory, &buffer_memory, files.get(), &metrics, others.get()},
        std::vector<Xchg*>{xchg.get()});
    info.address =
        *fabric->Listen(address + ":0", hello, {xchg->port()}, [](const Hello&) { return OkStatus(); });
    region = *fabric->Register(bytes.data(), bytes.size(), Access::kRemoteWrite);
    xchg->Start();
  }
  ~Stoc() {
    server->Stop();
    xchg->Stop();
    server = nullptr;
    xchg = nullptr;
  }

  SimDisk medium;
  Metrics metrics;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Disk> disk;
  FenceTable fences;
  ExposedMemory log_memory, buffer_memory;
  SegmentPool segments;
  std::vector<char> bytes;
  MemoryRegion region;
  std::unique_ptr<FileStore> files;
  std::unique_ptr<Xchg> xchg;
  std::unique_ptr<StocClient> others;
  std::unique_ptr<StocServer> server;
  NodeInfo info;
};

class XchgExecutor final : public Executor {
 public:
  explicit XchgExecutor(Xchg* xchg) : xchg_(xchg) {}
  void Submit(absl::AnyInvocable<void()> fn) override { xchg_->Submit(std::move(fn)); }
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) override { xchg_->RunAt(when_ns, std::move(fn)); }
  bool IsCurrentThread() const override { return xchg_->IsCurrentThread(); }
  size_t index() const override { return 0; }

 private:
  Xchg* const xchg_;
};

double LogTime(Fabric* fabric, const std::vector<std::unique_ptr<Stoc>>& stocs, size_t record_bytes,
               int count) {
  XchgOptions x;
  x.name = "ltc.xchg.0";
  const auto xchg = *Xchg::Open(fabric, HelloOf(Role::kLtc, "ltc", 1), x);
  StocClient client(fabric, {xchg.get()});
  Metrics metrics;
  LogOptions options;
  options.segment_bytes = 8 << 20;
  options.write_deadline_ns = options.open_deadline_ns = 10 * kSecond;
  LogClient logs(fabric, &client, {xchg.get()}, options, &metrics);
  xchg->Start();
  std::vector<NodeInfo> nodes;
  LogGroup group{GroupId(1), {}};
  for (const auto& s : stocs) {
    nodes.push_back(s->info);
    group.members.push_back({s->info.stoc_id, s->info.incarnation});
  }
  client.UpdateStocs(nodes);
  std::vector<double> micros;
  {
    auto log = logs.Open(RangeId(1), Epoch(1), group,
                         [](const LogGroup&, StocId, std::function<void(StatusOr<LogGroup>)> answer) {
                           answer(absl::FailedPreconditionError("a benchmark has no other StoCs"));
                         });
    XchgExecutor executor(xchg.get());
    const std::string value(record_bytes, 'v');
    Notification finished;
    std::function<void()> next;
    Nanos begin = 0;
    int done = 0;
    next = [&] {
      begin = Now();
      LogRecord record;
      record.round = 1;
      record.first_sequence = static_cast<uint64_t>(done) + 1;
      const LogEntry entry{MemTableId(1), ValueType::kPut, "key", value};
      record.entries = {&entry, 1};
      const Outcome taken = log->Append(&executor, record, [&](Outcome o) {
        NOVA_CHECK(o == Outcome::kOk) << OutcomeName(o);
        // the first opens connections and segments
        if (done > 0) micros.push_back(static_cast<double>(Now() - begin) / 1e3);
        if (++done > count) return finished.Notify();
        executor.Submit([&] { next(); });
      });
      NOVA_CHECK(taken == Outcome::kOk) << OutcomeName(taken);
    };
    executor.Submit([&] { next(); });
    finished.Wait();
    log = nullptr;
    xchg->Stop();
  }
  return MedianOf(micros);
}

double WritesTime(Fabric* fabric, const std::vector<std::unique_ptr<Stoc>>& stocs, size_t record_bytes,
                  int count) {
  std::vector<char> bytes(record_bytes, 'w');
  const MemoryRegion region = *fabric->Register(bytes.data(), bytes.size(), Access::kLocal);
  auto port = *fabric->OpenPort({});
  std::array<Completion, 16> completions;
  std::vector<ConnectionId> connections;
  for (const auto& s : stocs)
    connections.push_back(
        port->Connect(s->info.address, HelloOf(Role::kTool, "bench", 0), Now() + 5 * kSecond));
  const auto wait_for = [&](CompletionKind kind) {
    for (size_t seen = 0; seen < stocs.size();) {
      const size_t n = port->Poll(completions);
      for (size_t i = 0; i < n; ++i) {
        NOVA_CHECK(completions[i].kind == kind && completions[i].status == CompletionStatus::kOk)
            << completions[i].reason;
        ++seen;
      }
      if (n == 0) port->Wait(Now() + kSecond);
    }
  };
  wait_for(CompletionKind::kConnected);
  std::vector<double> micros;
  for (int i = 0; i < count; ++i) {
    const Nanos begin = Now();
    for (size_t r = 0; r < stocs.size(); ++r) {
      WorkRequest request;
      request.opcode = Opcode::kWrite;
      request.piece_count = 1;
      request.pieces[0] = {region.address, static_cast<uint32_t>(record_bytes), region.lkey};
      request.remote_address = stocs[r]->region.remote().address;
      request.rkey = stocs[r]->region.rkey;
      NOVA_CHECK(port->Post(connections[r], {&request, 1}).ok());
    }
    wait_for(CompletionKind::kRequest);
    micros.push_back(static_cast<double>(Now() - begin) / 1e3);
  }
  port.reset();
  fabric->Revoke(region);
  return MedianOf(micros);
}

}  // namespace

ReplicationTimes MeasureReplication(const std::function<std::unique_ptr<Fabric>()>& make_fabric,
                                    const std::string& address, int replicas, size_t record_bytes,
                                    int count) {
  std::vector<std::unique_ptr<Stoc>> stocs;
  for (int i = 0; i < replicas; ++i)
    stocs.push_back(std::make_unique<Stoc>(make_fabric(), address, static_cast<uint32_t>(i) + 1));
  const auto fabric = make_fabric();
  ReplicationTimes out;
  out.log_us = LogTime(fabric.get(), stocs, record_bytes, count);
  out.writes_us = WritesTime(fabric.get(), stocs, record_bytes, count);
  return out;
}

}  // namespace nova
