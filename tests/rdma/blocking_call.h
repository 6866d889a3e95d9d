// Calls and reads for threads that may wait, such as those of tests: the product's own callers go on when a
// result comes.
//
// Thread safety: from any thread or fiber but the exchange thread itself.   Ownership: memory stays the
//                caller's, who has it back on return.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/rdma/xchg.h"

namespace nova {

struct BlockingResult {
  Outcome outcome = Outcome::kUnavailable;  // also when `xchg` stopped first
  std::string body;
};
BlockingResult BlockingCall(Xchg* xchg, const std::string& address, uint16_t type,
                            std::span<const std::string_view> parts, Nanos deadline_ns,
                            const PeerIdentity& who = {});
Outcome BlockingRead(Xchg* xchg, const std::string& address, LocalBuffer local, uint64_t remote_address,
                     uint32_t rkey, Nanos deadline_ns);

}  // namespace nova
