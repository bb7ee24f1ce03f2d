// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"time"
)

// finding is what was seen of a contestant in a scenario, and whether that is what should happen.
type finding struct {
	seen  string
	right bool
}

// and adds something else that was seen.
func (f finding) and(seen string, right bool) finding {
	if f.seen != "" {
		seen = f.seen + "; " + seen
	}
	return finding{seen: seen, right: f.right && right}
}

const (
	// never is when a pod is due that may stay.
	never time.Duration = math.MaxInt64
	// patience is how late an eviction may be on a machine that is busy with other things. No defect
	// shows itself by less.
	patience = 4 * time.Second
)

// departure is how a pod left, or did not. Its times count from just before the taint was set.
type departure struct {
	due     time.Duration // when it had to leave, or never
	left    bool
	after   time.Duration // when it left
	watched time.Duration // how long it was looked at, if it did not
}

func (d departure) early() time.Duration { return max(0, d.due-d.after) }

func (d departure) late() time.Duration { return max(0, d.after-d.due) }

func (d departure) right() bool {
	if d.due == never {
		return !d.left
	}
	return d.left && d.early() == 0 && d.late() <= patience
}

func (d departure) String() string {
	switch {
	case !d.left:
		return "still there after " + seconds(d.watched)
	case d.right() || d.due == never:
		return "left after " + seconds(d.after)
	case d.early() > 0:
		return fmt.Sprintf("left after %s, %s early", seconds(d.after), seconds(d.early()))
	default:
		return fmt.Sprintf("left after %s, %s late", seconds(d.after), seconds(d.late()))
	}
}

func (d departure) finding() finding { return finding{seen: d.String(), right: d.right()} }

// seconds writes a time for people.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// counted writes a number of things.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// times writes how often something happened.
func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

// deleted writes how often something was deleted.
func deleted(n int) string {
	if n == 0 {
		return "never deleted"
	}
	return "deleted " + times(n)
}
