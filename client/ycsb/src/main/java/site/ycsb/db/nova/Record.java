package site.ycsb.db.nova;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;

/**
 * A YCSB record as one value: a 32-bit count, then name and value of each field, each as a 32-bit size and its bytes, big-endian,
 * fields in order of their names.
 */
final class Record {
  private Record() {}

  static byte[] encode(Map<String, byte[]> fields) {
    int size = Integer.BYTES;
    TreeMap<byte[], byte[]> sorted = new TreeMap<>(java.util.Arrays::compareUnsigned);
    for (Map.Entry<String, byte[]> f : fields.entrySet()) {
      byte[] name = f.getKey().getBytes(StandardCharsets.UTF_8);
      sorted.put(name, f.getValue());
      size += 2 * Integer.BYTES + name.length + f.getValue().length;
    }
    ByteBuffer out = ByteBuffer.allocate(size);
    out.putInt(sorted.size());
    for (Map.Entry<byte[], byte[]> f : sorted.entrySet()) {
      out.putInt(f.getKey().length).put(f.getKey());
      out.putInt(f.getValue().length).put(f.getValue());
    }
    return out.array();
  }

  static Map<String, byte[]> decode(byte[] bytes) {
    Map<String, byte[]> fields = new TreeMap<>();
    ByteBuffer in = ByteBuffer.wrap(bytes);
    try {
      for (int left = in.getInt(); left > 0; --left) {
        String name = new String(take(in), StandardCharsets.UTF_8);
        fields.put(name, take(in));
      }
    } catch (BufferUnderflowException | NegativeArraySizeException e) {
      throw new IllegalArgumentException("the value is not a YCSB record", e);
    }
    return fields;
  }

  private static byte[] take(ByteBuffer in) {
    int size = in.getInt();
    if (size < 0 || size > in.remaining()) {
      throw new BufferUnderflowException();
    }
    byte[] piece = new byte[size];
    in.get(piece);
    return piece;
  }

  /** The wanted fields (null: all) of a record into YCSB's result. */
  static void fill(byte[] bytes, Set<String> wanted, Map<String, ByteIterator> result) {
    for (Map.Entry<String, byte[]> f : decode(bytes).entrySet()) {
      if (wanted == null || wanted.contains(f.getKey())) {
        result.put(f.getKey(), new ByteArrayByteIterator(f.getValue()));
      }
    }
  }
}
