#include "common/rdma/verbs/verbs_fence_peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/rdma/resolver.h"

namespace nova {
namespace {

constexpr size_t kMaxLine = 512;
constexpr Nanos kPatience = 10 * kSecond;  // a device may take seconds to say that it says nothing
constexpr int kConnectMs = 3000;

Status Malformed(const std::string& line) {
  return absl::UnavailableError(StrCat("the fence test's peer said '", line.substr(0, 100), "'"));
}

std::string GidHex(const ibv_gid& gid) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(gid.raw), sizeof(gid.raw)});
}

std::string TextOf(const QueuePairAddress& a) {
  return StrCat(a.number, " ", a.lid, " ", static_cast<int>(a.mtu), " ", GidHex(a.gid));
}

bool ParseQueuePair(const std::vector<std::string>& words, size_t first, QueuePairAddress* out) {
  uint32_t lid = 0, mtu = 0;
  if (words.size() < first + 4 || !absl::SimpleAtoi(words[first], &out->number) ||
      !absl::SimpleAtoi(words[first + 1], &lid) || lid > 0xffff ||
      !absl::SimpleAtoi(words[first + 2], &mtu) || mtu < IBV_MTU_256 || mtu > IBV_MTU_4096 ||
      words[first + 3].size() != 2 * sizeof(ibv_gid) ||
      words[first + 3].find_first_not_of("0123456789abcdef") != std::string::npos) {
    return false;
  }
  out->lid = static_cast<uint16_t>(lid);
  out->mtu = static_cast<ibv_mtu>(mtu);
  std::memcpy(out->gid.raw, absl::HexStringToBytes(words[first + 3]).data(), sizeof(out->gid.raw));
  return true;
}

std::vector<std::string> WordsOf(const std::string& line) { return absl::StrSplit(line, ' '); }

std::string HelloText(int mtu) { return StrCat("nova-fence 1 ", mtu); }
bool ParseHello(const std::string& line, int* mtu) {
  const auto words = WordsOf(line);
  return words.size() == 3 && words[0] == "nova-fence" && words[1] == "1" && absl::SimpleAtoi(words[2], mtu);
}

// One question's answer; the target is the caller's, and is new after "open".
StatusOr<std::string> Answer(const std::string& question, FenceTarget* target, bool* open) {
  const auto words = WordsOf(question);
  uint32_t way = 0;
  QueuePairAddress writer;
  if (words[0] == "open" && words.size() == 6 && absl::SimpleAtoi(words[1], &way) && way < kFenceWays &&
      ParseQueuePair(words, 2, &writer)) {
    NOVA_ASSIGN_OR_RETURN(const FenceTargetAddress at, target->Open(static_cast<FenceWay>(way), writer));
    *open = true;
    return StrCat(TextOf(at.queue_pair), " ", at.memory, " ", at.rkey);
  }
  if (!*open || words.size() != 1) return Malformed(question);
  if (words[0] == "prepare") {
    NOVA_ASSIGN_OR_RETURN(const std::optional<uint32_t> key, target->Prepare());
    return key ? StrCat(*key) : "unsupported";
  }
  if (words[0] == "clear") {
    NOVA_RETURN_IF_ERROR(target->Clear());
    return std::string("cleared");
  }
  if (words[0] == "take") {
    NOVA_ASSIGN_OR_RETURN(const FenceTaken taken, target->Take());
    return taken.supported ? StrCat("taken ", static_cast<int64_t>(taken.micros))
                           : StrCat("unsupported ", taken.why);
  }
  if (words[0] == "intact") {
    NOVA_ASSIGN_OR_RETURN(const bool intact, target->Intact());
    return std::string(intact ? "yes" : "no");
  }
  return Malformed(question);
}

}  // namespace

LineSocket::~LineSocket() { close(fd_); }

Status LineSocket::Send(const std::string& line) const {
  const std::string bytes = line + "\n";
  return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size())
             ? OkStatus()
             : absl::UnavailableError(StrCat("the fence test's peer is gone: ", strerror(errno)));
}

StatusOr<std::string> LineSocket::Receive(Nanos patience) {
  const Nanos until = Now() + patience;
  for (;;) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kMaxLine) return Malformed(received_);
    pollfd wait{fd_, POLLIN, 0};
    const Nanos left = until - Now();
    if (left <= 0) return absl::DeadlineExceededError("the fence test's peer says nothing");
    if (poll(&wait, 1, static_cast<int>(left / kMillisecond) + 1) <= 0) continue;
    char bytes[kMaxLine];
    const ssize_t n = recv(fd_, bytes, sizeof(bytes), 0);
    if (n == 0) return absl::UnavailableError("the fence test's peer hung up");
    if (n < 0) return absl::UnavailableError(StrCat("the fence test's peer is gone: ", strerror(errno)));
    received_.append(bytes, static_cast<size_t>(n));
  }
}

StatusOr<std::unique_ptr<RemoteFenceTarget>> RemoteFenceTarget::Connect(const std::string& target,
                                                                        int mtu_here) {
  std::string host;
  sockaddr_in to{};
  uint16_t port = 0;
  if (!SplitHostPort(target, &host, &port) || host.empty())
    return absl::InvalidArgumentError(StrCat(target, " is not host:port"));
  NOVA_ASSIGN_OR_RETURN(to.sin_addr, LookUpHost(host));
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{kConnectMs / 1000, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));  // of connect, too
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    const int why = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(fd);
    return absl::UnavailableError(StrCat(target, ": ", strerror(why)));
  }
  return Greet(fd, mtu_here);
}

StatusOr<std::unique_ptr<RemoteFenceTarget>> RemoteFenceTarget::Greet(int connected, int mtu_here) {
  std::unique_ptr<RemoteFenceTarget> out(new RemoteFenceTarget(connected));
  NOVA_ASSIGN_OR_RETURN(const std::string hello, out->Ask(HelloText(mtu_here)));
  if (!ParseHello(hello, &out->mtu_)) return Malformed(hello);
  return out;
}

StatusOr<std::string> RemoteFenceTarget::Ask(const std::string& question) {
  NOVA_RETURN_IF_ERROR(socket_.Send(question));
  NOVA_ASSIGN_OR_RETURN(const std::string answer, socket_.Receive(kPatience));
  if (answer.starts_with("error ")) return absl::UnavailableError(StrCat("there: ", answer.substr(6)));
  return answer;
}

StatusOr<FenceTargetAddress> RemoteFenceTarget::Open(FenceWay way, const QueuePairAddress& writer) {
  NOVA_ASSIGN_OR_RETURN(const std::string answer,
                        Ask(StrCat("open ", static_cast<int>(way), " ", TextOf(writer))));
  FenceTargetAddress out;
  const auto words = WordsOf(answer);
  if (words.size() != 6 || !ParseQueuePair(words, 0, &out.queue_pair) ||
      !absl::SimpleAtoi(words[4], &out.memory) || !absl::SimpleAtoi(words[5], &out.rkey)) {
    return Malformed(answer);
  }
  return out;
}

StatusOr<std::optional<uint32_t>> RemoteFenceTarget::Prepare() {
  NOVA_ASSIGN_OR_RETURN(const std::string answer, Ask("prepare"));
  uint32_t key = 0;
  if (answer == "unsupported") return std::optional<uint32_t>();
  if (!absl::SimpleAtoi(answer, &key)) return Malformed(answer);
  return std::optional<uint32_t>(key);
}

Status RemoteFenceTarget::Clear() {
  NOVA_ASSIGN_OR_RETURN(const std::string answer, Ask("clear"));
  return answer == "cleared" ? OkStatus() : Malformed(answer);
}

StatusOr<FenceTaken> RemoteFenceTarget::Take() {
  NOVA_ASSIGN_OR_RETURN(const std::string answer, Ask("take"));
  FenceTaken out;
  if (answer.starts_with("unsupported ")) {
    out.supported = false;
    out.why = answer.substr(12);
  } else if (!answer.starts_with("taken ") || !absl::SimpleAtod(answer.substr(6), &out.micros)) {
    return Malformed(answer);
  }
  return out;
}

StatusOr<bool> RemoteFenceTarget::Intact() {
  NOVA_ASSIGN_OR_RETURN(const std::string answer, Ask("intact"));
  if (answer != "yes" && answer != "no") return Malformed(answer);
  return answer == "yes";
}

Status AnswerFencePeer(int listener, const VerbsDevice& device, Nanos patience) {
  pollfd wait{listener, POLLIN, 0};
  const int come = poll(&wait, 1, static_cast<int>(patience / kMillisecond));
  if (come == 0)
    return absl::DeadlineExceededError(StrCat("nobody asked for a fence test in ", patience / kSecond, " s"));
  const int fd = come < 0 ? -1 : accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return absl::UnavailableError(StrCat("accept: ", strerror(errno)));
  LineSocket socket(fd);
  LocalFenceTarget target(device);
  return AnswerFenceQuestions(&socket, &target, VerbsMtuBytes(device.attributes.active_mtu));
}

Status AnswerFenceQuestions(LineSocket* socket, FenceTarget* target, int mtu_here) {
  int mtu_there = 0;
  NOVA_ASSIGN_OR_RETURN(const std::string hello, socket->Receive(kPatience));
  if (!ParseHello(hello, &mtu_there)) return Malformed(hello);
  NOVA_RETURN_IF_ERROR(socket->Send(HelloText(mtu_here)));
  for (bool open = false;;) {
    const auto question = socket->Receive(kPatience);
    // it is done
    if (!question.ok())
      return absl::IsUnavailable(question.status()) && open ? OkStatus() : question.status();
    const auto answer = Answer(*question, target, &open);
    NOVA_RETURN_IF_ERROR(socket->Send(answer.ok() ? *answer : StrCat("error ", answer.status().message())));
    if (!answer.ok()) return answer.status();
  }
}

}  // namespace nova
