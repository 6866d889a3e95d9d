// A StoC and its clients, over sockets in real time and over the simulated fabric.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "common/base/crc32c.h"
#include "common/base/fault_disk.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr RangeId kRange(7);
constexpr Creator kCreator{kRange, Epoch(3), 1};
constexpr Uuid kLog1{0x51, 1}, kLog2{0x51, 2};

class StocTest : public testing::TestWithParam<FabricKind> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
  bool simulated() const { return GetParam() == FabricKind::kSim; }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, StocTest, testing::ValuesIn(FabricKinds()),
                         [](const auto& param) { return FabricKindName(param.param); });

// One StoC on a disk with faults, one client.
struct Rig {
  explicit Rig(FabricWorld* w, TestStocOptions options = {})
      : world(w), base(medium.Mount()), disk(base.get()) {
    stoc = std::make_unique<TestStoc>(w, 1, 100, &disk, options);
    client = std::make_unique<TestClient>(w, "ltc-1", 10);
    client->Update({stoc.get()});
  }
  StocClient* operator->() const { return client->stocs.get(); }
  StocId id() const { return stoc->id(); }
  std::string Memory(const RemoteBuffer& m) const {
    return {reinterpret_cast<const char*>(m.address), m.size};
  }

  FabricWorld* const world;
  SimDisk medium;
  std::unique_ptr<Disk> base;
  FaultDisk disk;
  std::unique_ptr<TestStoc> stoc;
  std::unique_ptr<TestClient> client;
};

// --- segments

TEST_P(StocTest, ASegmentTakesWritesAndPingSaysTheIncarnation) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    EXPECT_EQ(*PingOf(rig.client->stocs.get(), rig.id(), Soon()), Incarnation(100));
    const auto [outcome, memory] = rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1);
    ASSERT_EQ(outcome, Outcome::kOk);
    EXPECT_EQ(memory.size, 1u << 20);
    ASSERT_EQ(rig.client->Write(*rig.stoc, memory.Slice(8, 5), "hello"), Outcome::kOk);
    EXPECT_EQ(rig.Memory(memory.Slice(8, 5)), "hello");
    // The same again is the same segment; another size is not.
    EXPECT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1).second, memory);
    EXPECT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1, 0, 100).first,
              Outcome::kInvalidArgument);
  });
}

// Whoever opens a segment and loses its connection before the answer asks again over another.
TEST_P(StocTest, ASegmentIsTheSameOverAnotherConnection) {  // F2
  Run([&](FabricWorld* world) {
    TestStocOptions options;
    options.log_memory = {2 << 20, 1 << 20, 0};  // nothing but what is given back
    Rig rig(world, options);
    const auto [outcome, memory] = rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1);
    ASSERT_EQ(outcome, Outcome::kOk);
    TestClient again(world, "ltc-1 again", 11);
    again.Update({rig.stoc.get()});
    const auto [second, same] = again.OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1);
    ASSERT_EQ(second, Outcome::kOk);
    EXPECT_EQ(same, memory);
    ASSERT_EQ(again.Write(*rig.stoc, same.Slice(8, 5), "hello"), Outcome::kOk);
    EXPECT_EQ(rig.Memory(memory.Slice(8, 5)), "hello");
    EXPECT_EQ(rig.stoc->segments->open_segments(), 1u);
    // The first connection may have posted to it, for all the StoC knows: so its key ends with the log.
    ASSERT_EQ(again.FreeLogs(*rig.stoc, kRange, Epoch(3), {kLog1}), Outcome::kOk);
    for (uint32_t i = 0; i < 2; ++i) {
      const auto [o, next] = again.OpenSegment(*rig.stoc, kRange, Epoch(3), kLog2, i);
      ASSERT_EQ(o, Outcome::kOk) << i;
      EXPECT_NE(next.rkey, memory.rkey);
    }
  });
}

// As a manifest's snapshot may be.
TEST_P(StocTest, AnAppendLargerThanAMessageGoesInPieces) {  // M1
  if (GetParam() == FabricKind::kVerbs) return;             // Soft-RoCE in a guest takes long for as much
  Run([&](FabricWorld* world) {
    Rig rig(world);
    std::string snapshot(2 * kMaxAppendBytes + 100, 'x');
    snapshot[kMaxAppendBytes] = snapshot.back() = 'y';
    const Nanos until = Now() + 30 * kSecond;
    ASSERT_TRUE(rig->AppendFile({rig.id()}, FileId(1), kCreator, 0, true, snapshot, until).ok());
    ASSERT_TRUE(rig->AppendFile({rig.id()}, FileId(1), kCreator, snapshot.size(), false, "edit", until).ok());
    const auto read = rig->ReadFileBlocking(rig.id(), FileId(1), 0, UINT64_MAX, until);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == snapshot + "edit");
    // One that is refused in the middle is an error.
    rig.disk.Add({.path = "files", .op = DiskOp::kSync, .action = FaultAction::kEio, .nth = 2, .count = 1});
    EXPECT_FALSE(rig->AppendFile({rig.id()}, FileId(2), kCreator, 0, true, snapshot, until).ok());
  });
}

TEST_P(StocTest, AfterAFenceNoByteOfASealedSegmentChanges) {  // F1, H1, row 3
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const RemoteBuffer memory = rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1).second;
    ASSERT_EQ(rig.client->Write(*rig.stoc, memory.Slice(0, 7), "record1"), Outcome::kOk);
    // Writes race with the fence.
    std::atomic<int> landed{0}, refused{0};
    std::atomic<bool> stop{false};
    const std::string junk(3000, 'z');
    Thread zombie("zombie", [&] {
      for (uint64_t at = 8; !stop.load(); at += junk.size()) {
        const Outcome o = rig.client->Write(*rig.stoc, memory.Slice(at % (1 << 19), junk.size()), junk);
        ++(o == Outcome::kOk ? landed : refused);
      }
    });
    const auto wait_for = [](const std::atomic<int>& count) {
      for (const Nanos until = Soon(); count.load() == 0 && Now() < until;) SleepFor(kMillisecond);
    };
    wait_for(landed);
    SleepFor(20 * kMillisecond);
    TestClient other(world, "ltc-2", 11);
    other.Update({rig.stoc.get()});
    const auto fenced = other.stocs->Fence(rig.id(), kRange, Epoch(4), Soon());
    ASSERT_TRUE(fenced.ok()) << fenced.status();
    const uint32_t before = Crc32c(rig.Memory(memory));
    EXPECT_EQ(fenced->incarnation, Incarnation(100));
    ASSERT_THAT(fenced->segments, SizeIs(1));
    EXPECT_EQ(fenced->segments[0].log, kLog1);
    EXPECT_NE(fenced->segments[0].memory.rkey, memory.rkey);
    wait_for(refused);
    SleepFor(200 * kMillisecond);
    stop = true;
    zombie.Join();
    EXPECT_GT(landed.load(), 0);
    EXPECT_GT(refused.load(), 0);
    EXPECT_EQ(Crc32c(rig.Memory(memory)), before);
    // Readable by one-sided READ, writable by nobody.
    const auto bytes =
        other.stocs->ReadRemote(rig.id(), fenced->incarnation, fenced->segments[0].memory, Soon());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(Crc32c(*bytes), before);
    EXPECT_EQ(bytes->substr(0, 7), "record1");
    EXPECT_NE(other.Write(*rig.stoc, fenced->segments[0].memory.Slice(0, 4), "evil"), Outcome::kOk);
    EXPECT_EQ(Crc32c(rig.Memory(memory)), before);
  });
}

TEST_P(StocTest, FencingIsIdempotentAndLowerEpochsAreRefusedEverywhere) {  // F1
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1).first, Outcome::kOk);
    ASSERT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1, 1).first, Outcome::kOk);
    ASSERT_EQ(rig.client->OpenSegment(*rig.stoc, RangeId(8), Epoch(3), kLog2).first, Outcome::kOk);
    const auto first = rig->Fence(rig.id(), kRange, Epoch(4), Soon());
    ASSERT_TRUE(first.ok());
    EXPECT_THAT(first->segments, SizeIs(2));
    EXPECT_EQ(first->segments[1].index, 1u);
    EXPECT_EQ(rig->Fence(rig.id(), kRange, Epoch(4), Soon())->segments, first->segments);
    EXPECT_TRUE(absl::IsFailedPrecondition(rig->Fence(rig.id(), kRange, Epoch(3), Soon()).status()));
    // Every request that carries the lower epoch.
    EXPECT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog2).first, Outcome::kNotOwner);
    EXPECT_EQ(rig.client->FreeLogs(*rig.stoc, kRange, Epoch(3), {kLog1}), Outcome::kNotOwner);
    EXPECT_TRUE(absl::IsFailedPrecondition(rig->WriteFile(rig.id(), FileId(1), kCreator, "small", Soon())));
    EXPECT_TRUE(absl::IsFailedPrecondition(
        rig->WriteFile(rig.id(), FileId(2), kCreator, std::string(100'000, 'x'), Soon())));
    EXPECT_TRUE(absl::IsFailedPrecondition(
        rig->AppendFile({rig.id()}, FileId(3), kCreator, 0, true, "edit", Soon())));
    EXPECT_TRUE(absl::IsFailedPrecondition(rig->FreeFenced(rig.id(), kRange, Epoch(3), Soon())));
    // Its own epoch, and other ranges, go on; a later fence finds what the earlier sealed.
    ASSERT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(4), kLog2).first, Outcome::kOk);
    ASSERT_EQ(rig.client->OpenSegment(*rig.stoc, RangeId(8), Epoch(3), kLog1).first, Outcome::kOk);
    const auto second = rig->Fence(rig.id(), kRange, Epoch(5), Soon());
    ASSERT_TRUE(second.ok());
    EXPECT_THAT(second->segments, SizeIs(3));
    EXPECT_EQ(second->segments[0], first->segments[0]);
    // R6
    EXPECT_TRUE(rig->FreeFenced(rig.id(), kRange, Epoch(5), Soon()).ok());
    EXPECT_THAT(rig->Fence(rig.id(), kRange, Epoch(5), Soon())->segments, SizeIs(0));
    EXPECT_FALSE(
        rig->ReadRemote(rig.id(), first->incarnation, first->segments[0].memory, Now() + kSecond).ok());
    EXPECT_GT(rig.stoc->metrics.counter("nova_stoc_fenced_requests_total")->value(), 5u);
  });
}

TEST_P(StocTest, ASegmentFreedInOrderIsReusedUnderTheSameKey) {  // F2
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const RemoteBuffer memory = rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1).second;
    ASSERT_EQ(rig.client->Write(*rig.stoc, memory.Slice(0, 5), "stale"), Outcome::kOk);
    ASSERT_EQ(rig.client->FreeLogs(*rig.stoc, kRange, Epoch(3), {kLog1}), Outcome::kOk);
    const RemoteBuffer again = rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog2).second;
    EXPECT_EQ(again, memory);
    EXPECT_EQ(rig.Memory(again.Slice(0, 5)), "stale")
        << "unzeroed: the salt of its records tells them apart (H5)";
  });
}

TEST_P(StocTest, AWriterWhoseConnectionEndedCannotReachReusedMemory) {  // H3, F2, row 30
  Run([&](FabricWorld* world) {
    TestStocOptions options;
    options.log_memory = {2 << 20, 1 << 20, 0};  // nothing but what is given back
    Rig rig(world, options);
    const RemoteBuffer memory = rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1).second;
    ASSERT_EQ(rig.client->FreeLogs(*rig.stoc, kRange, Epoch(3), {kLog1}), Outcome::kOk);
    // Its warm segment goes to another when its connection ends, under another key.
    rig.client->On(0, [&] { rig.client->xchgs[0]->port()->Disconnect(ConnectionId(1)); });
    ASSERT_NE(rig.client->Write(*rig.stoc, {0, 1, 1, 0}, "x"), Outcome::kOk);  // whatever was left of it
    TestClient other(world, "ltc-2", 11);
    other.Update({rig.stoc.get()});
    std::vector<RemoteBuffer> given;
    for (uint32_t i = 0; i < 2; ++i) {
      const auto [o, m] = other.OpenSegment(*rig.stoc, RangeId(8), Epoch(1), kLog2, i);
      ASSERT_EQ(o, Outcome::kOk);
      given.push_back(m);
    }
    EXPECT_NE(rig.client->Write(*rig.stoc, memory.Slice(0, 4), "late"), Outcome::kOk);
    for (const RemoteBuffer& m : given) {
      EXPECT_NE(m.rkey, memory.rkey);
      EXPECT_NE(rig.Memory(m.Slice(0, 4)), "late");
    }
  });
}

TEST_P(StocTest, LogMemoryIsBoundedAndRefusedAsBusy) {  // row 27
  Run([&](FabricWorld* world) {
    TestStocOptions options;
    options.log_memory = {4 << 20, 1 << 20, 1};
    Rig rig(world, options);
    for (uint32_t i = 0; i < 4; ++i) {
      ASSERT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1, i).first, Outcome::kOk) << i;
    }
    EXPECT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1, 4).first, Outcome::kBusy);
    EXPECT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1, 4, 8 << 20).first,
              Outcome::kInvalidArgument);
    EXPECT_LE(rig.stoc->log_memory->counts().mapped_bytes, 4u << 20);
    ASSERT_EQ(rig.client->FreeLogs(*rig.stoc, kRange, Epoch(3), {kLog1}), Outcome::kOk);
    EXPECT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog2, 0, 3 << 20).first, Outcome::kOk)
        << "of another size";
  });
}

TEST_P(StocTest, ASegmentOfAnotherIncarnationIsNotOpened) {  // N1, H8, row 14
  Run([&](FabricWorld* world) {
    Rig rig(world);
    std::string request;
    AppendBody(OpenSegmentRequest{kRange, Epoch(3), Incarnation(99), kLog1, 0, 1 << 20}, &request);
    EXPECT_EQ(rig.client->Call(*rig.stoc, static_cast<uint16_t>(StocRequest::kOpenSegment), request).first,
              Outcome::kUnavailable);
    EXPECT_EQ(rig.stoc->segments->open_segments(), 0u);
  });
}

// A key that its last start gave out may by chance be one that this start has given another: RDMA devices
// draw them from few numbers. So whoever means the last start is refused when it connects.
TEST_P(StocTest, H8AWriteMeantForItsLastStartDoesNotLandInThisOnesMemory) {  // N1, F3
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const auto [opened, memory] = rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1);
    ASSERT_EQ(opened, Outcome::kOk);
    ASSERT_EQ(rig.client->Write(*rig.stoc, memory.Slice(0, 4), "good"), Outcome::kOk);
    TestClient other(world, "ltc-2", 11);
    NodeInfo last = rig.stoc->info();
    last.incarnation = Incarnation(99);
    other.stocs->UpdateStocs({last});  // it has not heard of the restart
    const auto write = [&, memory = memory](Incarnation meant) {
      Buffer buffer = other.buffers->Allocate(4);
      std::memcpy(buffer.data(), "evil", 4);
      std::optional<Outcome> outcome;
      Notification done;
      other.On(0, [&] {
        Xchg* const x = other.xchgs[0].get();
        Peer* const peer = other.stocs->peer(x, rig.id(), meant);
        if (peer == nullptr) return done.Notify();
        const LocalBuffer local{buffer.data(), 4, buffer.lkey()};
        x->Write(peer, {&local, 1}, memory.address, memory.rkey, Soon(), [&](Outcome o) {
          outcome = o;
          done.Notify();
        });
      });
      done.Wait();
      return outcome;
    };
    EXPECT_EQ(write(Incarnation(99)), Outcome::kUnavailable);
    EXPECT_EQ(rig.Memory(memory.Slice(0, 4)), "good");
    EXPECT_FALSE(other.stocs->ReadRemote(rig.id(), Incarnation(99), memory, Soon()).ok());
    // Once it has heard, it is reached, but for what it meant for the last.
    other.stocs->UpdateStocs({rig.stoc->info()});
    EXPECT_EQ(write(Incarnation(99)), std::nullopt);
    EXPECT_EQ(*PingOf(other.stocs.get(), rig.id(), Soon()), Incarnation(100));
    EXPECT_EQ(rig.Memory(memory.Slice(0, 4)), "good");
  });
}

TEST_P(StocTest, CompletionsNeverRunInsideTheCall) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    std::atomic<int> inside{0}, ran{0};
    bool calling = true;
    Notification all;
    const auto end = [&] {
      inside += calling ? 1 : 0;
      if (++ran == 6) all.Notify();
    };
    rig.client->On(0, [&] {
      Xchg* const x = rig.client->xchgs[0].get();
      for (const uint32_t stoc : {1u, 9u}) {  // 9 is not known
        rig->OpenSegment(x, {StocId(stoc), Incarnation(100)}, kRange, Epoch(3), kLog1, 0, 4096, Soon(),
                         [end](Outcome, RemoteBuffer) { end(); });
        rig->FreeLogs(x, StocId(stoc), kRange, Epoch(3), {kLog2}, [end](Outcome) { end(); });
        rig->ReadFile(x, StocId(stoc), FileId(1), 0, 10, Soon(), [end](Outcome, std::string_view) { end(); });
      }
      EXPECT_EQ(rig->peer(x, StocId(9), Incarnation(100)), nullptr);
      calling = false;
      EXPECT_EQ(ran.load(), 0);
    });
    all.Wait();
    EXPECT_EQ(inside.load(), 0);
  });
}

// A StoC that died, and another one that got its address before anybody heard of it: what is written must not
// end up there.
TEST_P(StocTest, F3_NothingIsWrittenToAnotherStocThanItIsMeantFor) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    NodeInfo moved = rig.stoc->info();
    moved.name = "stoc-of-before";
    rig->UpdateStocs({moved});
    EXPECT_TRUE(absl::IsUnavailable(rig->WriteFile(moved.stoc_id, FileId(1), kCreator, "data", Soon())));
    EXPECT_FALSE(rig->ReadFileBlocking(moved.stoc_id, FileId(1), 0, 4, Soon()).ok());
    EXPECT_EQ(rig.stoc->files->stored_bytes(), 0u);
    rig.client->Update({rig.stoc.get()});
    EXPECT_TRUE(rig->WriteFile(moved.stoc_id, FileId(1), kCreator, "data", Soon()).ok());
  });
}

TEST_P(StocTest, ALaterIncarnationOfAnLtcEndsTheConnectionsOfTheEarlier) {  // F3
  Run([&](FabricWorld* world) {
    Rig rig(world);
    TestClient old(world, "ltc-9", 20, 2);
    old.Update({rig.stoc.get()});
    // A file buffer over each xchg thread of the old process: only one of them meets its successor's.
    for (size_t i = 0; i < 2; ++i) {
      std::string body;
      AppendBody(OpenFileRequest{FileId(i), kCreator, 1 << 20}, &body);
      const std::string_view whole = body;
      EXPECT_EQ(
          BlockingCall(old.xchgs[i].get(), rig.stoc->info().address, 0x104, {&whole, 1}, Soon()).outcome,
          Outcome::kOk);
    }
    EXPECT_EQ(rig.stoc->buffer_memory->counts().taken_bytes, 2u << 20);
    TestClient later(world, simulated() ? "ltc-9b" : "ltc-9", 21);
    if (simulated()) return;  // a node's name is its address there: the same name cannot be twice
    later.Update({rig.stoc.get()});
    EXPECT_TRUE(PingOf(later.stocs.get(), rig.id(), Soon()).ok());
    for (const Nanos until = Soon(); rig.stoc->buffer_memory->counts().taken_bytes > 0 && Now() < until;)
      SleepFor(kMillisecond);
    EXPECT_EQ(rig.stoc->buffer_memory->counts().taken_bytes, 0u) << "freed after its connections are gone";
    EXPECT_FALSE(PingOf(old.stocs.get(), rig.id(), Now() + kSecond).ok())
        << "the old process gets no session again";
  });
}

// --- files

TEST_P(StocTest, FilesOfAllSizesComeBack) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    std::vector<size_t> sizes = {0, 1, 4096, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, (3 << 20) + 12345};
    if (!simulated()) sizes.insert(sizes.end(), {(16 << 20) + 7, 20 << 20});
    uint64_t n = 0;
    for (const size_t size : sizes) {
      const std::string data = Pattern(size, ++n);
      const Status s = rig->WriteFile(rig.id(), FileId(n), kCreator, data, Soon());
      ASSERT_TRUE(s.ok()) << size << ": " << s;
      const auto back = rig->ReadFileBlocking(rig.id(), FileId(n), 0, UINT64_MAX, Soon());
      ASSERT_TRUE(back.ok()) << size << ": " << back.status();
      ASSERT_TRUE(*back == data) << size;
    }
    EXPECT_EQ(rig.stoc->buffer_memory->counts().taken_bytes, 0u);
    // One request, one reply, of more than 16 MB.
    if (!simulated()) {
      std::string body;
      AppendBody(ReadFileRequest{FileId(n), 100, kMaxReadBytes}, &body);
      const auto [outcome, bytes] = rig.client->Call(*rig.stoc, 0x108, body);
      EXPECT_EQ(outcome, Outcome::kOk);
      EXPECT_TRUE(bytes == Pattern(20 << 20, n).substr(100, kMaxReadBytes));
    }
  });
}

TEST_P(StocTest, FilesSurviveARestartAndSegmentsDoNot) {  // N1, N4
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string data = Pattern(200'000, 1);
    ASSERT_TRUE(rig->WriteFile(rig.id(), FileId(1), kCreator, data, Soon()).ok());
    ASSERT_TRUE(rig->WriteFile(rig.id(), FileId(2), {kRange, Epoch(5), 2}, "small", Soon()).ok());
    ASSERT_EQ(rig.client->OpenSegment(*rig.stoc, kRange, Epoch(3), kLog1).first, Outcome::kOk);
    rig.stoc = nullptr;
    rig.stoc = std::make_unique<TestStoc>(world, 1, 101, &rig.disk);
    rig.client->Update({rig.stoc.get()});
    EXPECT_EQ(*PingOf(rig.client->stocs.get(), rig.id(), Soon()), Incarnation(101));
    EXPECT_TRUE(*rig->ReadFileBlocking(rig.id(), FileId(1), 0, UINT64_MAX, Soon()) == data);
    EXPECT_THAT(rig->Fence(rig.id(), kRange, Epoch(4), Soon())->segments, SizeIs(0));
    const auto listed = rig->ListFiles(rig.id(), kRange, Epoch(5), {}, Soon());
    ASSERT_TRUE(listed.ok());
    ASSERT_THAT(*listed, SizeIs(1));
    EXPECT_EQ((*listed)[0].file, FileId(1));
    EXPECT_EQ((*listed)[0].creator, kCreator);
    EXPECT_EQ((*listed)[0].size, data.size());
    EXPECT_TRUE(
        rig->DropReferences(rig.id(), kRange, Epoch(5), {FileId(1), FileId(2), FileId(3)}, Soon()).ok());
    EXPECT_TRUE(absl::IsNotFound(rig->ReadFileBlocking(rig.id(), FileId(1), 0, 1, Soon()).status()));
  });
}

TEST_P(StocTest, BytesThatArriveDamagedAreRefused) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string data = Pattern(1 << 20, 1);
    for (const bool torn : {true, false}) {
      std::string open;
      AppendBody(OpenFileRequest{FileId(1), kCreator, data.size()}, &open);
      const auto [outcome, body] = rig.client->Call(*rig.stoc, 0x104, open);
      ASSERT_EQ(outcome, Outcome::kOk);
      OpenFileReply reply;
      ASSERT_TRUE(ParseBody(body, &reply));
      std::string sent = data;
      if (torn) {
        std::fill(sent.begin() + 777'777, sent.end(), '\0');
      } else {
        sent[123'456] ^= 4;
      }
      ASSERT_EQ(rig.client->Write(*rig.stoc, reply.memory, sent), Outcome::kOk);
      std::string persist;
      AppendBody(PersistFileRequest{reply.buffer, static_cast<uint32_t>(data.size()), Crc32c(data)},
                 &persist);
      EXPECT_EQ(rig.client->Call(*rig.stoc, 0x105, persist).first, Outcome::kCorruption);
      EXPECT_EQ(rig.client->Call(*rig.stoc, 0x105, persist).first, Outcome::kNotFound)
          << "the buffer is not its any more";
    }
    std::string small, append;
    AppendBody(WriteSmallFileRequest{FileId(2), kCreator, Crc32c("right"), {}}, &small);
    EXPECT_EQ(rig.client->Call(*rig.stoc, 0x106, small + "wrong").first, Outcome::kCorruption);
    AppendBody(AppendFileRequest{FileId(2), kCreator, 0, true, Crc32c("right"), {}}, &append);
    EXPECT_EQ(rig.client->Call(*rig.stoc, 0x107, append + "wrong").first, Outcome::kCorruption);
    EXPECT_EQ(rig.stoc->metrics.gauge("nova_stoc_files")->value(), 0);
    EXPECT_TRUE(rig->WriteFile(rig.id(), FileId(1), kCreator, data, Soon()).ok());
  });
}

TEST_P(StocTest, AFullDiskSaysSoReadsGoOnAndItResumes) {  // S2, row 20
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string data = Pattern(100'000, 1);
    ASSERT_TRUE(rig->WriteFile(rig.id(), FileId(1), kCreator, data, Soon()).ok());
    rig.disk.Add({.op = DiskOp::kFreeBytes, .action = FaultAction::kNoSpace});
    EXPECT_TRUE(absl::IsResourceExhausted(rig->WriteFile(rig.id(), FileId(2), kCreator, data, Soon())));
    EXPECT_TRUE(absl::IsResourceExhausted(rig->WriteFile(rig.id(), FileId(3), kCreator, "small", Soon())));
    EXPECT_TRUE(
        absl::IsResourceExhausted(rig->AppendFile({rig.id()}, FileId(4), kCreator, 0, true, "edit", Soon())));
    EXPECT_TRUE(*rig->ReadFileBlocking(rig.id(), FileId(1), 0, UINT64_MAX, Soon()) == data);
    EXPECT_TRUE(rig->DropReferences(rig.id(), kRange, kCreator.epoch, {FileId(1)}, Soon()).ok());
    rig.disk.Clear();
    EXPECT_TRUE(rig->WriteFile(rig.id(), FileId(2), kCreator, data, Soon()).ok());
  });
}

TEST_P(StocTest, AFailedSyncIsNotAcknowledgedNorTrustedLater) {  // S1, row 22
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.disk.Add({.path = "files", .op = DiskOp::kSync, .action = FaultAction::kEio, .count = 1});
    EXPECT_TRUE(absl::IsDataLoss(rig->WriteFile(rig.id(), FileId(1), kCreator, "x", Soon())));
    EXPECT_TRUE(absl::IsDataLoss(rig->WriteFile(rig.id(), FileId(1), kCreator, "x", Soon())));
    EXPECT_FALSE(rig->ReadFileBlocking(rig.id(), FileId(1), 0, 1, Soon()).ok());
    ASSERT_TRUE(rig->AppendFile({rig.id()}, FileId(2), kCreator, 0, true, "one", Soon()).ok());
    rig.disk.Add({.path = "files", .op = DiskOp::kSync, .action = FaultAction::kEio, .count = 1});
    EXPECT_TRUE(absl::IsDataLoss(rig->AppendFile({rig.id()}, FileId(2), kCreator, 3, false, "two", Soon())));
    EXPECT_TRUE(absl::IsDataLoss(rig->AppendFile({rig.id()}, FileId(2), kCreator, 3, false, "two", Soon())));
    EXPECT_EQ(*rig->ReadFileBlocking(rig.id(), FileId(2), 0, UINT64_MAX, Soon()), "one");
  });
}

TEST_P(StocTest, AfterAFenceNoByteOfAManifestChanges) {  // M1, H12
  Run([&](FabricWorld* world) {
    for (uint64_t round = 0; round < (simulated() ? 5 : 3); ++round) {
      Rig rig(world);
      rig.disk.Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = 3 * kMillisecond});
      const StocFileId manifest = FileId(1);
      ASSERT_TRUE(rig->AppendFile({rig.id()}, manifest, kCreator, 0, true, "snapshot", Soon()).ok());
      std::atomic<uint64_t> acknowledged{8};
      Status last;
      Thread appender("appender", [&] {
        for (uint64_t at = 8; last.ok(); at += 4) {
          last = rig->AppendFile({rig.id()}, manifest, kCreator, at, false, "edit", Soon());
          if (last.ok()) acknowledged = at + 4;
        }
      });
      for (const Nanos until = Soon(); acknowledged.load() == 8 && Now() < until;) SleepFor(kMillisecond);
      SleepFor((20 + static_cast<Nanos>(round)) * kMillisecond);
      TestClient other(world, "ltc-2", 11);
      other.Update({rig.stoc.get()});
      ASSERT_TRUE(other.stocs->Fence(rig.id(), kRange, Epoch(4), Soon()).ok());
      const auto at_fence = other.stocs->ReadFileBlocking(rig.id(), manifest, 0, UINT64_MAX, Soon());
      ASSERT_TRUE(at_fence.ok());
      SleepFor(100 * kMillisecond);
      appender.Join();
      EXPECT_TRUE(absl::IsFailedPrecondition(last)) << last;
      EXPECT_EQ(*other.stocs->ReadFileBlocking(rig.id(), manifest, 0, UINT64_MAX, Soon()), *at_fence);
      EXPECT_EQ(*rig.stoc->files->ReadFile(manifest, 0, kMaxReadBytes), *at_fence);
      EXPECT_GE(at_fence->size(), acknowledged.load()) << "an acknowledged edit is there";
      EXPECT_GT(acknowledged.load(), 8u);
    }
  });
}

TEST_P(StocTest, AFenceWaitsForWorkInsideAndNotForOtherRanges) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.disk.Add({.op = DiskOp::kSync,
                  .action = FaultAction::kDelay,
                  .count = 1,
                  .delay_ns = 300 * kMillisecond * world->patience()});
    Thread slow("slow", [&] {
      rig->AppendFile({rig.id()}, FileId(1), kCreator, 0, true, "x", Soon()).IgnoreError();
    });
    for (const Nanos until = Soon(); rig.stoc->server->queue_depth() == 0 && Now() < until;)
      SleepFor(kMillisecond);
    const Nanos begin = Now();
    EXPECT_TRUE(rig->Fence(rig.id(), RangeId(8), Epoch(9), Soon()).ok());
    EXPECT_LT(Now() - begin, 200 * kMillisecond * world->patience());
    EXPECT_TRUE(rig->Fence(rig.id(), kRange, Epoch(9), Soon()).ok());
    EXPECT_GT(Now() - begin, 200 * kMillisecond * world->patience());
    slow.Join();
  });
}

TEST_P(StocTest, QueueDepthRidesOnEveryReplyAndWhatIsOnItsWayIsKnownWithoutOne) {
  Run([&](FabricWorld* world) {
    TestStocOptions options;
    options.server.storage_threads = 1;
    Rig rig(world, options);
    EXPECT_TRUE(PingOf(rig.client->stocs.get(), rig.id(), Soon()).ok());
    EXPECT_EQ(rig->LoadOf(rig.id()).queue_depth, 0u);
    rig.disk.Add({.op = DiskOp::kSync,
                  .action = FaultAction::kDelay,
                  .delay_ns = 50 * kMillisecond * world->patience()});
    std::vector<std::unique_ptr<Thread>> writers;
    for (uint64_t i = 0; i < 4; ++i) {
      writers.push_back(std::make_unique<Thread>("writer", [&, i] {
        EXPECT_TRUE(rig->WriteFile(rig.id(), FileId(i), kCreator, "bytes", Soon()).ok());
      }));
    }
    uint64_t deepest = 0;
    for (const Nanos until = Soon(); deepest < 4 && Now() < until; SleepFor(kMillisecond)) {
      EXPECT_TRUE(PingOf(rig.client->stocs.get(), rig.id(), Soon()).ok());
      const StocLoad load = rig->LoadOf(rig.id());
      deepest = std::max<uint64_t>(deepest, load.queue_depth);
      EXPECT_EQ(load.others_queued, 0u) << "all are this client's";
      EXPECT_TRUE(load.queue_depth < 4 || load.bytes_in_flight == 4 * std::string_view("bytes").size());
    }
    EXPECT_EQ(deepest, 4u);
    writers.clear();
    EXPECT_EQ(rig->LoadOf(rig.id()).bytes_in_flight, 0u);
    EXPECT_TRUE(PingOf(rig.client->stocs.get(), rig.id(), Soon()).ok());
    EXPECT_EQ(rig->LoadOf(rig.id()).queue_depth, 0u);
    // A write that is not answered in time is on its way no longer; the request counts as somebody else's.
    rig.disk.Clear();
    const Nanos limit = 50 * kMillisecond * world->patience();
    rig.disk.Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .count = 1, .delay_ns = 5 * limit});
    EXPECT_FALSE(rig->WriteFile(rig.id(), FileId(9), kCreator, "late", Now() + limit).ok());
    EXPECT_EQ(rig->LoadOf(rig.id()).bytes_in_flight, 0u);
    EXPECT_TRUE(PingOf(rig.client->stocs.get(), rig.id(), Soon()).ok());
    EXPECT_EQ(rig->LoadOf(rig.id()).others_queued, 1u);
  });
}

TEST_P(StocTest, ItsPaceIsThatOfTheFilesThatItStores) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string bytes(1'000'000, 'b');
    const auto write = [&](uint64_t n, std::string_view data, Nanos deadline_ns) {
      return rig->WriteFile(rig.id(), FileId(n), kCreator, data, deadline_ns).ok();
    };
    const Nanos delay = 50 * kMillisecond * world->patience();
    rig.disk.Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = delay});
    EXPECT_TRUE(write(1, "a small one", Soon()));
    EXPECT_EQ(rig->LoadOf(rig.id()).pace.ns_per_byte, 0);
    EXPECT_TRUE(write(2, bytes, Soon()) && write(3, bytes, Soon()));
    const StocPace pace = rig->LoadOf(rig.id()).pace;
    EXPECT_GE(pace.ns_per_byte, static_cast<double>(delay) / 1e6 * 0.9);
    // One that is not answered in time is not stored, for all that is known.
    EXPECT_FALSE(write(4, bytes, Now() + delay / 2));
    EXPECT_GT(rig->LoadOf(rig.id()).pace.ns_per_byte, pace.ns_per_byte);
  });
}

// Disks are slow, and a flush or a compaction sends one table after another.
TEST_P(StocTest, AShortReadDoesNotWaitBehindTheWritesOfTables) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_TRUE(rig->WriteFile(rig.id(), FileId(100), kCreator, std::string(100'000, 'r'), Soon()).ok());
    const Nanos sync_ns = 300 * kMillisecond * world->patience();
    rig.disk.Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = sync_ns});
    std::vector<std::unique_ptr<Thread>> writers;
    for (uint64_t i = 0; i < 8; ++i) {
      writers.push_back(std::make_unique<Thread>("writer", [&, i] {
        EXPECT_TRUE(rig->WriteFile(rig.id(), FileId(i), kCreator, std::string(100'000, 'x'), Soon()).ok());
      }));
    }
    for (const Nanos until = Soon(); rig.stoc->server->queue_depth() < 8 && Now() < until;)
      SleepFor(kMillisecond);
    const Nanos begin = Now();
    EXPECT_TRUE(rig->ReadFileBlocking(rig.id(), FileId(100), 0, 4000, Soon()).ok());
    EXPECT_LT(Now() - begin, sync_ns / 2);
    rig.disk.Clear();
  });
}

// A process is gone, and the pauses between attempts to connect have become long, of 25 ms here at least,
// before anybody who asks for files hears of it. Simulated alone, for it judges how long something takes.
TEST(StocTimeTest, NobodyWaitsForTheNextAttemptToConnectOnceItIsKnownThatThereIsNoAnswer) {
  InFabricWorld(FabricKind::kSim, [](FabricWorld* world) {
    Rig rig(world);
    const StocId id = rig.id();
    StocClient* const stocs = rig.client->stocs.get();
    Xchg* const xchg = rig.client->xchgs[0].get();
    ASSERT_TRUE(PingOf(stocs, id, Soon()).ok());
    rig.stoc = nullptr;
    const auto ping_at_once = [&](CallDone done) {
      Peer* const peer = stocs->peer(xchg, id, Incarnation(100));
      xchg->EndPause(peer);
      xchg->Call(peer, static_cast<uint16_t>(StocRequest::kPing), {}, Soon(), std::move(done));
    };
    for (int i = 0; i < 8; ++i) {
      Notification failed;
      rig.client->On(0, [&] { ping_at_once([&](const CallResult&) { failed.Notify(); }); });
      failed.Wait();
    }
    Nanos begun = 0, took = 0;
    Outcome outcome = Outcome::kOk;
    Notification read;
    rig.client->On(0, [&] {
      // Both end with the same attempt; the read is begun between their ends.
      ping_at_once([&](const CallResult&) {
        begun = Now();
        stocs->ReadFile(xchg, id, FileId(1), 0, 10, Soon(), [&](Outcome o, std::string_view) {
          outcome = o;
          took = Now() - begun;
          read.Notify();
        });
      });
      stocs->Ping(xchg, id, Soon(), [](Outcome, Incarnation) {});
    });
    read.Wait();
    EXPECT_EQ(outcome, Outcome::kUnavailable);
    EXPECT_LT(took, 5 * kMillisecond);
  });
}

TEST_P(StocTest, AFullQueueIsBusyAndBlockingFormsTryAgain) {
  Run([&](FabricWorld* world) {
    TestStocOptions options;
    options.server.storage_threads = 1;
    options.server.storage_queue = 1;
    Rig rig(world, options);
    rig.disk.Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = 20 * kMillisecond});
    std::vector<std::unique_ptr<Thread>> writers;
    for (uint64_t i = 0; i < 6; ++i) {
      writers.push_back(std::make_unique<Thread>("writer", [&, i] {
        const Status s = rig->WriteFile(rig.id(), FileId(i), kCreator,
                                        i % 2 == 0 ? "small" : std::string(100'000, 'x'), Soon());
        EXPECT_TRUE(s.ok()) << s;
      }));
    }
    writers.clear();
    EXPECT_GT(rig.stoc->metrics.counter("nova_stoc_busy_requests_total")->value(), 0u);
    for (uint64_t i = 0; i < 6; ++i) EXPECT_TRUE(rig.stoc->files->Find(FileId(i)).has_value());
  });
}

TEST_P(StocTest, AForgottenFileBufferIsTakenBackWithItsConnection) {  // F4
  Run([&](FabricWorld* world) {
    TestStocOptions options;
    options.server.file_buffer_deadline_ns = 500 * kMillisecond;
    Rig rig(world, options);
    std::string open;
    AppendBody(OpenFileRequest{FileId(1), kCreator, 1 << 20}, &open);
    const auto [outcome, body] = rig.client->Call(*rig.stoc, 0x104, open);
    ASSERT_EQ(outcome, Outcome::kOk);
    OpenFileReply reply;
    ASSERT_TRUE(ParseBody(body, &reply));
    EXPECT_EQ(rig.stoc->buffer_memory->counts().taken_bytes, 1u << 20);
    for (const Nanos until = Soon(); rig.stoc->buffer_memory->counts().taken_bytes > 0 && Now() < until;)
      SleepFor(10 * kMillisecond);
    EXPECT_EQ(rig.stoc->buffer_memory->counts().taken_bytes, 0u);
    SleepFor(50 * kMillisecond);
    EXPECT_NE(rig.client->Write(*rig.stoc, reply.memory.Slice(0, 4), "late"), Outcome::kOk)
        << "its key is revoked";
    EXPECT_TRUE(rig->WriteFile(rig.id(), FileId(1), kCreator, std::string(100'000, 'x'), Soon()).ok());
  });
}

TEST_P(StocTest, MalformedBodiesEndTheConnectionAndNothingElse) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    uint64_t sent = 0;
    for (uint16_t type = 0x101; type <= 0x110; ++type) {
      if (type == 0x109) continue;  // no request any more
      for (const std::string_view body :
           {std::string_view("x"), std::string_view("\xff\xff\xff\xff\xff", 5)}) {
        const auto [outcome, reply] = rig.client->Call(*rig.stoc, type, body);
        EXPECT_TRUE(outcome == Outcome::kUnknown || outcome == Outcome::kUnavailable)
            << type << ": " << OutcomeName(outcome);
        if (outcome == Outcome::kUnknown) ++sent;
      }
    }
    EXPECT_GE(sent, 15u);
    EXPECT_GE(rig.stoc->metrics.counter("nova_stoc_malformed_requests_total")->value(), sent);
    EXPECT_TRUE(PingOf(rig.client->stocs.get(), rig.id(), Soon()).ok());
  });
}

TEST_P(StocTest, StoppingFinishesWhatIsQueued) {
  Run([&](FabricWorld* world) {
    TestStocOptions options;
    options.server.storage_threads = 1;
    Rig rig(world, options);
    rig.disk.Add({.op = DiskOp::kSync,
                  .action = FaultAction::kDelay,
                  .delay_ns = 20 * kMillisecond * world->patience()});
    std::atomic<int> written{0};
    std::vector<std::unique_ptr<Thread>> writers;
    for (uint64_t i = 0; i < 4; ++i) {
      writers.push_back(std::make_unique<Thread>("writer", [&, i] {
        if (rig->WriteFile(rig.id(), FileId(i), kCreator, "x", Soon()).ok()) ++written;
      }));
    }
    const Counter* const received =
        rig.stoc->metrics.counter("nova_stoc_requests_total{type=\"write_small_file\"}");
    const auto is_queued = [&] {
      return received->value() == 4 &&
             static_cast<int>(rig.stoc->server->queue_depth()) + written.load() >= 4;
    };
    for (const Nanos until = Soon(); !is_queued() && Now() < until;) SleepFor(kMillisecond);
    rig.stoc->Stop();
    writers.clear();
    int there = 0;
    for (uint64_t i = 0; i < 4; ++i) there += rig.stoc->files->Find(FileId(i)).has_value() ? 1 : 0;
    EXPECT_EQ(there, 4);
    EXPECT_GE(written.load(), 3) << "and answered, but for what was on its way when the connections ended";
  });
}

TEST_P(StocTest, AnUnknownOrDeadStocIsUnavailable) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    EXPECT_TRUE(absl::IsUnavailable(PingOf(rig.client->stocs.get(), StocId(9), Soon()).status()));
    EXPECT_TRUE(absl::IsUnavailable(rig->WriteFile(StocId(9), FileId(1), kCreator, "x", Soon())));
    EXPECT_TRUE(
        absl::IsUnavailable(rig->ReadRemote(StocId(9), Incarnation(100), {1, 100, 1, 0}, Soon()).status()));
    const Status s = rig->AppendFile({rig.id(), StocId(9)}, FileId(1), kCreator, 0, true, "x", Soon());
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("stoc 9"));
    rig.stoc->Stop();
    EXPECT_FALSE(PingOf(rig.client->stocs.get(), rig.id(), Now() + kSecond).ok());
    const Status dead = rig->WriteFile(rig.id(), FileId(1), kCreator, "x", Now() + kSecond);
    EXPECT_FALSE(dead.ok());
    EXPECT_THAT(std::string(dead.message()), HasSubstr("stoc-1"));
  });
}

TEST(PingTest, SeveralAreAskedSideBySide) {
  InFabricWorld(FabricKind::kSim, [](FabricWorld* world) {
    std::vector<std::unique_ptr<SimDisk>> media;
    std::vector<std::unique_ptr<Disk>> disks;
    std::vector<std::unique_ptr<TestStoc>> stocs;
    std::vector<TestStoc*> live;
    for (uint32_t id = 1; id <= 3; ++id) {
      media.push_back(std::make_unique<SimDisk>());
      disks.push_back(media.back()->Mount());
      stocs.push_back(std::make_unique<TestStoc>(world, id, 100 + id, disks.back().get()));
      live.push_back(stocs.back().get());
    }
    TestClient client(world, "ltc-1", 10);
    client.Update(live);
    const std::vector<StocId> all{StocId(1), StocId(9), StocId(2), StocId(3)};
    ASSERT_TRUE(client.stocs->PingAll(all, Soon())[0].has_value());  // it connects
    SimNetworkOptions slow;
    slow.min_delay_ns = slow.max_delay_ns = 50 * kMillisecond;
    world->network()->set_options(slow);
    const Nanos begin = Now();
    const auto answers = client.stocs->PingAll(all, Soon());
    EXPECT_LT(Now() - begin, 150 * kMillisecond) << "one answer is there after 100";
    EXPECT_THAT(answers, ElementsAre(Incarnation(101), std::nullopt, Incarnation(102), Incarnation(103)));
  });
}

}  // namespace
}  // namespace nova
