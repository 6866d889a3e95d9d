package site.ycsb.db.nova;

import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.Structure;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;

/** The C interface of libnova_client (client/nova.h), as far as YCSB needs it. */
interface NovaLibrary extends Library {
  int OK = 0;
  int NOT_FOUND = 1;
  int INVALID_ARGUMENT = 2;

  static NovaLibrary load() {
    return Native.load("nova_client", NovaLibrary.class);
  }

  Pointer nova_open(String coordinators, PointerByReference error);

  void nova_close(Pointer client);

  int nova_put(Pointer client, byte[] key, long keySize, byte[] value, long valueSize);

  int nova_delete(Pointer client, byte[] key, long keySize);

  int nova_get(Pointer client, byte[] key, long keySize, PointerByReference value, LongByReference valueSize);

  /** nova_scan_options. */
  @Structure.FieldOrder({"from", "fromSize", "to", "toSize", "prefix", "prefixSize", "limit", "reverse", "snapshot"})
  class ScanOptions extends Structure {
    public Pointer from;
    public long fromSize;
    public Pointer to;
    public long toSize;
    public Pointer prefix;
    public long prefixSize;
    public long limit;
    public int reverse;
    public Pointer snapshot;
  }

  int nova_scan_with(Pointer client, ScanOptions options, PointerByReference result);

  long nova_scan_count(Pointer result);

  Pointer nova_scan_key(Pointer result, long i, LongByReference size);

  Pointer nova_scan_value(Pointer result, long i, LongByReference size);

  void nova_scan_free(Pointer result);

  String nova_outcome_name(int outcome);

  String nova_last_error();

  long nova_retries(Pointer client);

  void nova_free(Pointer memory);
}
