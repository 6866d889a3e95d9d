#include "common/base/metric_help.h"

#include <algorithm>
#include <iterator>

namespace nova {
namespace {

struct Help {
  std::string_view family;
  std::string_view text;
};

// By name.
constexpr Help kHelp[] = {
    {"nova_cluster_fabric_access_errors_total", "Requests that a key or its bounds refused, over all nodes"},
    {"nova_cluster_fabric_bytes_read_total", "Bytes moved by READ, over all nodes"},
    {"nova_cluster_fabric_bytes_sent_total", "Bytes moved by SEND, over all nodes"},
    {"nova_cluster_fabric_bytes_written_total", "Bytes moved by WRITE, over all nodes"},
    {"nova_cluster_fabric_connections", "Connections that are up, over all nodes"},
    {"nova_cluster_fabric_pending_requests", "Requests that are posted and have not ended, over all nodes"},
    {"nova_cluster_fabric_protocol_errors_total", "Connections ended for malformed bytes, over all nodes"},
    {"nova_cluster_fabric_regions", "Memory regions that are registered, over all nodes"},
    {"nova_cluster_log_groups", "Log groups that are listed in records of ranges"},
    {"nova_cluster_log_groups_copies_configured", "Copies of a log that are configured (R)"},
    {"nova_cluster_log_groups_degraded", "Log groups with fewer living members than configured"},
    {"nova_cluster_log_groups_fewest_copies", "Living members of the log group that has the fewest"},
    {"nova_cluster_manifests", "Manifests of ranges"},
    {"nova_cluster_manifests_copies_configured", "Copies of a manifest that are configured (M)"},
    {"nova_cluster_manifests_degraded", "Manifests with fewer living copies than configured"},
    {"nova_cluster_manifests_fewest_copies", "Living copies of the manifest that has the fewest"},
    {"nova_cluster_rebuild_bytes", "Bytes of tables to be copied to other StoCs because some are lost"},
    {"nova_cluster_stocs", "StoCs that were ever formatted, by state; draining: counted by their state too"},
    {"nova_cluster_tables", "Tables of ranges whose owners have been heard"},
    {"nova_cluster_tables_copies_configured", "Copies of a table that are configured"},
    {"nova_cluster_tables_degraded", "Tables with fewer living copies than configured"},
    {"nova_cluster_tables_fewest_copies", "Living copies of the table that has the fewest"},
    {"nova_coordinator_elections_won_total", "Times this coordinator began to lead"},
    {"nova_coordinator_heartbeats_total", "Heartbeats answered as leader"},
    {"nova_coordinator_leading", "1: this coordinator leads"},
    {"nova_coordinator_range_moves_refused_total", "Moves of ranges that somebody else's write came before"},
    {"nova_coordinator_range_moves_total", "Moves of ranges written to the configuration store"},
    {"nova_coordinator_step_downs_total", "Times this coordinator ceased to lead"},
    {"nova_coordinator_stoc_changes_total", "Changes of StoCs' records by the leader, without operators'"},
    {"nova_fabric_access_errors_total", "Requests that a key or its bounds refused"},
    {"nova_fabric_bytes_read_total", "Bytes moved by READ"},
    {"nova_fabric_bytes_sent_total", "Bytes moved by SEND"},
    {"nova_fabric_bytes_written_total", "Bytes moved by WRITE"},
    {"nova_fabric_connections", "Connections that are up"},
    {"nova_fabric_pending_requests", "Requests that are posted and have not ended"},
    {"nova_fabric_protocol_errors_total", "Connections ended for malformed bytes"},
    {"nova_fabric_regions", "Memory regions that are registered"},
    {"nova_fabric_verbs", "1: the fabric is verbs; 0: tcp"},
    {"nova_logc_appends_total", "AppendLog requests sent to logs in files"},
    {"nova_logc_group_changes_total", "Log groups replaced, by the fate of the member that left"},
    {"nova_logc_pings_total", "Pings of log members under suspicion, by result"},
    {"nova_logc_records_total", "Log records appended"},
    {"nova_logc_reposts_total", "Posts of the same bytes again to a member that answered its ping"},
    {"nova_logc_suspicions_total", "Times a log member missed its deadline or failed"},
    {"nova_logc_writes_total", "WRITEs posted to log segments; one carries the records of a turn"},
    {"nova_ltc_block_cache_hits_total", "Blocks and metadata found in the block cache"},
    {"nova_ltc_block_cache_misses_total", "Blocks and metadata not found in the block cache"},
    {"nova_ltc_malformed_requests_total", "Requests that did not decode; each ended its connection"},
    {"nova_ltc_memory_bytes", "Memory of the engine, by pool"},
    {"nova_ltc_not_owner_total", "Requests for ranges that this LTC does not serve"},
    {"nova_ltc_opens_refused_for_data_loss_total",
     "Times a range was not opened because no good copy was left"},
    {"nova_ltc_request_ns", "Time from the arrival of a request to its reply, ns, by operation"},
    {"nova_ltc_requests_total", "Requests received, by operation"},
    {"nova_ltc_snapshots", "Snapshots that clients hold"},
    {"nova_ltc_write_stall_seconds_total", "Time that writers were held back, summed over ranges"},
    {"nova_stoc_bad_files_total", "Files closed for good after a failed write or sync"},
    {"nova_stoc_busy_requests_total", "Requests refused because a queue was full"},
    {"nova_stoc_copied_bytes_total", "Bytes fetched from other StoCs for copies of their files"},
    {"nova_stoc_copies_total", "Copies of other StoCs' files made here, or found to be here"},
    {"nova_stoc_copy_failures_total", "Copies of other StoCs' files that failed, whoever's fault it was"},
    {"nova_stoc_corrupt_writes_total", "Writes refused because their bytes did not match their checksum"},
    {"nova_stoc_damaged_files", "Files that a scrub found damaged, not written anew yet"},
    {"nova_stoc_disk_bytes_total", "Bytes read from and written to files, by direction"},
    {"nova_stoc_disk_free_bytes", "Free bytes of the file system"},
    {"nova_stoc_disk_operation_ns", "Time of one operation on a storage thread, ns"},
    {"nova_stoc_fenced_requests_total", "Requests of an epoch that is fenced, refused"},
    {"nova_stoc_files", "Files stored"},
    {"nova_stoc_files_healed_total", "Files whose bytes were damaged, written anew"},
    {"nova_stoc_log_appends_total", "Appends to logs in files"},
    {"nova_stoc_log_batch_ns", "Time of one batch of log appends, its sync included, ns"},
    {"nova_stoc_log_batches_total", "Batches of log appends"},
    {"nova_stoc_log_syncs_total", "Batches of log appends that were synced"},
    {"nova_stoc_malformed_requests_total", "Requests that did not decode; each ended its connection"},
    {"nova_stoc_member", "1: the StoC is a member of the cluster"},
    {"nova_stoc_memory_mapped_bytes", "Memory that is registered for others to write, by use"},
    {"nova_stoc_memory_registrations_total", "Registrations of memory, by use"},
    {"nova_stoc_memory_taken_bytes", "Registered memory that is in use, by use"},
    {"nova_stoc_no_space_total", "Writes refused because the disk was full"},
    {"nova_stoc_queue_depth", "Disk operations queued and running"},
    {"nova_stoc_requests_total", "Requests received, by type"},
    {"nova_stoc_scrub_bytes_total", "Bytes read by scrubs, past the page cache"},
    {"nova_stoc_scrub_files_total", "Files that scrubs have looked at"},
    {"nova_stoc_scrub_found_total", "Files, and lists of references, that scrubs found damaged"},
    {"nova_stoc_scrub_last_pass_seconds", "Wall time at which the last whole scrub ended, s; 0: none has"},
    {"nova_stoc_scrub_pass_percent", "How much of what it has to read this scrub has read, since the start"},
    {"nova_stoc_scrub_passes_total", "Whole scrubs that have ended"},
    {"nova_stoc_scrub_unjudged_total", "Files that a scrub could not judge: bad ones, or not to be read now"},
    {"nova_stoc_segments", "Log segments in memory"},
    {"nova_stoc_segments_opened_total", "Log segments opened"},
    {"nova_stoc_segments_refused_total", "Log segments refused for want of memory"},
    {"nova_stoc_segments_sealed_total", "Log segments sealed by a fence"},
    {"nova_stoc_stored_bytes", "Bytes of the files stored"},
    {"nova_table_blocks_damaged_total", "Copies of blocks or metadata that did not match their checksum"},
    {"nova_table_copies_made_bytes_total",
     "Bytes of parts of tables of which a copy was made on another StoC"},
    {"nova_table_copies_made_total", "Copies of parts of tables made on other StoCs"},
    {"nova_table_copies_repaired_total", "Copies of tables written anew"},
    {"nova_table_reads_from_other_copy_total", "Reads that a copy failed and another served"},
    {"nova_table_reads_without_good_copy_total", "Reads that no copy could serve"},
    {"nova_xchg_cut_off_total", "Connections closed because their peer did not read its replies"},
};

static_assert(std::is_sorted(std::begin(kHelp), std::end(kHelp),
                             [](const Help& a, const Help& b) { return a.family < b.family; }));

}  // namespace

std::string_view MetricHelp(std::string_view family) {
  const Help* const found =
      std::lower_bound(std::begin(kHelp), std::end(kHelp), family,
                       [](const Help& h, std::string_view name) { return h.family < name; });
  return found != std::end(kHelp) && found->family == family ? found->text : std::string_view();
}

}  // namespace nova
