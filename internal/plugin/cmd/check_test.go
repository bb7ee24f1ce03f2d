// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"testing"
	"time"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
)

// checked returns the output of check for examples/cluster.yaml, and its exit code.
func checked(t *testing.T, flags ...string) (printed []byte, code int) {
	t.Helper()
	var out bytes.Buffer
	root := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: io.Discard},
		Clock:     clocktesting.NewFakePassiveClock(time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)),
		Version:   "v0.0.0",
	})
	root.SetArgs(append([]string{"check", "-f", "../../../examples/cluster.yaml"}, flags...))
	code = cmd.Fail(io.Discard, root.ExecuteContext(t.Context()))
	return out.Bytes(), code
}

func TestSARIFIsValidByItsSchemaAndHasEveryFinding(t *testing.T) {
	printed, _ := checked(t, "-o", "sarif")
	report, err := sarif.FromBytes(printed)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Validate(); err != nil {
		t.Error(err)
	}
	if got := len(report.Runs[0].Results); got != 9 {
		t.Errorf("there are %d results, want 9", got)
	}
	for _, result := range report.Runs[0].Results {
		if rule := report.Runs[0].Tool.Driver.Rules[result.RuleIndex]; *rule.ID != *result.RuleID {
			t.Errorf("a result of rule %s points at rule %s", *result.RuleID, *rule.ID)
		}
	}
}

func TestJUnitAndTheExitCodeGoByTheSameFindings(t *testing.T) {
	for threshold, failures := range map[string]int{"never": 0, "error": 0, "warning": 2, "info": 9} {
		printed, code := checked(t, "-o", "junit", "--fail-on", threshold)
		var suites junit.Testsuites
		if err := xml.Unmarshal(printed, &suites); err != nil {
			t.Fatal(err)
		}
		if suites.Failures != failures || (code == cmd.ExitFound) != (failures > 0) {
			t.Errorf("with --fail-on=%s there are %d failures in %d tests and exit code %d, want %d", threshold, suites.Failures, suites.Tests, code, failures)
		}
	}
}
