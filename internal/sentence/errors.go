// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package sentence

import "strings"

// aboutError is an error about one of several things, such as a node.
type aboutError struct {
	about About
	err   error
}

// ErrorAbout returns an error about one of several things. If the same happens to others, people read it once.
func ErrorAbout(what, name string, err error) error {
	return aboutError{About{What: what, Name: name, Says: err.Error()}, err}
}

func (e aboutError) Error() string { return e.about.String() }

// Unwrap returns what happened to the thing.
func (e aboutError) Unwrap() error { return e.err }

// OfErrors returns what is wrong: a sentence for each error that was joined, or for all things to which the same
// happened.
func OfErrors(err error) []string { return Grouped(abouts(err)) }

func abouts(err error) (all []About) {
	switch is := err.(type) { //nolint:errorlint // every error in the tree has its turn
	case aboutError:
		return []About{is.about}
	case interface{ Unwrap() []error }:
		for _, one := range is.Unwrap() {
			all = append(all, abouts(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		if inner := is.Unwrap(); inner != nil && inner.Error() == err.Error() {
			return abouts(inner)
		}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		all = append(all, About{Says: line})
	}
	return all
}
