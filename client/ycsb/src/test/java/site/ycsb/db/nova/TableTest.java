package site.ycsb.db.nova;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.Test;

public class TableTest {
  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  @Test
  public void aTableEndsBehindItsLastNumber() {
    assertEquals("user:", new String(new Table("usertable").endOf("user17"), StandardCharsets.UTF_8));
    assertEquals("t/user:", new String(new Table("t").endOf("user17"), StandardCharsets.UTF_8));
  }

  @Test
  public void whatIsNoNumberIsNotOfTheTable() {
    Table table = new Table("usertable");
    assertTrue(table.has(bytes("user6284781860667377211"), "user17"));
    assertFalse(table.has(bytes("user1000000000000000000/bench"), "user17"));
    assertFalse(table.has(bytes("usertable2/user17"), "user17"));
    assertTrue(new Table("t").has(bytes("t/user1"), "user17"));
    assertFalse(new Table("t").has(bytes("user1"), "user17"));
  }
}
