// What a fence test's peer may say: RemoteFenceTarget against a TCP server that answers with given lines. No
// RDMA device is needed.
#include "common/rdma/verbs/verbs_fence_peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "common/base/thread.h"

namespace nova {
namespace {

// Takes one connection and answers each line with the next of `answers`; hangs up after the last.
class ScriptedPeer {
 public:
  explicit ScriptedPeer(std::vector<std::string> answers)
      : answers_(std::move(answers)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    address_ = StrCat("127.0.0.1:", ntohs(at.sin_port));
    thread_ = std::make_unique<Thread>("test.peer", [this] { Run(); });
  }
  ~ScriptedPeer() {
    thread_ = nullptr;
    close(listener_);
  }
  const std::string& address() const { return address_; }

 private:
  void Run() {
    LineSocket socket(accept(listener_, nullptr, nullptr));
    for (const std::string& answer : answers_) {
      if (!socket.Receive(5 * kSecond).ok() || !socket.Send(answer).ok()) return;
    }
  }
  const std::vector<std::string> answers_;
  const int listener_;
  std::string address_;
  std::unique_ptr<Thread> thread_;
};

const std::string kHello = "nova-fence 1 1024";
const std::string kGid(32, 'a');

TEST(VerbsFencePeerTest, AGoodPeerIsUnderstood) {
  ScriptedPeer peer({kHello, StrCat("17 3 5 ", kGid, " 18446744073709551615 4294967295"), "99", "cleared",
                     "taken 12", "no"});
  auto target = RemoteFenceTarget::Connect(peer.address(), 4096);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ((*target)->mtu(), 1024);
  const auto at = (*target)->Open(FenceWay::kWindow, {});
  ASSERT_TRUE(at.ok()) << at.status();
  EXPECT_EQ(at->queue_pair.number, 17u);
  EXPECT_EQ(at->queue_pair.lid, 3);
  EXPECT_EQ(at->queue_pair.mtu, IBV_MTU_4096);
  EXPECT_EQ(at->queue_pair.gid.raw[15], 0xaa);
  EXPECT_EQ(at->memory, ~uint64_t{0});
  EXPECT_EQ(at->rkey, ~uint32_t{0});
  EXPECT_EQ(**(*target)->Prepare(), 99u);
  EXPECT_TRUE((*target)->Clear().ok());
  EXPECT_EQ((*target)->Take()->micros, 12);
  EXPECT_FALSE(*(*target)->Intact());
  EXPECT_TRUE(absl::IsUnavailable((*target)->Intact().status())) << "it hung up";
}

TEST(VerbsFencePeerTest, NobodyThereAndOtherProgramsAreOneLine) {
  for (const std::string& hello : {std::string("nova-fence 2 4096"), std::string("HTTP/1.1 400 Bad Request"),
                                   std::string(), std::string(600, 'x')}) {
    ScriptedPeer peer({hello});
    const auto target = RemoteFenceTarget::Connect(peer.address(), 4096);
    EXPECT_TRUE(absl::IsUnavailable(target.status())) << hello;
    EXPECT_EQ(target.status().message().find('\n'), std::string::npos);
  }
  EXPECT_FALSE(RemoteFenceTarget::Connect("127.0.0.1:1", 4096).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(RemoteFenceTarget::Connect("nowhere", 4096).status()));
}

TEST(VerbsFencePeerTest, AMalformedAnswerEndsTheTest) {
  const std::string good = StrCat("17 3 5 ", kGid, " 4096 7");
  for (const std::string& bad :
       {std::string(), StrCat("17 3 5 ", kGid, " 4096"), StrCat("17 3 9 ", kGid, " 4096 7"),
        StrCat("17 65536 5 ", kGid, " 4096 7"), StrCat("17 3 5 ", std::string(32, 'g'), " 4096 7"),
        StrCat("-1 3 5 ", kGid, " 4096 7"), good + " 1"}) {
    ScriptedPeer peer({kHello, bad});
    auto target = RemoteFenceTarget::Connect(peer.address(), 4096);
    ASSERT_TRUE(target.ok()) << target.status();
    EXPECT_TRUE(absl::IsUnavailable((*target)->Open(FenceWay::kNothing, {}).status())) << bad;
  }
  ScriptedPeer peer({kHello, "error ibv_reg_mr: Cannot allocate memory"});
  auto target = RemoteFenceTarget::Connect(peer.address(), 4096);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ((*target)->Open(FenceWay::kNothing, {}).status().message(),
            "there: ibv_reg_mr: Cannot allocate memory");
}

}  // namespace
}  // namespace nova
