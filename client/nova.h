/* nova.h: the C interface of libnova_client, for C and for bindings of other languages.
 *
 *   char* error = NULL;
 *   nova_client* c = nova_open("127.0.0.1:7401", &error);
 *   int outcome = nova_put(c, "user1", 5, "value", 5);
 *
 * Every operation returns a nova_outcome; nova_effect says what it means for a write.
 *
 * Thread safety: all functions from any thread, but nova_close, which comes last.
 * Ownership:     memory handed out (values, scans, error and status texts) is freed by nova_free /
 *                nova_scan_free / nova_values_free. A batch belongs to one thread at a time.
 * Errors:        nova_last_error() is the text of the calling thread's last operation, empty after NOVA_OK.
 *                Of an asynchronous one there is the outcome alone. No exception leaves. */
#ifndef NOVA_CLIENT_NOVA_H_
#define NOVA_CLIENT_NOVA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nova_client nova_client;           /* a client of one cluster; one is enough for a process */
typedef struct nova_batch nova_batch;             /* writes that happen together */
typedef struct nova_snapshot nova_snapshot;       /* a moment of each range */
typedef struct nova_scan_result nova_scan_result; /* entries, in the scan's order */
typedef struct nova_iterator nova_iterator;       /* a position among the keys */
typedef struct nova_values nova_values;           /* the answer to a nova_multi_get */

/* What became of an operation. The client has tried again, within the operation's deadline, where that may
 * help and is safe. Numbers do not change. */
typedef enum nova_outcome {
  NOVA_OK = 0,
  NOVA_NOT_FOUND = 1,         /* of a get: there is no such key */
  NOVA_INVALID_ARGUMENT = 2,  /* a key, value or option that no cluster takes; nothing was written */
  NOVA_NOT_OWNER = 3,         /* the range is on its way to another owner; nothing was written */
  NOVA_BUSY = 4,              /* out of a bounded resource; nothing was written */
  NOVA_NO_SPACE = 5,          /* the cluster's disks are full; nothing was written */
  NOVA_UNAVAILABLE = 6,       /* a component that is needed does not answer; nothing was written */
  NOVA_CORRUPTION = 7,        /* stored bytes are damaged, and no good copy is left */
  NOVA_DEADLINE_EXCEEDED = 8, /* before the operation was begun: nothing was written */
  NOVA_UNKNOWN = 9,           /* a write was sent and not answered: applied or not */
  NOVA_INTERNAL = 10,         /* a bug of the cluster's; of a write: applied or not */
  NOVA_CONDITION_FAILED = 11, /* of nova_compare_and_swap: another value was there */
  NOVA_SNAPSHOT_ENDED = 12,   /* a range has another owner now, or the lease ended: take another */
} nova_outcome;

/* What an outcome means for a write. */
typedef enum nova_effect { NOVA_APPLIED = 0, NOVA_NOT_APPLIED = 1, NOVA_EFFECT_UNKNOWN = 2 } nova_effect;

typedef struct nova_options {
  const char* coordinators; /* "host:port,host:port" */
  int64_t timeout_ms;       /* of one operation; 0: 10,000; a day at most */
  int threads;              /* exchange threads; 0: 1 */
  uint32_t keyspace;        /* its number stands before each key: keys of another one are other keys */
} nova_options;

/* NULL and, if error is not NULL, a text to nova_free, when no coordinator answers. */
nova_client* nova_open(const char* coordinators, char** error);
nova_client* nova_open_with(const nova_options* options, char** error);
void nova_close(nova_client* client); /* waits for what is under way; NULL is fine */

int nova_put(nova_client* client, const char* key, size_t key_size, const char* value, size_t value_size);
/* The key is gone, as if deleted, ttl_ms from now. */
int nova_put_ttl(nova_client* client, const char* key, size_t key_size, const char* value, size_t value_size,
                 int64_t ttl_ms);
int nova_delete(nova_client* client, const char* key, size_t key_size);
typedef struct nova_write_options { /* all zero, or NULL: as without */
  int64_t ttl_ms;                   /* of a put: the key is gone, as if deleted, so long from now; 0: never */
  /* Not 0: where the log is on disks, acknowledged when written there: survives the death of processes, not
   * of hosts. */
  int no_sync;
} nova_write_options;
int nova_put_with(nova_client* client, const nova_write_options* options, const char* key, size_t key_size,
                  const char* value, size_t value_size);
int nova_delete_with(nova_client* client, const nova_write_options* options, const char* key,
                     size_t key_size);
/* Deletes every key in [begin, end); size 0: from the first, to the last. Whole or not at all in each range
 * of the cluster; of several some may be done when it fails: then it is NOVA_UNKNOWN. */
int nova_delete_range(nova_client* client, const char* begin, size_t begin_size, const char* end,
                      size_t end_size);
/* Writes `desired` (NULL: deletes) if the value is `expected` (NULL: there is no value), else
 * NOVA_CONDITION_FAILED. */
int nova_compare_and_swap(nova_client* client, const char* key, size_t key_size, const char* expected,
                          size_t expected_size, const char* desired, size_t desired_size);

/* Writes that happen all or not at all; their keys must be of one range. Entries are copied, in order. */
nova_batch* nova_batch_create(void); /* NULL: out of memory */
int nova_batch_put(nova_batch* batch, const char* key, size_t key_size, const char* value, size_t value_size);
int nova_batch_put_ttl(nova_batch* batch, const char* key, size_t key_size, const char* value,
                       size_t value_size, int64_t ttl_ms);
int nova_batch_delete(nova_batch* batch, const char* key, size_t key_size);
int nova_batch_delete_range(nova_batch* batch, const char* begin, size_t begin_size, const char* end,
                            size_t end_size);
void nova_batch_clear(nova_batch* batch);                     /* empty again */
void nova_batch_free(nova_batch* batch);                      /* NULL is fine */
int nova_write(nova_client* client, const nova_batch* batch); /* the batch stays as it is */
int nova_write_with(nova_client* client, const nova_write_options* options, const nova_batch* batch);

/* *value is allocated (nova_free), one byte longer than *value_size and ended by 0. */
int nova_get(nova_client* client, const char* key, size_t key_size, char** value, size_t* value_size);

/* A moment of each range, renewed until it is dropped. NULL for a snapshot below means: now. */
int nova_snapshot_take(nova_client* client, nova_snapshot** snapshot);
void nova_snapshot_drop(nova_snapshot* snapshot); /* before nova_close; NULL is fine */
int nova_get_at(nova_client* client, const nova_snapshot* snapshot, const char* key, size_t key_size,
                char** value, size_t* value_size);

/* At most 10,000 keys; those of one range are read at one moment. *values is NULL when the outcome is not
 * NOVA_OK. */
int nova_multi_get(nova_client* client, const nova_snapshot* snapshot, size_t count, const char* const* keys,
                   const size_t* key_sizes, nova_values** values);
/* Of key i, until nova_values_free; NULL: there is no such key. */
const char* nova_values_get(const nova_values* values, size_t i, size_t* size);
void nova_values_free(nova_values* values);

/* The first `limit` entries with key >= from. *result is NULL when the outcome is not NOVA_OK. */
int nova_scan(nova_client* client, const char* from, size_t from_size, size_t limit,
              nova_scan_result** result);
typedef struct nova_scan_options { /* all zero: everything, now */
  const char* from;                /* keys at or above it */
  size_t from_size;
  const char* to; /* keys below it */
  size_t to_size;
  const char* prefix; /* only keys that begin so */
  size_t prefix_size;
  size_t limit; /* entries; 0: all */
  int reverse;  /* not 0: from the highest key down */
  const nova_snapshot* snapshot;
} nova_scan_options;
int nova_scan_with(nova_client* client, const nova_scan_options* options, nova_scan_result** result);
/* Entries; key and value of entry i, until nova_scan_free. */
size_t nova_scan_count(const nova_scan_result* result);
const char* nova_scan_key(const nova_scan_result* result, size_t i, size_t* size);
const char* nova_scan_value(const nova_scan_result* result, size_t i, size_t* size);
void nova_scan_free(nova_scan_result* result);

/* A position among the keys of all ranges, in bounded memory however many keys it passes, with a deadline for
 * each page that it reads; client/client_iterator.h says of which moments they are. One thread at a time.
 * Freed before nova_close. NULL: out of memory. */
typedef struct nova_iterator_options { /* all zero, or NULL: everything, now */
  const char* lower;                   /* keys at or above it */
  size_t lower_size;
  const char* upper; /* keys below it; size 0: to the end */
  size_t upper_size;
  const nova_snapshot* snapshot;
} nova_iterator_options;
nova_iterator* nova_iterator_create(nova_client* client, const nova_iterator_options* options);
/* To the first key, to the last one, within the bounds. Seeks and moves wait. */
void nova_iterator_seek_to_first(nova_iterator* iterator);
void nova_iterator_seek_to_last(nova_iterator* iterator);
/* To the first key at or above `key`; to the last one at or below it. */
void nova_iterator_seek(nova_iterator* iterator, const char* key, size_t key_size);
void nova_iterator_seek_for_prev(nova_iterator* iterator, const char* key, size_t key_size);
int nova_iterator_valid(const nova_iterator* iterator); /* 0: at no entry; these four need one */
void nova_iterator_next(nova_iterator* iterator);
void nova_iterator_prev(nova_iterator* iterator);
const char* nova_iterator_key(const nova_iterator* iterator, size_t* size); /* until the next move */
const char* nova_iterator_value(const nova_iterator* iterator, size_t* size);
/* Where it is not valid: NOVA_OK, the end was reached; else why not, and nova_last_error. */
int nova_iterator_outcome(const nova_iterator* iterator);
void nova_iterator_free(nova_iterator* iterator);

/* Asynchronous: `done` runs once, on a thread of the client's, and must not wait; value is valid during the
 * call. Where nobody is asked, for arguments are refused, a batch is empty or memory is out, it runs on the
 * calling thread, inside the function. */
typedef void (*nova_done)(void* arg, int outcome, const char* value, size_t value_size);
void nova_put_async(nova_client* client, const char* key, size_t key_size, const char* value,
                    size_t value_size, nova_done done, void* arg);
void nova_delete_async(nova_client* client, const char* key, size_t key_size, nova_done done, void* arg);
void nova_delete_range_async(nova_client* client, const char* begin, size_t begin_size, const char* end,
                             size_t end_size, nova_done done, void* arg);
void nova_write_async(nova_client* client, const nova_batch* batch, nova_done done, void* arg);
void nova_compare_and_swap_async(nova_client* client, const char* key, size_t key_size, const char* expected,
                                 size_t expected_size, const char* desired, size_t desired_size,
                                 nova_done done, void* arg);
void nova_get_async(nova_client* client, const char* key, size_t key_size, nova_done done, void* arg);

nova_effect nova_effect_of(int outcome);          /* of a write that ended so */
const char* nova_outcome_name(int outcome);       /* static */
const char* nova_last_error(void);                /* of the calling thread, until its next operation */
uint64_t nova_retries(const nova_client* client); /* tries after the first, of all operations so far */
char* nova_status(nova_client* client);           /* what `nova status` prints, or why not; nova_free */
void nova_free(void* memory);                     /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif /* NOVA_CLIENT_NOVA_H_ */
