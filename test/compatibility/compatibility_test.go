// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func TestTheOutcomeOfASuiteIsThatOfItsTests(t *testing.T) {
	tests := map[string]struct {
		events string
		ok     bool
		want   string
		right  bool
	}{
		"all pass, and a test with subtests is counted by them": {
			events: `{"Action":"run","Test":"TestA"} {"Action":"run","Test":"TestA/b"} {"Action":"pass","Test":"TestA/b"}
				{"Action":"run","Test":"TestA/c"} {"Action":"run","Test":"TestA/c/d"} {"Action":"pass","Test":"TestA/c/d"}
				{"Action":"pass","Test":"TestA/c"} {"Action":"pass","Test":"TestA"} {"Action":"pass"}`,
			ok: true, want: "2 of 2", right: true,
		},
		"a subtest fails": {
			events: `{"Action":"run","Test":"TestA"} {"Action":"run","Test":"TestA/b"} {"Action":"fail","Test":"TestA/b"}
				{"Action":"fail","Test":"TestA"} {"Action":"fail"}`,
			want: "0 of 1, **not** TestA/b",
		},
		"a test fails after its subtests": {
			events: `{"Action":"run","Test":"TestA"} {"Action":"run","Test":"TestA/b"} {"Action":"pass","Test":"TestA/b"}
				{"Action":"fail","Test":"TestA"} {"Action":"fail"}`,
			want: "1 of 1, **but the setup or teardown failed**",
		},
		"one fails": {
			events: `{"Action":"run","Test":"TestA"} {"Action":"run","Test":"TestB"} {"Action":"fail","Test":"TestB"}
				{"Action":"pass","Test":"TestA"} {"Action":"fail"}`,
			want: "1 of 2, **not** TestB",
		},
		"a skipped one is counted separately": {
			events: `{"Action":"run","Test":"TestA"} {"Action":"skip","Test":"TestA"}
				{"Action":"run","Test":"TestB"} {"Action":"pass","Test":"TestB"} {"Action":"pass"}`,
			ok: true, want: "1 of 1, 1 left out", right: true,
		},
		"skipped ones alone are no success": {
			events: `{"Action":"run","Test":"TestA"} {"Action":"skip","Test":"TestA"} {"Action":"pass"}`,
			ok:     true, want: "0 of 0, 1 left out",
		},
		"one that a panic cuts off has not passed": {
			events: `{"Action":"run","Test":"TestA"} {"Action":"fail"}`,
			want:   "0 of 1, **not** TestA",
		},
		"what they share fails": {
			events: `{"Action":"run","Test":"TestA"} {"Action":"pass","Test":"TestA"} {"Action":"fail"}`,
			want:   "1 of 1, **but the setup or teardown failed**",
		},
		"no tests are no success": {
			events: `{"Action":"pass"}`,
			ok:     true, want: "0 of 0",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			counted, err := readTally(strings.NewReader(test.events), t.Output())
			if err != nil {
				t.Fatal(err)
			}
			got := counted.result("suite", test.ok)
			if got.String() != test.want || got.right() != test.right {
				t.Errorf("%s, right: %t; want %s, %t", got, got.right(), test.want, test.right)
			}
		})
	}
}

func TestWhatWasMeasuredTakesThePlaceOfWhatIsOlder(t *testing.T) {
	const text = `# Title

| Kubernetes | test/a | test/b | date |
| --- | --- | --- | --- |
| v1.37.2 | 1 of 1 | 2 of 2 | 2026-01-02 |
| v1.33.9 | 0 of 1 | 1 of 2 | 2026-01-02 |

After it.
`
	a, b := result{suite: "a", ok: true, ran: 1}, result{suite: "b", ok: true, ran: 2}
	tests := map[string]struct {
		version  string
		results  []result
		old, new string
	}{
		"a version that is there": {
			version: "v1.33.9", results: []result{a, b},
			old: "| v1.33.9 | 0 of 1 | 1 of 2 | 2026-01-02 |", new: "| v1.33.9 | 1 of 1 | 2 of 2 | 2026-03-04 |",
		},
		"one suite of it": {
			version: "v1.33.9", results: []result{b},
			old: "| v1.33.9 | 0 of 1 | 1 of 2 | 2026-01-02 |", new: "| v1.33.9 | 0 of 1 | 2 of 2 | 2026-03-04 |",
		},
		"a version between two": {
			version: "v1.35.4", results: []result{a, b},
			old: "| v1.33.9", new: "| v1.35.4 | 1 of 1 | 2 of 2 | 2026-03-04 |\n| v1.33.9",
		},
		"one suite of a version that is new": {
			version: "v1.35.4", results: []result{b},
			old: "| v1.33.9", new: "| v1.35.4 | not run | 2 of 2 | 2026-03-04 |\n| v1.33.9",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := measurement{test.version, test.results, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
			got, err := with(text, []string{"a", "b"}, m)
			if want := strings.Replace(text, test.old, test.new, 1); err != nil || got != want {
				t.Errorf("error %v, text:\n%s\nwant:\n%s", err, got, want)
			}
		})
	}
}

func TestADocumentWithoutTheTableIsRefused(t *testing.T) {
	_, err := with("# Title\n", []string{"a"}, measurement{version: "v1.37.2"})
	const want = `it has no table that begins with "| Kubernetes | test/a | date |"`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
