package site.ycsb.db.nova;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.nio.charset.StandardCharsets;
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
  private static final String DEFAULT_TABLE = "usertable";

  private static NovaLibrary library;
  private static Pointer client;
  private static int users;

  @Override
  public void init() throws DBException {
    synchronized (NovaClient.class) {
      if (users++ > 0) {
        return;
      }
      String coordinators = getProperties().getProperty(COORDINATORS);
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
    if (status.isOk()) {
      Record.fill(value[0], fields, result);
    }
    return status;
  }

  @Override
  public Status scan(String table, String startKey, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    byte[] from = keyOf(table, startKey);
    PointerByReference found = new PointerByReference();
    int outcome = library.nova_scan(client, from, from.length, count, found);
    if (outcome != NovaLibrary.OK) {
      return statusOf("scan", outcome);
    }
    try {
      LongByReference size = new LongByReference();
      long entries = library.nova_scan_count(found.getValue());
      for (long i = 0; i < entries; ++i) {
        Pointer value = library.nova_scan_value(found.getValue(), i, size);
        HashMap<String, ByteIterator> row = new HashMap<>();
        Record.fill(value.getByteArray(0, Math.toIntExact(size.getValue())), fields, row);
        result.add(row);
      }
    } finally {
      library.nova_scan_free(found.getValue());
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
    Map<String, byte[]> fields = Record.decode(value[0]);
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
    return (table.equals(DEFAULT_TABLE) ? key : table + "/" + key).getBytes(StandardCharsets.UTF_8);
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
