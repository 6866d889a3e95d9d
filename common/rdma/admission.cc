#include "common/rdma/admission.h"

namespace nova {

std::string Admission::Judge(const Listener& listener, const Hello& hello, ConnectionId id,
                             ConnectionId* replaced) {
  const Hello& self = listener.self;
  if (!VersionsMeet(self, hello)) {
    return StrCat("protocol versions ", hello.min_version, "..", hello.max_version, " offered, ",
                  self.min_version, "..", self.max_version, " spoken here");
  }
  if (!self.Is(hello.meant_for)) return StrCat("this is ", std::string(NameOf(self)), "/", self.incarnation);
  if (listener.check) {
    if (const Status s = listener.check(hello); !s.ok()) return std::string(s.message());
  }
  *replaced = ConnectionId();
  if (hello.incarnation == 0) return {};
  const std::pair age(hello.incarnation, hello.generation);
  Entry& entry = admitted_[{hello.role, std::string(NameOf(hello)), hello.xchg_index}];
  if (age < entry.age) return "an older connection of this peer (F3)";
  *replaced = entry.id;
  entry = {id, age};
  return {};
}

void Admission::Leave(const Hello& hello, ConnectionId id) {
  const auto it = admitted_.find({hello.role, std::string(NameOf(hello)), hello.xchg_index});
  if (it != admitted_.end() && it->second.id == id) admitted_.erase(it);
}

Status JudgeAnswer(const Hello& ours, const Handshake& answer) {
  if (answer.kind == HandshakeKind::kHello)
    return absl::InvalidArgumentError("malformed handshake: a hello as the answer");
  if (answer.kind == HandshakeKind::kRefusal)
    return absl::UnavailableError(StrCat("refused: ", answer.reason));
  if (!VersionsMeet(ours, answer.hello))
    return absl::UnavailableError("the peer's protocol version is not ours");
  // An acceptor of an earlier version does not look at whom a hello is meant for.
  if (!answer.hello.Is(ours.meant_for)) {
    return absl::UnavailableError(
        StrCat("not whom is meant: ", std::string(NameOf(answer.hello)), "/", answer.hello.incarnation));
  }
  return OkStatus();
}

}  // namespace nova
