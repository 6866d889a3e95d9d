// ZnodeSession: a coordinator's session with the ConfigStore, and which znodes have to be read again: those
// whose watch fired, or of which somebody has a doubt.
//
// Watches are of one session: those of an earlier one tell nothing more.
//
// Thread safety: all; WatchOnce asks the store.
// Ownership:     holds the ConfigStore, whose callbacks end before it goes; whoever was given it may hold it
//                a little longer.
// Errors:        none.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "common/base/mutex.h"
#include "common/config/config_store.h"

namespace nova {

class ZnodeSession {
 public:
  ~ZnodeSession() { End(); }

  std::shared_ptr<ConfigStore> store() const;      // null: there is none at present
  void Begin(std::shared_ptr<ConfigStore> store);  // a new session; End was before
  void End();                                      // it is over: lets go of the store
  // Waits end at once from now on.
  void Stop();
  bool stopping() const;
  // For how long the store has not answered; 0: for no time that would tell anything.
  Nanos Silence() const;

  // The path is to be read again when its znode, or the children, change.
  void WatchOnce(const std::string& path);
  // The path is to be read again, now.
  void MarkDirty(const std::string& path);
  // What is marked by now needs not be read.
  void Clear();
  // Until something is to be read again, or `until_ns`: what is.
  std::set<std::string> TakeDirty(Nanos until_ns);
  // Until this path is to be read again, or `until_ns`.
  void WaitForDirty(const std::string& path, Nanos until_ns);
  // For a while, or until something is marked.
  void Pause(Nanos ns);

 private:
  mutable Mutex mu_;
  CondVar wake_;  // signalled when something is marked, and by Stop; with mu_
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<ConfigStore> store_ ABSL_GUARDED_BY(mu_);
  Nanos last_answered_ns_ ABSL_GUARDED_BY(mu_) = 0;     // by the store of the session that has ended
  std::set<std::string> dirty_ ABSL_GUARDED_BY(mu_);    // paths that are to be read again
  std::set<std::string> watched_ ABSL_GUARDED_BY(mu_);  // paths with a watch set
  uint64_t session_ ABSL_GUARDED_BY(mu_) = 0;           // counts stores: a watch of an old one is no watch
};

}  // namespace nova
