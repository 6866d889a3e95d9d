// RemoteFenceTarget: the end of a fence test that is written to, on another node. Internal to files named
// verbs_*.
//
// The two nodes talk in lines of text over TCP, one question and one answer each; an answer of "error TEXT"
// ends the test:
//
//   nova-fence 1 MTU                              ->  nova-fence 1 MTU            bytes, of the ports
//   open WAY NUMBER LID MTU GID                   ->  NUMBER LID MTU GID MEMORY RKEY
//   prepare                                       ->  RKEY | unsupported
//   clear                                         ->  cleared
//   take                                          ->  taken MICROS | unsupported TEXT
//   intact                                        ->  yes | no
//
// Thread safety: one caller.
// Errors: Unavailable: the peer cannot be had or says no. DeadlineExceeded: it says nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/rdma/verbs/verbs_fence_ends.h"

namespace nova {

// A TCP connection that carries lines of at most 512 bytes.
class LineSocket {
 public:
  explicit LineSocket(int fd) : fd_(fd) {}
  ~LineSocket();
  LineSocket(const LineSocket&) = delete;
  LineSocket& operator=(const LineSocket&) = delete;
  Status Send(const std::string& line) const;
  // A line without its end; DeadlineExceeded.
  StatusOr<std::string> Receive(Nanos patience);

 private:
  const int fd_;
  std::string received_;  // bytes behind the last line
};

// The target at another node; each call is a question to it.
class RemoteFenceTarget final : public FenceTarget {
 public:
  // Connects to "host:port" and greets.
  static StatusOr<std::unique_ptr<RemoteFenceTarget>> Connect(const std::string& target, int mtu_here);
  // Greets over a connection that exists, which it closes in any case.
  static StatusOr<std::unique_ptr<RemoteFenceTarget>> Greet(int connected, int mtu_here);
  int mtu() const { return mtu_; }  // of the other node's port, bytes

  StatusOr<FenceTargetAddress> Open(FenceWay way, const QueuePairAddress& writer) override;
  StatusOr<std::optional<uint32_t>> Prepare() override;
  Status Clear() override;
  StatusOr<FenceTaken> Take() override;
  StatusOr<bool> Intact() override;

 private:
  explicit RemoteFenceTarget(int fd) : socket_(fd) {}
  // The answer; an "error" is Unavailable.
  StatusOr<std::string> Ask(const std::string& question);

  LineSocket socket_;
  int mtu_ = 0;
};

// Answers the questions of one peer, its greeting first, until it goes.
Status AnswerFenceQuestions(LineSocket* socket, FenceTarget* target, int mtu_here);
// The other side: accepts one peer at `listener` and answers it with a LocalFenceTarget of `device`.
Status AnswerFencePeer(int listener, const VerbsDevice& device, Nanos patience);

}  // namespace nova
