"""A patch on a terminal: what a line is told by where it stands, never by what it says."""

from __future__ import annotations

from jamcore.cli.diff import diff_lines

PATCH = """\
diff --git a/run b/run
new file mode 100755
index 0000000..1111111
--- /dev/null
+++ b/run
@@ -0,0 +1,4 @@
+#!/bin/sh
+diff --git a/x b/x
+@@ -1 +1 @@
+GIT binary patch
diff --git a/gone b/gone
deleted file mode 120000
index 1111111..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
--- b
\\ No newline at end of file
diff --git a/image b/image
index 0..1
GIT binary patch
literal 3
abc

diff --git a/z b/z
index 0..1
--- a/z
+++ b/z
@@ -1,2 +1,2 @@ def f():
 same
-old
+new
"""


def test_a_line_of_a_hunk_is_never_a_header() -> None:
    """Added lines that look like headers stay added lines, a removed line that begins with dashes stays removed."""
    styles = {line.text: line.style for line in diff_lines(PATCH)}
    assert styles["+diff --git a/x b/x"] == "green"
    assert styles["+@@ -1 +1 @@"] == "green"
    assert styles["+GIT binary patch"] == "green"
    assert styles["--- b"] == "red"
    assert [line.text for line in diff_lines(PATCH) if line.style == "bold"] == [
        "a/run b/run",
        "a/gone b/gone",
        "a/image b/image",
        "a/z b/z",
    ]


def test_what_has_no_text_is_said_in_words() -> None:
    """A program, a link, a binary file: named, the encoded bytes left out."""
    texts = [line.text for line in diff_lines(PATCH)]
    assert "  new file mode: a program" in texts
    assert "  deleted file mode: a symbolic link" in texts
    assert "  (binary: not shown)" in texts
    assert "abc" not in texts
    assert "+new" in texts


def test_any_text_is_shown_to_its_end() -> None:
    """A cut patch, nonsense for counts, nothing at all: no line that a person must see is lost."""
    assert list(diff_lines("")) == []
    for text in ("@@ -1,x +1 @@", "@@", "+a\n-b", PATCH[:200]):
        shown = "\n".join(line.text for line in diff_lines(text))
        assert text.splitlines()[-1].split(" ")[-1] in shown
