package site.ycsb.db.nova;

import java.nio.charset.StandardCharsets;

/**
 * Where the records of a YCSB table lie. A key of {@code usertable} is YCSB's own: a prefix and a number. Keys of other tables have
 * the table's name and a slash before that. What lies between keys of a table and is none, as a record of {@code nova bench}, is not
 * the table's.
 */
final class Table {
  private static final String DEFAULT_TABLE = "usertable";
  private static final char BEHIND_DIGITS = '9' + 1;

  private final String name;

  Table(String name) {
    this.name = name;
  }

  private String prefix() {
    return name.equals(DEFAULT_TABLE) ? "" : name + "/";
  }

  byte[] keyOf(String key) {
    return (prefix() + key).getBytes(StandardCharsets.UTF_8);
  }

  /** Above all keys of the table that have what stands before the number in {@code key}. */
  byte[] endOf(String key) {
    return keyOf(key.substring(0, startOfNumber(key)) + BEHIND_DIGITS);
  }

  /** Is it a key of this table, as {@code key} is one? */
  boolean has(byte[] stored, String key) {
    String text = new String(stored, StandardCharsets.UTF_8);
    String begin = prefix() + key.substring(0, startOfNumber(key));
    return text.startsWith(begin) && text.substring(begin.length()).chars().allMatch(c -> c >= '0' && c <= '9');
  }

  private static int startOfNumber(String key) {
    int at = key.length();
    while (at > 0 && key.charAt(at - 1) >= '0' && key.charAt(at - 1) <= '9') {
      --at;
    }
    return at;
  }
}
