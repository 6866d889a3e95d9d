// What a test of processes has of the machine for itself: a network, mounts, a second network that is joined
// to the first by links of which each direction can be cut. All of it ends with the test's process.
//
// Thread safety: before the process has threads.   Errors: a text that says why not; a test skips with it.
#pragma once

#include <memory>
#include <string>

#include "tests/cluster/process.h"

namespace nova {

// This process, and what it starts from then on, is alone on a network whose loopback is up. Empty: done.
std::string EnterOwnNetwork();
// Mounts that it makes from then on are seen by itself and what it starts. Empty: done.
std::string EnterOwnMounts();

// Another network, and links from this process' network to it. Link N has the addresses 10.9.N.1 here and
// 10.9.N.2 there. A direction that is cut is silent: what is sent that way arrives at nobody.
class OtherNetwork {
 public:
  static StatusOr<std::unique_ptr<OtherNetwork>> Make();
  Status Link(int n);
  Status CutTowards(int n);  // what is sent from here does not arrive there
  Status CutFrom(int n);     // what is sent from there does not arrive here
  Status Heal(int n);        // both directions
  // What a command line begins with that is to run there.
  std::vector<std::string> Launcher() const;

 private:
  explicit OtherNetwork(std::unique_ptr<Process> holder) : holder_(std::move(holder)) {}
  std::string There() const;  // a shell's words before a command that is to run there

  const std::unique_ptr<Process> holder_;  // the network lives as long as it does
};

}  // namespace nova
