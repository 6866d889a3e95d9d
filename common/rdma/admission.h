// Admission: whether a connection is taken, by what its Hello says (handshake, F3): protocol versions, the
// owner's check, and the rule that the newer connection of a peer replaces its older.
//
// Thread safety: none; the port's thread.   Ownership: none.   Errors: texts for the peer and the owner.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "common/rdma/fabric.h"
#include "common/rdma/handshake.h"

namespace nova {

// What a listening fabric says and asks. Set before the ports' threads run.
struct Listener {
  Hello self;
  AcceptCheck check;
  size_t port_count = 1;
};

class Admission {
 public:
  // Empty: admitted as `id`, and `*replaced` (0: none) is to be destroyed before it is up. Else the refusal.
  std::string Judge(const Listener& listener, const Hello& hello, ConnectionId id, ConnectionId* replaced);
  // The connection `id` of this peer is gone.
  void Leave(const Hello& hello, ConnectionId id);

 private:
  using Peer = std::tuple<Role, std::string, uint16_t>;  // name, xchg index
  struct Entry {
    ConnectionId id;
    std::pair<uint64_t, uint64_t> age;  // incarnation, generation
  };
  std::map<Peer, Entry> admitted_;
};

inline constexpr char kReplaced[] = "replaced by a newer connection of the peer (F3)";

// OK: the dialler is connected. InvalidArgument: malformed. Else the reason why not.
Status JudgeAnswer(const Hello& ours, const Handshake& answer);

}  // namespace nova
