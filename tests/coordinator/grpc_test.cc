#include <gtest/gtest.h>

#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "coordinator/coordinator.pb.h"
#include "coordinator/grpc_channel.h"
#include "coordinator/grpc_server.h"
#include "coordinator/leader_channel.h"

namespace nova {
namespace {

// Answers StatusText with `text`, or points to a leader.
std::unique_ptr<GrpcServer> StartServer(const std::string& text, const std::string& leader = "") {
  auto server = GrpcServer::Start(
      "127.0.0.1:0", [text, leader](const std::string& method, const std::string&) -> StatusOr<std::string> {
        if (!leader.empty()) return NotLeadingError(leader == "?" ? "" : leader);
        if (method == "Drain") return absl::NotFoundError("no node x");
        if (method == "ForceOpen") return absl::FailedPreconditionError("not because of the leader");
        proto::StatusReply reply;
        reply.set_text(text);
        return reply.SerializeAsString();
      });
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

// Answers when it is released.
std::unique_ptr<GrpcServer> StartHungServer(Notification* release) {
  auto server = GrpcServer::Start("127.0.0.1:0",
                                  [release](const std::string&, const std::string&) -> StatusOr<std::string> {
                                    release->Wait();
                                    return std::string();
                                  });
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

Nanos In(Nanos ns) { return Now() + ns; }

TEST(GrpcTest, BytesGoThereAndBack) {
  const auto server = StartServer("hello");
  CoordinatorClient client(OpenGrpcChannel({server->address()}));
  EXPECT_EQ(*client.StatusText(In(5 * kSecond)), "hello");
}

TEST(GrpcTest, ErrorsKeepTheirCodeAndText) {
  const auto server = StartServer("hello");
  CoordinatorClient client(OpenGrpcChannel({server->address()}));
  std::string left;
  EXPECT_EQ(client.Drain("x", In(5 * kSecond), &left), absl::NotFoundError("no node x"));
  std::string report;
  EXPECT_EQ(client.ForceOpen(RangeId(1), true, In(5 * kSecond), &report),
            absl::FailedPreconditionError("not because of the leader"));
}

TEST(GrpcTest, TheLeaderIsFoundThroughAFollowerAndPastDeadOnes) {
  const auto leader = StartServer("leads");
  const auto follower = StartServer("", leader->address());
  const auto lost = StartServer("", "?");
  for (const std::vector<std::string>& addresses : {std::vector<std::string>{follower->address()},
                                                    {"127.0.0.1:1", follower->address()},
                                                    {lost->address(), "127.0.0.1:1", leader->address()}}) {
    CoordinatorClient client(OpenGrpcChannel(addresses));
    const Nanos start = Now();
    const StatusOr<std::string> text = client.StatusText(In(5 * kSecond));
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, "leads");
    EXPECT_LT(Now() - start, 2 * kSecond);
  }
}

TEST(GrpcTest, WithoutALeaderTheCallEndsByItsDeadline) {
  const auto follower = StartServer("", "?");
  for (const std::string& address : {std::string("127.0.0.1:1"), follower->address()}) {
    CoordinatorClient client(OpenGrpcChannel({address}));
    const Nanos start = Now();
    const Status s = client.StatusText(In(700 * kMillisecond)).status();
    EXPECT_TRUE(absl::IsUnavailable(s) || absl::IsDeadlineExceeded(s)) << s;
    EXPECT_LT(Now() - start, 2 * kSecond);
  }
}

// Why there is none is told by the coordinator that was asked last.
TEST(GrpcTest, WhyNobodyLeadsIsTold) {
  const auto server =
      GrpcServer::Start("127.0.0.1:0", [](const std::string&, const std::string&) -> StatusOr<std::string> {
        return NotLeadingError("", "no leader is known: the store is away");
      });
  ASSERT_TRUE(server.ok()) << server.status();
  CoordinatorClient client(OpenGrpcChannel({(*server)->address()}));
  EXPECT_EQ(client.StatusText(In(300 * kMillisecond)).status(),
            absl::UnavailableError(
                StrCat("coordinator ", (*server)->address(), ": no leader is known: the store is away")));
}

TEST(GrpcTest, AHungCoordinatorCostsOneSecond) {
  Notification release;
  const auto hung = StartHungServer(&release);
  const auto leader = StartServer("leads");
  CoordinatorClient client(OpenGrpcChannel({hung->address(), leader->address()}));
  const Nanos start = Now();
  EXPECT_EQ(*client.StatusText(In(5 * kSecond)), "leads");
  EXPECT_GE(Now() - start, 900 * kMillisecond);
  EXPECT_LT(Now() - start, 2 * kSecond);
  // With no more than a second for each call, the one that hangs costs one call, not all.
  CoordinatorClient hurried(OpenGrpcChannel({hung->address(), leader->address()}));
  EXPECT_FALSE(hurried.StatusText(In(kSecond)).ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(hurried.StatusText(In(kSecond)).ok());
  release.Notify();
}

// One that was learned is asked in its turn, behind those that hang, and gives way to the next one.
TEST(GrpcTest, ALeaderThatIsLearnedIsAskedToo) {
  Notification release;
  const auto hung = StartHungServer(&release);
  auto leader = StartServer("leads");
  const std::unique_ptr<ControlChannel> channel = OpenGrpcChannel({"127.0.0.1:1", hung->address()});
  // A call has no time for more than the one that hangs: the next one begins behind it.
  const auto one_of_two_is_answered = [&] {
    return channel->Call("Heartbeat", "", In(kSecond)).ok() ||
           channel->Call("Heartbeat", "", In(kSecond)).ok();
  };
  EXPECT_FALSE(one_of_two_is_answered());
  channel->Learn(hung->address());  // nothing new
  EXPECT_FALSE(one_of_two_is_answered());
  channel->Learn(leader->address());
  EXPECT_TRUE(one_of_two_is_answered());
  leader = StartServer("leads elsewhere");
  channel->Learn(leader->address());
  EXPECT_TRUE(one_of_two_is_answered());
  release.Notify();
}

// However long it was away: neither a back-off that grew nor a poller that sleeps keeps the way to it closed.
TEST(GrpcTest, ACoordinatorThatIsBackIsFoundSoon) {
  const auto answer = [](const std::string&, const std::string&) -> StatusOr<std::string> {
    return proto::StatusReply().SerializeAsString();
  };
  auto server = GrpcServer::Start("127.0.0.1:0", answer);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  CoordinatorClient client(OpenGrpcChannel({address}));
  ASSERT_TRUE(client.StatusText(In(5 * kSecond)).ok());
  server->reset();
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(client.StatusText(In(400 * kMillisecond)).ok());
    SleepFor(200 * kMillisecond);
  }
  server = GrpcServer::Start(address, answer);
  ASSERT_TRUE(server.ok()) << server.status();
  const Nanos back = Now();
  while (!client.StatusText(In(400 * kMillisecond)).ok()) ASSERT_LT(Now(), back + 10 * kSecond);
  EXPECT_LT(Now() - back, 1500 * kMillisecond);
}

TEST(GrpcTest, ATakenPortIsAnError) {
  const auto server = StartServer("hello");
  EXPECT_TRUE(
      absl::IsUnavailable(GrpcServer::Start(server->address(), [](const std::string&, const std::string&) {
                            return StatusOr<std::string>("");
                          }).status()));
}

TEST(GrpcTest, ManyCallersAtOnce) {
  const auto server = StartServer("hello");
  CoordinatorClient client(OpenGrpcChannel({server->address()}));
  std::vector<std::unique_ptr<Thread>> threads;
  for (int t = 0; t < 8; ++t) {
    threads.push_back(std::make_unique<Thread>("caller", [&client] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(*client.StatusText(In(10 * kSecond)), "hello");
    }));
  }
}

}  // namespace
}  // namespace nova
