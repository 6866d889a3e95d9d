#include "common/config/config_tree.h"

#include <optional>

#include "common/base/coding.h"
#include "common/base/crc32c.h"

namespace nova {
namespace {

constexpr std::string_view kMagic = "NOVACFG1";

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Status CheckConfigPath(std::string_view path) {
  const auto bad = [&] { return absl::InvalidArgumentError(StrCat("bad path '", std::string(path), "'")); };
  if (path == "/") return OkStatus();
  if (path.empty() || path.front() != '/' || path.find('\0') != std::string_view::npos) return bad();
  size_t begin = 1;
  while (true) {
    const size_t end = path.find('/', begin);
    const std::string_view part = path.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (part.empty() || part == "." || part == "..") return bad();
    if (end == std::string_view::npos) return OkStatus();
    begin = end + 1;
  }
}

StatusOr<Znode> ConfigTree::Get(const std::string& path, SessionId reader) const {
  NOVA_RETURN_IF_ERROR(CheckConfigPath(path));
  if (path == "/") return Znode{};
  const auto it = nodes_.find(path);
  if (it == nodes_.end()) return absl::NotFoundError(path);
  const Node& n = it->second;
  return Znode{n.data, n.version, n.created, n.owner != 0, n.owner != 0 && n.owner == reader};
}

StatusOr<std::vector<std::string>> ConfigTree::Children(const std::string& path) const {
  NOVA_RETURN_IF_ERROR(CheckConfigPath(path));
  if (path != "/" && !nodes_.contains(path)) return absl::NotFoundError(path);
  const std::string prefix = path == "/" ? path : path + "/";
  std::vector<std::string> names;
  for (auto it = nodes_.lower_bound(prefix); it != nodes_.end() && it->first.starts_with(prefix); ++it) {
    std::string name = it->first.substr(prefix.size());
    if (name.find('/') == std::string::npos) names.push_back(std::move(name));
  }
  return names;
}

bool ConfigTree::HasChildren(const std::string& path) const {
  const std::string prefix = path + "/";
  const auto it = nodes_.lower_bound(prefix);
  return it != nodes_.end() && it->first.starts_with(prefix);
}

Status ConfigTree::ApplyOne(const ConfigOp& op, SessionId session, std::vector<std::string>* changed) {
  NOVA_RETURN_IF_ERROR(CheckConfigPath(op.path));
  if (op.path == "/") return absl::InvalidArgumentError("the root cannot be changed");
  const auto it = nodes_.find(op.path);
  if (op.kind == ConfigOp::Kind::kCreate) {
    if (it != nodes_.end()) return absl::AlreadyExistsError(op.path);
    const std::string parent = ParentOf(op.path);
    if (parent != "/") {
      const auto p = nodes_.find(parent);
      if (p == nodes_.end()) return absl::NotFoundError(parent);
      if (p->second.owner != 0)
        return absl::FailedPreconditionError(StrCat(parent, " is ephemeral: no children"));
    }
    nodes_[op.path] = Node{op.data, 0, last_transaction_, op.ephemeral ? session : 0};
    changed->push_back(op.path);
    changed->push_back(parent);
    return OkStatus();
  }
  if (it == nodes_.end()) return absl::NotFoundError(op.path);
  if (op.version != -1 && op.version != it->second.version) {
    return absl::AbortedError(StrCat(op.path, " has version ", it->second.version, ", not ", op.version));
  }
  if (op.kind == ConfigOp::Kind::kSet) {
    it->second.data = op.data;
    ++it->second.version;
    changed->push_back(op.path);
  } else if (op.kind == ConfigOp::Kind::kDelete) {
    if (HasChildren(op.path)) return absl::FailedPreconditionError(StrCat(op.path, " has children"));
    nodes_.erase(it);
    changed->push_back(op.path);
    changed->push_back(ParentOf(op.path));
  }
  return OkStatus();
}

Status ConfigTree::Apply(const std::vector<ConfigOp>& ops, SessionId session,
                         std::vector<std::string>* changed) {
  std::vector<std::pair<std::string, std::optional<Node>>> undo;
  std::vector<std::string> touched;
  ++last_transaction_;
  for (const ConfigOp& op : ops) {
    const auto it = nodes_.find(op.path);
    undo.emplace_back(op.path, it == nodes_.end() ? std::nullopt : std::optional<Node>(it->second));
    const Status s = ApplyOne(op, session, &touched);
    if (s.ok()) continue;
    for (auto u = undo.rbegin(); u != undo.rend(); ++u) {
      if (u->second.has_value()) {
        nodes_[u->first] = *u->second;
      } else {
        nodes_.erase(u->first);
      }
    }
    --last_transaction_;
    return s;
  }
  changed->insert(changed->end(), touched.begin(), touched.end());
  return OkStatus();
}

void ConfigTree::EndSession(SessionId session, std::vector<std::string>* changed) {
  ++last_transaction_;
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    if (it->second.owner != session) {
      ++it;
      continue;
    }
    changed->push_back(it->first);
    changed->push_back(ParentOf(it->first));
    it = nodes_.erase(it);
  }
}

std::string ConfigTree::Encode() const {
  std::string body;
  PutVarint64(&body, static_cast<uint64_t>(last_transaction_));
  uint32_t count = 0;
  for (const auto& [path, node] : nodes_) count += node.owner == 0;
  PutVarint32(&body, count);
  for (const auto& [path, node] : nodes_) {
    if (node.owner != 0) continue;
    PutLengthPrefixed(&body, path);
    PutLengthPrefixed(&body, node.data);
    PutVarint64(&body, static_cast<uint64_t>(node.version));
    PutVarint64(&body, static_cast<uint64_t>(node.created));
  }
  std::string out(kMagic);
  PutFixed32(&out, Crc32c(body));
  return out + body;
}

StatusOr<ConfigTree> ConfigTree::Decode(std::string_view data) {
  uint32_t crc = 0;
  if (!data.starts_with(kMagic)) return absl::DataLossError("not a configuration file");
  data.remove_prefix(kMagic.size());
  if (!GetFixed32(&data, &crc) || crc != Crc32c(data))
    return absl::DataLossError("checksum of the configuration file");
  ConfigTree tree;
  uint64_t last = 0;
  uint32_t count = 0;
  bool ok = GetVarint64(&data, &last) && GetVarint32(&data, &count);
  for (uint32_t i = 0; ok && i < count; ++i) {
    std::string path;
    Node node;
    uint64_t version = 0;
    uint64_t created = 0;
    ok = GetLengthPrefixed(&data, &path) && GetLengthPrefixed(&data, &node.data) &&
         GetVarint64(&data, &version) && GetVarint64(&data, &created) && CheckConfigPath(path).ok();
    node.version = static_cast<int64_t>(version);
    node.created = static_cast<int64_t>(created);
    if (ok) tree.nodes_.emplace(std::move(path), std::move(node));
  }
  if (!ok || !data.empty()) return absl::DataLossError("malformed configuration file");
  tree.last_transaction_ = static_cast<int64_t>(last);
  return tree;
}

}  // namespace nova
