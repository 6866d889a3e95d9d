// Rocksdb10Api: the functions of RocksDB's C interface that rocksdb10_store.cc calls, found at run time in a
// library of a newer version than the one this program is linked with. Their names and parameters are those
// of that interface; its types stay opaque.
//
// The library keeps to its own symbols (RTLD_DEEPBIND) and lends none (RTLD_LOCAL). What C++ makes unique in
// a process, such as static variables of inline functions, the two versions share nevertheless: open only one
// of them in a process.
//
// Thread safety: as the interface's.   Ownership: the library stays loaded until the process ends.   Errors:
// `error` names what is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace nova {

struct rocksdb_t;
struct rocksdb_options_t;
struct rocksdb_readoptions_t;
struct rocksdb_writeoptions_t;
struct rocksdb_pinnableslice_t;
struct rocksdb_iterator_t;
struct rocksdb_column_family_handle_t;

// X(result, name without "rocksdb_", parameters). `error`: null, or a text that rocksdb_free frees.
#define NOVA_ROCKSDB10_FUNCTIONS(X)                                                                         \
  X(void, free, (void*))                                                                                    \
  X(rocksdb_options_t*, options_create, ())                                                                 \
  X(void, options_destroy, (rocksdb_options_t*))                                                            \
  X(void, options_set_create_if_missing, (rocksdb_options_t*, unsigned char))                               \
  X(void, get_options_from_string,                                                                          \
    (const rocksdb_options_t* base, const char* text, rocksdb_options_t* made, char** error))               \
  X(rocksdb_t*, open, (const rocksdb_options_t*, const char* directory, char** error))                      \
  X(void, close, (rocksdb_t*))                                                                              \
  X(int, property_int, (rocksdb_t*, const char* name, uint64_t* value))                                     \
  X(rocksdb_writeoptions_t*, writeoptions_create, ())                                                       \
  X(void, writeoptions_destroy, (rocksdb_writeoptions_t*))                                                  \
  X(void, writeoptions_disable_WAL, (rocksdb_writeoptions_t*, int))                                         \
  X(void, writeoptions_set_sync, (rocksdb_writeoptions_t*, unsigned char))                                  \
  X(rocksdb_readoptions_t*, readoptions_create, ())                                                         \
  X(void, readoptions_destroy, (rocksdb_readoptions_t*))                                                    \
  X(void, put,                                                                                              \
    (rocksdb_t*, const rocksdb_writeoptions_t*, const char* key, size_t, const char* value, size_t,         \
     char** error))                                                                                         \
  X(void, delete, (rocksdb_t*, const rocksdb_writeoptions_t*, const char* key, size_t, char** error))       \
  X(rocksdb_column_family_handle_t*, get_default_column_family_handle, (rocksdb_t*))                        \
  X(void, delete_range_cf,                                                                                  \
    (rocksdb_t*, const rocksdb_writeoptions_t*, rocksdb_column_family_handle_t*, const char* begin, size_t, \
     const char* end, size_t, char** error))                                                                \
  X(rocksdb_pinnableslice_t*, get_pinned,                                                                   \
    (rocksdb_t*, const rocksdb_readoptions_t*, const char* key, size_t, char** error))                      \
  X(void, batched_multi_get_cf,                                                                             \
    (rocksdb_t*, const rocksdb_readoptions_t*, rocksdb_column_family_handle_t*, size_t keys,                \
     const char* const* data, const size_t* sizes, rocksdb_pinnableslice_t** values, char** errors,         \
     unsigned char sorted_input))                                                                           \
  X(const char*, pinnableslice_value, (const rocksdb_pinnableslice_t*, size_t*))                            \
  X(void, pinnableslice_destroy, (rocksdb_pinnableslice_t*))                                                \
  X(rocksdb_iterator_t*, create_iterator, (rocksdb_t*, const rocksdb_readoptions_t*))                       \
  X(void, iter_seek, (rocksdb_iterator_t*, const char* key, size_t))                                        \
  X(unsigned char, iter_valid, (const rocksdb_iterator_t*))                                                 \
  X(void, iter_next, (rocksdb_iterator_t*))                                                                 \
  X(const char*, iter_key, (const rocksdb_iterator_t*, size_t*))                                            \
  X(const char*, iter_value, (const rocksdb_iterator_t*, size_t*))                                          \
  X(void, iter_get_error, (const rocksdb_iterator_t*, char** error))                                        \
  X(void, iter_destroy, (rocksdb_iterator_t*))

struct Rocksdb10Api {
#define NOVA_ROCKSDB10_POINTER(result, name, parameters) result(*name##_) parameters = nullptr;
  NOVA_ROCKSDB10_FUNCTIONS(NOVA_ROCKSDB10_POINTER)
#undef NOVA_ROCKSDB10_POINTER
};

std::string Rocksdb10Library();  // the file that `deploy/packages.sh --experiments` makes
// Null: `error` says why.
const Rocksdb10Api* LoadRocksdb10(const std::string& library, std::string* error);

}  // namespace nova
