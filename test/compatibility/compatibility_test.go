// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
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
	results := []result{{suite: "a", ok: true, ran: 1}, {suite: "b", ok: true, ran: 2}}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for version, test := range map[string]struct{ old, new string }{
		"v1.33.9": {"| v1.33.9 | 0 of 1 | 1 of 2 | 2026-01-02 |", "| v1.33.9 | 1 of 1 | 2 of 2 | 2026-03-04 |"},
		"v1.35.4": {"| v1.33.9", "| v1.35.4 | 1 of 1 | 2 of 2 | 2026-03-04 |\n| v1.33.9"},
	} {
		got, err := with(text, measurement{version, results, at})
		if want := strings.Replace(text, test.old, test.new, 1); err != nil || got != want {
			t.Errorf("%s: error %v, text:\n%s\nwant:\n%s", version, err, got, want)
		}
	}
	_, err := with("# Title\n", measurement{version: "v1.37.2", results: results[:1]})
	const want = `it has no table that begins with "| Kubernetes | test/a | date |"`
	if err == nil || err.Error() != want {
		t.Errorf("a document without the table: error %v, want %s", err, want)
	}
}

func TestARunIsRecordedInTheRealDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "compatibility.md")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	m := measurement{version: "v1.99.0", date: time.Now()}
	for _, suite := range allSuites {
		m.results = append(m.results, result{suite: suite, ok: true, ran: 1})
	}
	if err := errors.Join(record(file, m), m.failures(), record("", m)); err != nil {
		t.Fatal(err)
	}
	if recorded, err := os.ReadFile(file); err != nil || !strings.Contains(string(recorded), "| --- |\n| v1.99.0 | 1 of 1 |") {
		t.Errorf("%v:\n%s", err, recorded)
	}
	m.results[0].failed = []string{"TestA"}
	if err := m.failures(); err == nil || err.Error() != "test/"+allSuites[0]+" on Kubernetes v1.99.0: 0 of 1, **not** TestA" {
		t.Errorf("failures: %v", err)
	}
}
