// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sentence holds what the sentences of commands, checks and pages have in common.
package sentence

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Counted returns a number with its noun: 1 pod, 2 pods.
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Agree returns the verb that agrees with a number: leaves with 1, leave with any other.
func Agree(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Part says how many of several do something: 0 of 1 pod leaves, 1 of 2 pods leaves, 2 of 3 pods leave.
func Part(n, of int, what, one, many string) string {
	verb := one
	if of != 1 {
		verb = Agree(n, one, many)
	}
	return fmt.Sprintf("%d of %s %s", n, Counted(of, what), verb)
}

// Do returns the subject and the verb of a sentence: 1 pod leaves, 2 pods leave.
func Do(n int, what, one, many string) string {
	return Counted(n, what) + " " + Agree(n, one, many)
}

// Are begins a sentence: 1 pod is, 2 pods are.
func Are(n int, what string) string { return Do(n, what, "is", "are") }

// Duration formats a duration without trailing zeros, such as 1m instead of 1m0s.
func Duration(d time.Duration) string {
	text := d.String()
	for _, zero := range []struct{ end, short string }{{"m0s", "m"}, {"h0m", "h"}} {
		if short, ok := strings.CutSuffix(text, zero.end); ok {
			text = short + zero.short
		}
	}
	return text
}

// Span formats a duration in whole seconds, or in milliseconds if it is less than a second.
func Span(d time.Duration) string {
	if d >= time.Second {
		return Duration(d.Round(time.Second))
	}
	return Duration(d.Round(time.Millisecond))
}

// Relative formats the time from one instant to another.
func Relative(from, to time.Time) string {
	if !to.After(from) {
		return "now"
	}
	if to.Sub(from) < time.Second {
		return "1s"
	}
	return duration.HumanDuration(to.Sub(from))
}

// Roughly is like Relative, for an instant that is only an estimate.
func Roughly(from, to time.Time) string {
	if relative := Relative(from, to); relative != "now" {
		return "about " + relative
	}
	return "now"
}

// Absolute formats an instant like the API server.
func Absolute(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Age says how old something is. The clock that recorded its beginning may be ahead.
func Age(began, now time.Time) string {
	if began.After(now) {
		return "in " + Relative(now, began)
	}
	return Between(began, now)
}

// Between formats the time from one instant to a later one.
func Between(from, to time.Time) string { return duration.HumanDuration(to.Sub(from)) }

// When says when an instant is, relative to another one.
func When(from, instant time.Time) string {
	switch {
	case instant.Equal(from):
		return "now"
	case instant.Before(from):
		return Between(instant, from) + " ago"
	}
	return "in " + Relative(from, instant)
}

// Enumerate names ten, and counts the rest.
func Enumerate(names []string) string { return first(names, 10) }

// Some names three, and counts the rest.
func Some(names []string) string { return first(names, 3) }

// About is a sentence about one thing, or about nothing in particular if it has no name.
type About struct{ What, Name, Says string }

func (a About) String() string {
	if a.Name == "" {
		return a.Says
	}
	return a.What + " " + a.Name + ": " + a.Says
}

// Grouped returns one sentence for all things to which the same sentence applies, at the place of the first.
func Grouped(all []About) (sentences []string) {
	names := map[About][]string{}
	said := func(is About) About { return About{What: is.What, Says: is.Says} }
	for _, is := range all {
		names[said(is)] = append(names[said(is)], is.Name)
	}
	for _, is := range all {
		switch same := names[said(is)]; {
		case is.Name == "":
			sentences = append(sentences, is.Says)
		case same != nil:
			delete(names, said(is))
			is.Name = Also(same)
			sentences = append(sentences, is.String())
		}
	}
	return sentences
}

// Also begins a sentence that is true of each of some: a (also b, c): it is due.
func Also(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return names[0] + " (also " + Some(names[1:]) + ")"
}

func first(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
