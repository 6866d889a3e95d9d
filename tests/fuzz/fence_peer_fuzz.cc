// Any lines from the other node of a fence test, to both ends: the one that asks and the one that answers
// refuse them, or go on.
//
// Input: one byte: who reads them, and, for the end that asks, how far they come after a right greeting | the
// lines.
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "common/rdma/verbs/verbs_fence_peer.h"

namespace nova {
namespace {

// Answers what no device is needed for.
class Target final : public FenceTarget {
 public:
  StatusOr<FenceTargetAddress> Open(FenceWay way, const QueuePairAddress& writer) override {
    NOVA_CHECK(static_cast<int>(way) < kFenceWays && writer.mtu >= IBV_MTU_256 && writer.mtu <= IBV_MTU_4096);
    return FenceTargetAddress{writer, 1, 2};
  }
  StatusOr<std::optional<uint32_t>> Prepare() override { return std::optional<uint32_t>(7); }
  Status Clear() override { return OkStatus(); }
  StatusOr<FenceTaken> Take() override { return FenceTaken{}; }
  StatusOr<bool> Intact() override { return true; }
};

// Two ends of a connection; what the far one says was said already, and no more comes.
int ConnectionThatSays(std::string_view lines) {
  int ends[2];
  NOVA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  LineSocket far(ends[1]);
  NOVA_CHECK(send(ends[1], lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
             static_cast<ssize_t>(lines.size()));
  NOVA_CHECK(shutdown(ends[1], SHUT_WR) == 0);
  return ends[0];
}

}  // namespace
}  // namespace nova

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nova;
  if (size == 0 || size > 8192) return 0;
  std::string lines(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 2) != 0) lines = "nova-fence 1 4096\n" + lines;
  if ((data[0] & 1) != 0) {
    LineSocket socket(ConnectionThatSays(lines));
    Target target;
    AnswerFenceQuestions(&socket, &target, 4096).IgnoreError();
    return 0;
  }
  auto peer = RemoteFenceTarget::Greet(ConnectionThatSays(lines), 4096);
  if (!peer.ok()) return 0;
  (*peer)->Open(FenceWay::kNothing, QueuePairAddress{}).status().IgnoreError();
  (*peer)->Prepare().status().IgnoreError();
  (*peer)->Clear().IgnoreError();
  (*peer)->Take().status().IgnoreError();
  (*peer)->Intact().status().IgnoreError();
  return 0;
}
