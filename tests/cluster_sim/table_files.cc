#include "tests/cluster_sim/table_files.h"

#include <algorithm>

namespace nova {

std::set<std::pair<StocFileId, StocId>> TableFiles::MissingCopies() const {
  std::set<std::pair<StocFileId, StocId>> missing;
  for (const auto& [file, stocs] : named) {
    for (const StocId stoc : stocs) {
      const auto there = files.find(stoc);
      if (there != files.end() && !there->second.contains(file)) missing.emplace(file, stoc);
    }
  }
  return missing;
}

size_t TableFiles::ShortOf(size_t wanted) const {
  wanted = std::min(wanted, files.size());
  return static_cast<size_t>(std::count_if(named.begin(), named.end(), [&](const auto& part) {
    const std::set<StocId>& stocs = part.second;
    return static_cast<size_t>(std::count_if(stocs.begin(), stocs.end(),
                                             [this](StocId stoc) { return files.contains(stoc); })) < wanted;
  }));
}

size_t TableFiles::Surplus() const {
  size_t surplus = 0;
  for (const auto& [stoc, there] : files) {
    for (const auto& [file, header] : there) {
      const auto at = named.find(file);
      surplus += at == named.end() || !at->second.contains(stoc);
    }
  }
  return surplus;
}

std::string TableFiles::ToString(size_t wanted) const {
  if (!error.empty()) return error;
  return StrCat(named.size(), " parts of tables, ", ShortOf(wanted), " with fewer than ", wanted,
                " copies on StoCs that run, ", Missing(), " copies missing, ", Surplus(), " files too many");
}

StatusOr<std::shared_ptr<const Version>> VersionOf(const Uuid& manifest,
                                                   const std::vector<Manifest::Copy>& copies) {
  NOVA_ASSIGN_OR_RETURN(const auto edits, Manifest::Recover(manifest, copies));
  auto version = std::make_shared<const Version>();
  for (const VersionEdit& edit : edits) {
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(edit, [](const TableInfo&) {}));
  }
  return version;
}

void AddNamed(const Version& version, std::map<StocFileId, std::set<StocId>>* named) {
  version.ForEachTableOnce([&](const TableInfo& table) {
    ForEachPart(table, [&](uint32_t part) {
      const auto& stocs = *CopiesOf(table, part);
      (*named)[{table.uuid, part}].insert(stocs.begin(), stocs.end());
    });
  });
}

TableFiles LookAtTables(SimCluster* cluster) {
  TableFiles copies;
  std::map<Uuid, std::vector<Manifest::Copy>> manifests;
  for (const std::string& name : cluster->Names("stoc")) {
    if (!cluster->Runs(name) || cluster->stoc(name) == nullptr) continue;
    Disk* const disk = cluster->disk(name);
    auto& files = copies.files[cluster->stoc(name)->self().stoc_id];
    for (const std::string& file : disk->List("files").value_or(std::vector<std::string>())) {
      const auto open = disk->Open("files/" + file, /*writable=*/false);
      if (!open.ok() || file.ends_with(".tmp")) continue;
      std::string bytes((*open)->Size().value_or(0), '\0');
      if (bytes.size() < kFileHeaderBytes || !(*open)->Read(0, bytes.size(), bytes.data()).ok()) continue;
      const auto header = FileHeader::Decode(std::string_view(bytes).substr(0, kFileHeaderBytes));
      if (!header.ok()) continue;
      if (header->kind == FileHeader::Kind::kWhole) files[header->file] = *header;
      if (header->kind == FileHeader::Kind::kAppended)
        manifests[header->file.owner].push_back({name, bytes.substr(kFileHeaderBytes)});
    }
  }
  for (const auto& [id, record] : cluster->Records()) {
    if (record.manifest.members.empty()) continue;
    const auto version = VersionOf(record.manifest.file, manifests[record.manifest.file]);
    if (!version.ok()) {
      copies.error = StrCat("range ", id.value(), ": its manifest: ", version.status().message());
      return copies;
    }
    AddNamed(**version, &copies.named);
  }
  return copies;
}

}  // namespace nova
