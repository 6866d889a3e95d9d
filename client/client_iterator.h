// ClientIterator: a position among the keys of a cluster, over all ranges, in bounded memory however many
// keys it passes. Client::NewIterator makes it.
//
//   auto it = client->NewIterator();
//   for (it->Seek("user1"); it->Valid(); it->Next()) use(it->key(), it->value());
//   if (!it->result().ok()) ...
//
// It reads pages, larger ones the farther it goes, and asks for the next one while its caller looks at this
// one. Each page has a deadline of its own (ClientOptions::timeout_ms), so a scan may take as long as it
// takes.
//
// Moments (K4): what is read of one range, in one direction and without a Seek between, is of one moment, for
// as long as the range keeps its owner. When it moves, or its owner dies, the iterator goes on where it was,
// at a later moment: no key comes twice, and none that stays is left out. With a snapshot all is of the
// snapshot's moment, or ends with SnapshotEnded.
//
// Thread safety: none; one thread at a time, and not in the client's callbacks, for a move may wait for a
//   page.
// Ownership: the caller's; it ends before the Client. A key and a value are valid until the next move.
// Errors: it is not Valid, and result() says why; the next Seek tries again.
#pragma once

#include <memory>
#include <string>

#include "common/base/key_iterator.h"

namespace nova {

class ClientSnapshot;
struct ClientRep;
struct Result;

// The keys in [lower, upper); an empty `upper` is the end. `snapshot`: as in ReadOptions.
struct IteratorOptions {
  std::string lower = {};
  std::string upper = {};
  std::shared_ptr<const ClientSnapshot> snapshot = nullptr;
};

class ClientIterator : public KeyIterator {
 public:
  ~ClientIterator();
  const Result& result() const;  // ok: the end was reached, or it is Valid

 private:
  friend class Client;
  struct Rep;
  explicit ClientIterator(std::unique_ptr<Rep> rep);
  const std::unique_ptr<Rep> rep_;
};

}  // namespace nova
