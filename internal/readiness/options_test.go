// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	o, flags := &Options{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestABadValueIsNamedWithWhatIsAllowed(t *testing.T) {
	for flag, want := range map[string]string{ // "" if it is allowed
		"--node-monitor-grace-period=0s":           "it must be more than zero",
		"--node-monitor-grace-period=1ns":          "",
		"--node-startup-grace-period=0s":           "it must be more than zero",
		"--node-startup-grace-period=1ns":          "",
		"--node-eviction-rate=-1":                  "it must be a number, 0 or at least 1e-09; 0 means that no node is tainted",
		"--node-eviction-rate=1e-10":               "it must be a number, 0 or at least 1e-09; 0 means that no node is tainted",
		"--node-eviction-rate=0":                   "",
		"--node-eviction-rate=1e-9":                "",
		"--secondary-node-eviction-rate=-0.1":      "it must be a number, 0 or at least 1e-09; 0 means that no node is tainted",
		"--secondary-node-eviction-rate=Inf":       "it must be a number, 0 or at least 1e-09; 0 means that no node is tainted",
		"--zone-full-disruption-eviction-rate=-2":  "or -1, which means --node-eviction-rate",
		"--zone-full-disruption-eviction-rate=-1":  "",
		"--zone-full-disruption-eviction-rate=0.1": "",
		"--large-cluster-size-threshold=-1":        "it cannot be negative",
		"--large-cluster-size-threshold=0":         "",
		"--unhealthy-zone-threshold=0":             "it must be more than 0 and at most 1",
		"--unhealthy-zone-threshold=0.01":          "",
		"--unhealthy-zone-threshold=1":             "",
		"--unhealthy-zone-threshold=1.01":          "it must be more than 0 and at most 1",
	} {
		t.Run(flag, func(t *testing.T) {
			err := parse(t, flag).Validate()
			name, _, _ := strings.Cut(flag, "=")
			switch {
			case want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), name+"=") || !strings.Contains(err.Error(), want)):
				t.Errorf("the error is %v, want the flag and %q", err, want)
			}
		})
	}
}

func TestFullyDisruptedZonesHaveTheRateOfHealthyOnesUnlessSaid(t *testing.T) {
	for _, test := range []struct {
		flag string
		want float32
	}{
		{"--zone-full-disruption-eviction-rate=-1", 0.5},
		{"--zone-full-disruption-eviction-rate=0", 0},
		{"--zone-full-disruption-eviction-rate=2", 2},
	} {
		if got := parse(t, "--node-eviction-rate=0.5", test.flag).Policy().FullDisruptionRate; got != test.want {
			t.Errorf("%s: the rate is %g, want %g", test.flag, got, test.want)
		}
	}
}
