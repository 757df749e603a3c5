// Goal: nothing that a file holds moves a cursor, changes a colour or turns text around.
#include "base/streams.h"

#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("what a terminal would obey is shown, and other text is left alone") {
  CHECK(visible_text("plain\ttext\nwith \xc3\xa9, \xe2\x82\xac and \xf0\x9f\x98\x80") ==
        "plain\ttext\nwith \xc3\xa9, \xe2\x82\xac and \xf0\x9f\x98\x80");
  CHECK(visible_text("\x1b[31mred\a") == "\\x1b[31mred\\x07");
  CHECK(visible_text("a\rb\r\n") == "a\\x0db\r\n");
  CHECK(visible_text("\x7f \xc2\x9b \xe2\x80\xae \xe2\x81\xa6") ==
        "\\u007f \\u009b \\u202e \\u2066");
}

TEST_CASE("bytes that are no UTF-8 are shown as what they are") {
  CHECK(visible_text("\xff \xc0\xaf \xed\xa0\x80 \xe2\x82") ==
        "\\xff \\xc0\\xaf \\xed\\xa0\\x80 \\xe2\\x82");
}
