// A process that is out of descriptors: what cannot be opened is an error that names the cause, and leaves
// nothing open.
#include "tests/base/descriptors.h"

#include <gtest/gtest.h>

#include "common/rdma/tcp/tcp_fabric.h"
#include "common/rdma/xchg.h"
#include "tests/rdma/blocking_call.h"

namespace nova {
namespace {

// What went wrong, empty: nothing. Runs in a process of its own, whose limit it changes.
std::string OpenWithFewDescriptors() {
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  auto fabric = NewTcpFabric();
  (void)Xchg::Open(fabric.get(), Hello(),
                   {});  // what a sanitizer looks at for the first time takes a descriptor
  const int open = OpenDescriptors();
  const auto first_free = static_cast<rlim_t>(dup(0));
  close(static_cast<int>(first_free));
  int errors = 0;
  for (rlim_t left = 0;; ++left) {
    SetDescriptorLimit(first_free + left);
    const auto xchg = Xchg::Open(fabric.get(), Hello(), {});
    SetDescriptorLimit(before.rlim_cur);
    if (xchg.ok()) break;
    ++errors;
    if (!absl::IsResourceExhausted(xchg.status()))
      return StrCat("not ResourceExhausted: ", xchg.status().ToString());
    if (xchg.status().message().find("Too many open files") == std::string_view::npos) {
      return StrCat("the cause is not named: ", xchg.status().ToString());
    }
    if (OpenDescriptors() != open) return StrCat("descriptors leaked with ", left, " left");
  }
  if (errors == 0) return "no limit was reached";

  // A connection that gets no socket is no error of the process: its calls cannot be sent, and can be later.
  auto server = *Xchg::Open(fabric.get(), Hello(), {}), client = *Xchg::Open(fabric.get(), Hello(), {});
  server->Handle(1, [&](const IncomingCall& call) {
    server->Reply(call.connection, call.request_id, Outcome::kOk, {});
  });
  const auto address = fabric->Listen("127.0.0.1:0", Hello(), {server->port()}, nullptr);
  if (!address.ok()) return address.status().ToString();
  server->Start();
  client->Start();
  BlockingCall(client.get(), "127.0.0.1:1", 1, {},
               Now() + kSecond);  // to nobody, for a sanitizer's sake as above
  SetDescriptorLimit(first_free);
  const Outcome without = BlockingCall(client.get(), *address, 1, {}, Now() + kSecond).outcome;
  SetDescriptorLimit(before.rlim_cur);
  const Outcome with = BlockingCall(client.get(), *address, 1, {}, Now() + 10 * kSecond).outcome;
  client->Stop();
  server->Stop();
  if (without != Outcome::kUnavailable || with != Outcome::kOk) {
    return StrCat("without descriptors ", std::string(OutcomeName(without)), ", with them ",
                  std::string(OutcomeName(with)));
  }
  return "";
}

TEST(DescriptorsTest, AnXchgWithoutDescriptorsIsAnErrorThatNamesTheCause) {
  EXPECT_EXIT(
      {
        const std::string wrong = OpenWithFewDescriptors();
        std::fprintf(stderr, "%s\n", wrong.c_str());
        _exit(wrong.empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace nova
