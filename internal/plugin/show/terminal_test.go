// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import "testing"

func TestALineBreaksBetweenWords(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		width int
		want  string
	}{
		"not a terminal":                    {"one two three", 0, "one two three"},
		"fits":                              {"one two", 7, "one two"},
		"goes on with an indent":            {"one two three four", 9, "one two\n  three\n  four"},
		"an indent stays":                   {"  one two", 8, "  one\n    two"},
		"a word that is too long has a row": {"a 123456789 b", 5, "a\n  123456789\n  b"},
		"columns keep their gap":            {"a   b", 5, "a   b"},
		"a command stays whole":             {"    kubectl get nodes", 9, "    kubectl get nodes"},
	} {
		if got := Wrap(test.text, test.width); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

func TestParagraphsAndListsFitTheTerminal(t *testing.T) {
	const text = `one two
three four.

Has:
- one two three
  four
- two

  kind: as it is, wide or not
  a  one two three
and on`
	const want = `one two three
four.

Has:
- one two
  three four
- two

  kind: as it is, wide or not
  a  one two
     three
and on`
	if got := Reflow(text, 13); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Reflow(text, 0); got != text {
		t.Errorf("without a terminal: got\n%s", got)
	}
}
