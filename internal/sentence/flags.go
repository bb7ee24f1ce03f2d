// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package sentence

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// values describes the values of each type of flag.
var values = map[string]string{
	"bool":     "true or false",
	"duration": "a duration, such as 30s or 5m",
	"float32":  "a number",
	"float64":  "a number",
	"int":      "a whole number",
	"int32":    "a whole number",
	"uint16":   "a number from 0 to 65535",
}

// OfFlag turns an error of pflag, which only tells which of Go's functions could not parse a value, into one that says
// which values the flag takes.
func OfFlag(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	if takes, ok := values[invalid.GetFlag().Value.Type()]; ok {
		return fmt.Errorf("--%s=%s: it must be %s", invalid.GetFlag().Name, invalid.GetValue(), takes)
	}
	return err
}
