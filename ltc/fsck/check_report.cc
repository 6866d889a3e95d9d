#include "ltc/fsck/check_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace nova {
namespace {

using absl::StrCat;

std::string NameOf(const CheckReport& report, StocId stoc) {
  const auto name = report.names.find(stoc);
  return name == report.names.end() ? StrCat("stoc ", stoc.value()) : name->second;
}

std::string FileName(const StocFileId& file) {
  return StrCat("files/", file.owner.ToString(), ".",
                file.part == kMetadataPart ? StrCat(kMetadataPart) : StrCat(file.part));
}

std::string Line(const CheckReport& report, const Finding& f) {
  std::string line = FindingName(f.kind);
  if (f.range != RangeId()) absl::StrAppend(&line, " range ", f.range.value());
  if (f.stoc != StocId()) absl::StrAppend(&line, " ", NameOf(report, f.stoc));
  if (!f.file.owner.IsNil()) absl::StrAppend(&line, " ", FileName(f.file));
  return StrCat(line, ": ", f.text, "\n");
}

std::string Line(const char* what, const CopiesFound& c) {
  return StrCat(what, ": ", c.all, ", good copies: ", c.good, " of ", c.copies,
                ", the fewest of one: ", c.fewest(), "\n");
}

nlohmann::ordered_json JsonOf(const CopiesFound& c) {
  nlohmann::ordered_json by_good = nlohmann::ordered_json::object();
  for (const auto& [good, things] : c.by_good) by_good[StrCat(good)] = things;
  return {
      {"all", c.all}, {"copies", c.copies}, {"good", c.good}, {"fewest", c.fewest()}, {"by_good", by_good}};
}

nlohmann::ordered_json JsonOf(const CheckReport& report, const Finding& f) {
  nlohmann::ordered_json out = {{"kind", FindingName(f.kind)}};
  if (f.range != RangeId()) out["range"] = f.range.value();
  if (f.stoc != StocId()) {
    out["stoc"] = f.stoc.value();
    out["name"] = NameOf(report, f.stoc);
  }
  if (!f.file.owner.IsNil()) out["file"] = FileName(f.file);
  out["text"] = f.text;
  return out;
}

}  // namespace

const char* FindingName(FindingKind kind) {
  switch (kind) {
    case FindingKind::kRecord:
      return "record";
    case FindingKind::kStocSilent:
      return "stoc-silent";
    case FindingKind::kManifest:
      return "manifest";
    case FindingKind::kManifestCopy:
      return "manifest-copy";
    case FindingKind::kTableMissing:
      return "table-missing";
    case FindingKind::kTableDamaged:
      return "table-damaged";
    case FindingKind::kReference:
      return "reference";
    case FindingKind::kLogMember:
      return "log-member";
    case FindingKind::kLogCopy:
      return "log-copy";
    case FindingKind::kOrphan:
      return "orphan";
    case FindingKind::kUnreadableFile:
      return "unreadable-file";
  }
  return "?";
}

void CopiesFound::Add(uint32_t named, uint32_t are_good) {
  ++all;
  copies += named;
  good += are_good;
  ++by_good[are_good];
}

std::string RenderReport(const CheckReport& report) {
  std::string out;
  for (const Finding& f : report.findings) out += Line(report, f);
  if (report.findings_left_out > 0) absl::StrAppend(&out, "and ", report.findings_left_out, " more\n");
  absl::StrAppend(&out, "ranges: ", report.ranges, ", tables: ", report.tables, "\n",
                  Line("log groups", report.log_groups), Line("manifests", report.manifests),
                  Line("parts of tables", report.table_parts), "read: ", report.bytes >> 20, " MB, ",
                  report.blocks, " blocks\n");
  if (report.left_over > 0) {
    absl::StrAppend(&out, "left over, and collected once their ranges are served: ", report.left_over,
                    " files, ", report.left_over_bytes >> 20, " MB\n");
  }
  const uint64_t found = report.findings.size() + report.findings_left_out;
  return StrCat(out, found == 0 ? "clean" : StrCat("findings: ", found), "\n");
}

std::string RenderReportJson(const CheckReport& report) {
  nlohmann::ordered_json out = {
      {"clean", report.findings.empty()},
      {"ranges", report.ranges},
      {"tables", report.tables},
      {"log_groups", JsonOf(report.log_groups)},
      {"manifests", JsonOf(report.manifests)},
      {"table_parts", JsonOf(report.table_parts)},
      {"blocks", report.blocks},
      {"bytes_read", report.bytes},
      {"left_over", {{"files", report.left_over}, {"bytes", report.left_over_bytes}}},
      {"findings", nlohmann::ordered_json::array()},
      {"findings_left_out", report.findings_left_out}};
  for (const Finding& f : report.findings) out["findings"].push_back(JsonOf(report, f));
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace nova
