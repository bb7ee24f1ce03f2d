// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"time"
)

// Finding is what was seen of a contestant, and whether that is what was promised.
type Finding struct {
	Seen  string
	Right bool
}

// And adds something else that was seen.
func (f Finding) And(other Finding) Finding {
	seen := f.Seen
	if seen != "" && other.Seen != "" {
		seen += "; "
	}
	return Finding{Seen: seen + other.Seen, Right: f.Right && other.Right}
}

func (f Finding) String() string {
	if f.Right {
		return "right: " + f.Seen
	}
	return "wrong: " + f.Seen
}

// Seconds writes a time for people.
func Seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// Times writes how often something happened.
func Times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

// Deleted writes how often something was deleted.
func Deleted(n int) string {
	if n == 0 {
		return "never deleted"
	}
	return "deleted " + Times(n)
}
