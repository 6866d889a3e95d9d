package site.ycsb.db.nova;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * YCSB's interface to a Nova cluster. All threads of a YCSB process share one client (one connection to each LTC).
 *
 * <p>Properties: {@code nova.coordinators}: host:port,host:port (needed). A record is one value (see Record); an update of some of
 * its fields reads it first. Tables other than {@code usertable} put their name and a slash before the key.
 */
public class NovaClient extends DB {
  public static final String COORDINATORS = "nova.coordinators";

  private static NovaLibrary library;
  private static Pointer client;
  private static int users;
  private static String failure; // why there is no client

  @Override
  public void init() throws DBException {
    synchronized (NovaClient.class) {
      if (failure != null) {
        throw new DBException(failure); // the other threads' too: none of them has a client
      }
      if (client == null) {
        try {
          open(getProperties().getProperty(COORDINATORS));
        } catch (DBException e) {
          failure = e.getMessage();
          throw e;
        }
      }
      ++users;
    }
  }

  private static void open(String coordinators) throws DBException {
    if (coordinators == null) {
      throw new DBException("-p " + COORDINATORS + "=host:port is needed");
    }
    try {
      library = NovaLibrary.load();
    } catch (UnsatisfiedLinkError e) {
      throw new DBException("libnova_client.so is not found: set -Djna.library.path", e);
    }
    PointerByReference error = new PointerByReference();
    client = library.nova_open(coordinators, error);
    if (client == null) {
      String text = error.getValue().getString(0);
      library.nova_free(error.getValue());
      throw new DBException("cannot reach the cluster: " + text);
    }
  }

  @Override
  public void cleanup() throws DBException {
    synchronized (NovaClient.class) {
      if (--users > 0) {
        return;
      }
      System.err.println("nova: internal retries " + library.nova_retries(client));
      library.nova_close(client);
      client = null;
    }
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    byte[][] value = new byte[1][];
    Status status = get(keyOf(table, key), value);
    return status.isOk() ? fill("get", value[0], fields, result) : status;
  }

  @Override
  public Status scan(String table, String startKey, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    Table of = new Table(table);
    byte[] from = of.keyOf(startKey);
    byte[] to = of.endOf(startKey);
    while (result.size() < count) {
      long wanted = count - result.size();
      PointerByReference found = new PointerByReference();
      int outcome = library.nova_scan_with(client, scanOptions(from, to, wanted), found);
      if (outcome != NovaLibrary.OK) {
        return statusOf("scan", outcome);
      }
      try {
        long entries = library.nova_scan_count(found.getValue());
        LongByReference size = new LongByReference();
        for (long i = 0; i < entries; ++i) {
          byte[] key = bytesOf(library.nova_scan_key(found.getValue(), i, size), size);
          if (of.has(key, startKey)) {
            HashMap<String, ByteIterator> row = new HashMap<>();
            Status status = fill("scan", bytesOf(library.nova_scan_value(found.getValue(), i, size), size), fields, row);
            if (!status.isOk()) {
              return status;
            }
            result.add(row);
          }
          from = Arrays.copyOf(key, key.length + 1); // the first key above it
        }
        if (entries < wanted) {
          break;
        }
      } finally {
        library.nova_scan_free(found.getValue());
      }
    }
    return Status.OK;
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    byte[] storedKey = keyOf(table, key);
    byte[][] value = new byte[1][];
    Status status = get(storedKey, value);
    if (!status.isOk()) {
      return status;
    }
    Map<String, byte[]> fields;
    try {
      fields = Record.decode(value[0]);
    } catch (IllegalArgumentException e) {
      return foreign("update", e);
    }
    values.forEach((name, v) -> fields.put(name, v.toArray()));
    return put(storedKey, Record.encode(fields));
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    Map<String, byte[]> fields = new HashMap<>();
    values.forEach((name, v) -> fields.put(name, v.toArray()));
    return put(keyOf(table, key), Record.encode(fields));
  }

  @Override
  public Status delete(String table, String key) {
    byte[] storedKey = keyOf(table, key);
    return statusOf("delete", library.nova_delete(client, storedKey, storedKey.length));
  }

  private static byte[] keyOf(String table, String key) {
    return new Table(table).keyOf(key);
  }

  private static NovaLibrary.ScanOptions scanOptions(byte[] from, byte[] to, long limit) {
    NovaLibrary.ScanOptions options = new NovaLibrary.ScanOptions();
    options.from = memoryOf(from);
    options.fromSize = from.length;
    options.to = memoryOf(to);
    options.toSize = to.length;
    options.limit = limit;
    return options;
  }

  private static Memory memoryOf(byte[] bytes) {
    Memory memory = new Memory(bytes.length);
    memory.write(0, bytes, 0, bytes.length);
    return memory;
  }

  private static byte[] bytesOf(Pointer bytes, LongByReference size) {
    return bytes.getByteArray(0, Math.toIntExact(size.getValue()));
  }

  /** The wanted fields of a stored record into YCSB's result. */
  private static Status fill(String operation, byte[] value, Set<String> fields, Map<String, ByteIterator> result) {
    try {
      Record.fill(value, fields, result);
      return Status.OK;
    } catch (IllegalArgumentException e) {
      return foreign(operation, e);
    }
  }

  /** Somebody else wrote at the key. */
  private static Status foreign(String operation, IllegalArgumentException e) {
    System.err.println("nova: " + operation + ": " + e.getMessage());
    return Status.ERROR;
  }

  private static Status put(byte[] key, byte[] value) {
    return statusOf("put", library.nova_put(client, key, key.length, value, value.length));
  }

  private static Status get(byte[] key, byte[][] value) {
    PointerByReference found = new PointerByReference();
    LongByReference size = new LongByReference();
    int outcome = library.nova_get(client, key, key.length, found, size);
    if (outcome == NovaLibrary.OK) {
      value[0] = found.getValue().getByteArray(0, Math.toIntExact(size.getValue()));
      library.nova_free(found.getValue());
    }
    return statusOf("get", outcome);
  }

  private static Status statusOf(String operation, int outcome) {
    switch (outcome) {
      case NovaLibrary.OK:
        return Status.OK;
      case NovaLibrary.NOT_FOUND:
        return Status.NOT_FOUND;
      case NovaLibrary.INVALID_ARGUMENT:
        System.err.println("nova: " + operation + ": " + library.nova_last_error());
        return Status.BAD_REQUEST;
      default:
        System.err.println("nova: " + operation + ": " + library.nova_last_error());
        return new Status(library.nova_outcome_name(outcome), library.nova_last_error());
    }
  }
}
