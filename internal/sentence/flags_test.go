// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package sentence

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestAValueThatAFlagDoesNotTakeIsRefusedByWhatItTakes(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Uint16P("port", "p", 0, "")
	flags.Bool("wait", false, "")
	flags.Duration("after", 0, "")
	flags.StringToString("gates", nil, "")
	for argument, want := range map[string]string{
		"--port=abc":     "--port=abc: it must be a number from 0 to 65535",
		"-p=70000":       "--port=70000: it must be a number from 0 to 65535",
		"--wait=perhaps": "--wait=perhaps: it must be true or false",
		"--after=30":     "--after=30: it must be a duration, such as 30s or 5m",
		"--gates=a":      `invalid argument "a" for "--gates" flag: a must be formatted as key=value`,
		"--there-is-not": "unknown flag: --there-is-not",
	} {
		if err := flags.Parse([]string{argument}); err == nil || OfFlag(err).Error() != want {
			t.Errorf("%s is refused by %v, want %q", argument, OfFlag(err), want)
		}
	}
}
