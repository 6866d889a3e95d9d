package site.ycsb.db.nova;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.junit.Test;
import site.ycsb.ByteIterator;

public class RecordTest {
  private static Map<String, byte[]> fields() {
    Map<String, byte[]> fields = new HashMap<>();
    fields.put("field1", new byte[] {1, 0, -1});
    fields.put("field0", new byte[0]);
    return fields;
  }

  @Test
  public void encodesFieldsInOrderOfTheirNames() {
    byte[] golden = {0, 0, 0, 2, 0, 0, 0, 6, 'f', 'i', 'e', 'l', 'd', '0', 0, 0, 0, 0,
                     0, 0, 0, 6, 'f', 'i', 'e', 'l', 'd', '1', 0, 0, 0, 3, 1, 0, -1};
    assertArrayEquals(golden, Record.encode(fields()));
  }

  @Test
  public void decodesWhatItEncoded() {
    Map<String, byte[]> back = Record.decode(Record.encode(fields()));
    assertEquals(Set.of("field0", "field1"), back.keySet());
    assertArrayEquals(new byte[] {1, 0, -1}, back.get("field1"));
  }

  @Test
  public void fillsOnlyTheWantedFields() {
    Map<String, ByteIterator> result = new HashMap<>();
    Record.fill(Record.encode(fields()), Set.of("field1"), result);
    assertEquals(Set.of("field1"), result.keySet());
  }

  @Test
  public void refusesWhatIsNotARecord() {
    byte[] good = Record.encode(fields());
    for (int n = 0; n < good.length; ++n) {
      byte[] cut = Arrays.copyOf(good, n);
      assertThrows(IllegalArgumentException.class, () -> Record.decode(cut));
    }
  }
}
