// A node's membership where the store, or the leader, is not what it was: in virtual time.
#include <gtest/gtest.h>

#include "coordinator/znodes.h"
#include "tests/coordinator/sim_cluster.h"

namespace nova {
namespace {

NodeOptions LtcOf(const std::string& name, Incarnation incarnation) {
  NodeOptions options;
  options.node.name = name;
  options.node.role = Role::kLtc;
  options.node.address = name + ":1";
  options.node.incarnation = incarnation;
  return options;
}

// An older copy of ZooKeeper's data was put back while the node ran on.
TEST(NodeSessionTest, N1AStoreThatWasSetBackGivesNoNumberOfANodeThatRuns) {
  Simulation(1).Run([] {
    SimCluster cluster;
    cluster.StartCoordinator("c1");
    auto store = cluster.config().NewSession(), again = cluster.config().NewSession();
    Incarnation drawn;
    while (drawn < Incarnation(5)) drawn = std::move(DrawIncarnation(store.get())).value();
    const auto join = [&](ConfigStore* with) {
      return JoinCluster(with, cluster.network().NewChannel("ltc-1", {"c1:7400"}), LtcOf("ltc-1", drawn), {});
    };
    auto session = join(store.get());
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(cluster.admin()->Set(kIncarnationPath, "3", -1).ok());
    store->Expire();
    again->LoseReplies(1);  // of what raises the counter
    session = join(again.get());
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ((*session)->self().incarnation, drawn);
    for (uint64_t n = 1; n <= 3; ++n)
      EXPECT_EQ(DrawIncarnation(cluster.admin()).value(), Incarnation(drawn.value() + n));
  });
}

}  // namespace
}  // namespace nova
