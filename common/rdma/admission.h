// Admission: decides whether a connection is taken, by its Hello (handshake, F3): protocol
// versions, the process it is meant for, the owner's check, and the rule that a newer connection of a peer
// replaces its older one.
//
// Thread safety: none; the port's thread.
// Ownership: none taken.
// Errors: texts for the peer and the owner.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "common/rdma/fabric.h"
#include "common/rdma/handshake.h"

namespace nova {

// The accepting side of a fabric, as Listen was told. Set before the ports' threads run.
struct Listener {
  Hello self;             // the answer to a peer's Hello
  AcceptCheck check;      // the owner's say; may be empty
  size_t port_count = 1;  // a connection goes to port xchg_index % port_count
};

class Admission {
 public:
  // Empty: the connection is admitted as `id`; *replaced (0: none) must be destroyed before it is up. Else
  // the reason for the refusal. Peers without an incarnation replace nobody.
  std::string Judge(const Listener& listener, const Hello& hello, ConnectionId id, ConnectionId* replaced);
  // Forgets the connection `id` of this peer, which has ended.
  void Leave(const Hello& hello, ConnectionId id);

 private:
  using Peer = std::tuple<Role, std::string, uint16_t>;  // role, name, xchg index
  struct Entry {
    ConnectionId id;
    std::pair<uint64_t, uint64_t> age;  // incarnation, then generation; a higher one replaces a lower
  };
  std::map<Peer, Entry> admitted_;  // peers with an incarnation, and their newest connection
};

inline constexpr char kReplaced[] = "replaced by a newer connection of the peer (F3)";

// The answer to a Hello of ours. OK: the dialler is connected. InvalidArgument: the answer is malformed.
// Unavailable: a refusal or another version; with the reason.
Status JudgeAnswer(const Hello& ours, const Handshake& answer);

}  // namespace nova
