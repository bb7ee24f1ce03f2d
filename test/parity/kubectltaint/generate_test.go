// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// command is what somebody types after "kubectl taint" or "kubectl taintkeeper taint", and the taints that the nodes
// n1, n2 and n3 have.
type command struct {
	Args    []string
	Current [3][]corev1.Taint
}

func generateCommand(r *rand.Rand) command {
	in := command{}
	for i := range in.Current {
		in.Current[i] = unique(seed.List(r, 3, currentTaint))
	}
	in.Args = append(in.Args, seed.Pick(r, []string{"node", "nodes", "Node"}))
	in.Args = append(in.Args, seed.Pick(r, [][]string{
		{"n1"}, {"n2"}, {"n3", "n1"}, {"n1", "n2", "n3"},
		{"--all"}, {"-l", "zone=a"}, {"-l", "zone!=a"}, {"--selector=zone in (b)"}, {"-l", "zone=a", "--all"},
	})...)
	in.Args = append(in.Args, seed.Pick(r, [][]string{nil, nil, nil, {"-o", "name"}, {"--dry-run=client", "-o", "name"}, {"--dry-run=none"}})...)
	if r.IntN(2) == 0 {
		in.Args = append(in.Args, "--overwrite")
	}
	in.Args = append(in.Args, "--") // so that no spec is parsed as a flag
	specs := seed.List(r, 5, spec)
	if !namesAnotherNode(specs) {
		in.Args = append(in.Args, specs...)
	}
	return in
}

// namesAnotherNode reports whether kubectl takes the first of the arguments, which has neither "=" nor ":" nor a "-" at
// its end while another one has, for one more node to change. Package taints is given taints only, and refuses it.
func namesAnotherNode(specs []string) bool {
	return slices.ContainsFunc(specs, looksLikeATaint) && !looksLikeATaint(specs[0])
}

func looksLikeATaint(argument string) bool {
	return strings.ContainsAny(argument, "=:") || strings.HasSuffix(argument, "-")
}

// added is the timeAdded of a current taint that has one. JSON keeps whole seconds.
var added = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func currentTaint(r *rand.Rand) corev1.Taint {
	taint := corev1.Taint{Key: seed.Pick(r, keys), Value: seed.Pick(r, values), Effect: corev1.TaintEffect(seed.Pick(r, effects))}
	if r.IntN(3) == 0 {
		taint.TimeAdded = &added
	}
	return taint
}

func unique(all []corev1.Taint) []corev1.Taint {
	var kept []corev1.Taint
	for _, taint := range all {
		if !slices.ContainsFunc(kept, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }) {
			kept = append(kept, taint)
		}
	}
	return kept
}

// What most specs are made of. There is so little of it that specs meet each other and the node's taints all the
// time.
var (
	keys    = []string{"a", "a", "b", "example.com/a"}
	values  = []string{"", "1", "2"}
	effects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
)

// What they are made of now and then: the borders of what is allowed, on both sides.
var (
	oddKeys = []string{
		"", "A", "a.b_c-d", "0", "-a", "a-", ".a", "a_", "a b", "a\n", " a", "ä", "a\xff", "a,b", "a*",
		"/a", "a/", "a/b/c", "Example.com/a", "example..com/a", "-example.com/a", "example_com/a", "a//b",
		long("k", 63), long("k", 64), "example.com/" + long("k", 63), "example.com/" + long("k", 64),
		prefix(253) + "/a", prefix(254) + "/a", prefix(253) + "/" + long("k", 63), long("k", 64) + ".com/a",
	}
	oddValues = []string{
		"A", "a.b_c-d", "-1", "1-", ".", "_1", "1=2", "=", "a/b", " ", "1 ", "ä", "\xff", "true", "a,b",
		long("v", 63), long("v", 64),
	}
	oddEffects = []string{"", "noexecute", "NOEXECUTE", "NoEvict", "NoSchedule ", " NoSchedule", "NoScheduleNoAdmit", "NoExecute:NoExecute", "NoExecute="}
)

func long(letter string, length int) string { return strings.Repeat(letter, length) }

// prefix is a DNS subdomain of that length, in labels of up to 63 letters.
func prefix(length int) string {
	return strings.Repeat(long("p", 63)+".", 4)[:length-1] + "q"
}

// oddOr is one of the odd ones in one of so many cases.
func oddOr(r *rand.Rand, oneIn int, usual, odd []string) string {
	if r.IntN(oneIn) == 0 {
		return seed.Pick(r, odd)
	}
	return seed.Pick(r, usual)
}

// spec makes one argument: usually a good one, sometimes one with an odd part, sometimes one with a typing error, and
// sometimes any letters.
func spec(r *rand.Rand) string {
	switch r.IntN(16) {
	case 0, 1:
		return assemble(r, oddOr(r, 2, keys, oddKeys), oddOr(r, 2, values, oddValues), oddOr(r, 2, effects, oddEffects))
	case 2:
		return mistype(r, goodSpec(r))
	case 3:
		return strings.Join(seed.List(r, 8, func(r *rand.Rand) string { return seed.Pick(r, letters) }), "")
	default:
		return goodSpec(r)
	}
}

func goodSpec(r *rand.Rand) string {
	return assemble(r, seed.Pick(r, keys), seed.Pick(r, values), seed.Pick(r, effects))
}

// assemble uses each form of the grammar, those for additions more often.
func assemble(r *rand.Rand, key, value, effect string) string {
	return seed.Pick(r, []string{
		key + "=" + value + ":" + effect,
		key + "=" + value + ":" + effect,
		key + ":" + effect,
		key + ":" + effect,
		key + "-",
		key + ":" + effect + "-",
		key + "=" + value + ":" + effect + "-",
	})
}

// letters are those that mean something in a spec, and some that don't.
var letters = []string{"a", "1", "=", ":", "-", "/", ".", " ", "NoExecute", ":NoExecute", "ä", "\x00"}

// mistype puts something in, leaves something out, or does something twice.
func mistype(r *rand.Rand, spec string) string {
	at := r.IntN(len(spec))
	switch r.IntN(3) {
	case 0:
		return spec[:at] + seed.Pick(r, letters) + spec[at:]
	case 1:
		return spec[:at] + spec[at+1:]
	default:
		return spec[:at] + spec[at:at+1] + spec[at:]
	}
}
