#include "tests/stoc/stoc_rig.h"

#include "common/base/mutex.h"

namespace nova {

TestStoc::TestStoc(FabricWorld* world, uint32_t id, uint64_t incarnation, Disk* disk,
                   TestStocOptions options) {
  info_.name = StrCat("stoc-", id);
  info_.role = Role::kStoc;
  info_.stoc_id = StocId(id);
  info_.incarnation = Incarnation(incarnation);
  info_.host = info_.name;
  info_.store = {0x5700, id};
  fabric = world->NewFabric(info_.name);
  auto opened = FileStore::Open(disk, options.files, &metrics);
  EXPECT_TRUE(opened.ok()) << opened.status();
  files = *std::move(opened);
  log_memory = std::make_unique<ExposedMemory>(fabric.get(), options.log_memory);
  buffer_memory = std::make_unique<ExposedMemory>(fabric.get(), options.buffer_memory);
  segments = std::make_unique<SegmentPool>(log_memory.get(), &metrics);
  const Hello hello = TestHello(Role::kStoc, info_.name, incarnation);
  std::vector<Xchg*> raw;
  std::vector<Port*> ports;
  for (int i = 0; i < options.xchg_threads; ++i) {
    XchgOptions x;
    x.name = StrCat("stoc.xchg.", i);
    x.index = static_cast<uint16_t>(i);
    xchgs.push_back(*Xchg::Open(fabric.get(), hello, x));
    raw.push_back(xchgs.back().get());
    ports.push_back(xchgs.back()->port());
  }
  options.server.incarnation = info_.incarnation;
  options.server.stoc = info_.stoc_id;
  options.server.store = info_.store;
  others = std::make_unique<StocClient>(fabric.get(), raw);
  server = std::make_unique<StocServer>(options.server,
                                        StocParts{&fences, segments.get(), log_memory.get(),
                                                  buffer_memory.get(), files.get(), &metrics, others.get()},
                                        raw);
  auto bound = fabric->Listen(world->AnyAddress(info_.name), hello, ports,
                              [this](const Hello& peer) { return server->AcceptPeer(peer); });
  EXPECT_TRUE(bound.ok()) << bound.status();
  info_.address = *bound;
  for (auto& x : xchgs) x->Start();
}

void TestStoc::Stop() {
  if (stopped_) return;
  stopped_ = true;
  server->Stop();
  for (auto& x : xchgs) x->Stop();
  server = nullptr;
  others = nullptr;
  xchgs.clear();
}

TestStoc::~TestStoc() {
  Stop();
  segments = nullptr;
  buffer_memory = nullptr;
  log_memory = nullptr;
  files = nullptr;
  fabric = nullptr;
}

TestClient::TestClient(FabricWorld* world, const std::string& name, uint64_t incarnation, int xchg_threads,
                       const std::function<void(TestClient*)>& before_start)
    : fabric(world->NewFabric(name)) {
  std::vector<Xchg*> raw;
  for (int i = 0; i < xchg_threads; ++i) {
    XchgOptions x;
    x.name = StrCat("ltc.xchg.", i);
    x.index = static_cast<uint16_t>(i);
    x.connect_timeout_ns = 200 * kMillisecond * world->patience();
    x.reconnect_max_ns = 50 * kMillisecond;
    xchgs.push_back(*Xchg::Open(fabric.get(), TestHello(Role::kLtc, name, incarnation), x));
    raw.push_back(xchgs.back().get());
    executors.push_back(std::make_unique<TestExecutor>(raw.back()));
  }
  stocs = std::make_unique<StocClient>(fabric.get(), raw);
  buffers = std::make_unique<BufferPool>(fabric.get(), Access::kLocal, 64 << 20);
  if (before_start) before_start(this);
  for (auto& x : xchgs) x->Start();
}

TestClient::~TestClient() {
  Stop();
  xchgs.clear();
}

void TestClient::Stop() {
  for (auto& x : xchgs) x->Stop();
}

void TestClient::Update(const std::vector<TestStoc*>& all) {
  std::vector<NodeInfo> live;
  for (const TestStoc* s : all) live.push_back(s->info());
  stocs->UpdateStocs(live);
  for (TestStoc* s : all) {
    if (s->others != nullptr) s->others->UpdateStocs(live);  // null: it was stopped
  }
}

void TestClient::On(size_t xchg, std::function<void()> fn) {
  Notification done;
  xchgs[xchg]->Submit([&] {
    fn();
    done.Notify();
  });
  done.Wait();
}

std::pair<Outcome, RemoteBuffer> TestClient::OpenSegment(const TestStoc& stoc, RangeId range, Epoch epoch,
                                                         const Uuid& log, uint32_t index, uint64_t size) {
  std::pair<Outcome, RemoteBuffer> result;
  Notification done;
  On(0, [&] {
    stocs->OpenSegment(xchgs[0].get(), stoc.member(), range, epoch, log, index, size, Soon(),
                       [&](Outcome o, RemoteBuffer m) {
                         result = {o, m};
                         done.Notify();
                       });
  });
  done.Wait();
  return result;
}

Outcome TestClient::FreeLogs(const TestStoc& stoc, RangeId range, Epoch epoch,
                             const std::vector<Uuid>& logs) {
  Outcome result = Outcome::kInternal;
  Notification done;
  On(0, [&] {
    stocs->FreeLogs(xchgs[0].get(), stoc.id(), range, epoch, logs, [&](Outcome o) {
      result = o;
      done.Notify();
    });
  });
  done.Wait();
  return result;
}

Outcome TestClient::Write(const TestStoc& stoc, const RemoteBuffer& memory, std::string_view bytes) {
  Buffer buffer = buffers->Allocate(bytes.size());
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(buffer.data()));
  Outcome result = Outcome::kInternal;
  Notification done;
  On(0, [&] {
    const LocalBuffer local{buffer.data(), static_cast<uint32_t>(bytes.size()), buffer.lkey()};
    xchgs[0]->Write(stocs->peer(xchgs[0].get(), stoc.id(), stoc.info().incarnation), {&local, 1},
                    memory.address, memory.rkey, Now() + 2 * kSecond, [&](Outcome o) {
                      result = o;
                      done.Notify();
                    });
  });
  done.Wait();
  return result;
}

std::pair<Outcome, std::string> TestClient::Call(const TestStoc& stoc, uint16_t type, std::string_view body) {
  const PeerIdentity who{Role::kStoc, ToNodeName(stoc.info().name), stoc.info().incarnation.value()};
  const BlockingResult r =
      BlockingCall(xchgs[0].get(), stoc.info().address, type, {&body, 1}, Now() + 5 * kSecond, who);
  return {r.outcome, r.body};
}

}  // namespace nova
