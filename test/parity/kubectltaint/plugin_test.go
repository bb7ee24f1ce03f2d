// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// invocation is a command as somebody types it after "kubectl taint" or "kubectl taintkeeper taint", and the taints
// that the nodes n1, n2 and n3 have.
type invocation struct {
	Args    []string
	Current [3][]corev1.Taint
}

// aftermath is how it ends.
type aftermath struct {
	Taints  [3][]corev1.Taint
	Failed  bool
	Printed []string // lines of the standard output, sorted
	message string   // of the standard error, for people only
}

// plugins runs both commands with invocations.
type plugins struct {
	t       *testing.T
	server  *server
	url     string
	kubectl func(args []string) (printed, message string, failed bool)
}

func newPlugins(t *testing.T) *plugins {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	s := &server{}
	factory := newFactory(t, s.serve)
	return &plugins{
		t: t, server: s, url: s.listen(t).URL,
		kubectl: func(args []string) (string, string, bool) { return execute(factory, args) },
	}
}

// nodes are n1 and n2 in zone a, and n3 in zone b.
func (in invocation) nodes() []*corev1.Node {
	var nodes []*corev1.Node
	for i, zone := range []string{"a", "a", "b"} {
		node := newNode(fmt.Sprintf("n%d", i+1), in.Current[i])
		node.Labels = map[string]string{"zone": zone}
		nodes = append(nodes, node)
	}
	return nodes
}

// play runs one of the commands on the nodes.
func (p *plugins) play(in invocation, command func(args []string) (printed, message string, failed bool)) aftermath {
	p.server.reset(in.nodes()...)
	printed, message, failed := command(in.Args)
	after := aftermath{Failed: failed, message: message}
	for i, node := range p.server.nodes {
		after.Taints[i] = node.Spec.Taints
	}
	for line := range strings.Lines(printed) {
		after.Printed = append(after.Printed, strings.TrimSpace(line))
	}
	slices.Sort(after.Printed)
	return after
}

// ours is the command of the plugin.
func (p *plugins) ours(args []string) (printed, message string, failed bool) {
	var out, errOut bytes.Buffer
	root := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard},
		Clock:     clock.RealClock{},
	})
	root.SetArgs(append([]string{"taint", "--yes", "--server=" + p.url}, args...))
	failed = cmd.Fail(&errOut, root.ExecuteContext(p.t.Context())) != cmd.ExitOK
	return out.String(), errOut.String(), failed
}

// sameButTimeAdded compares how invocations end. kubectl sets no timeAdded.
var sameButTimeAdded = cmp.Options{
	cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(aftermath{}), cmpopts.IgnoreFields(corev1.Taint{}, "TimeAdded"),
}

func (p *plugins) compare(in invocation) error {
	theirs, ours := p.play(in, p.kubectl), p.play(in, p.ours)
	if diff := cmp.Diff(theirs, ours, sameButTimeAdded); diff != "" {
		return fmt.Errorf("%q (-kubectl +ours):\n%skubectl says: %s\nours says: %s", in.Args, diff, theirs.message, ours.message)
	}
	return checkTimeAdded(in, ours)
}

// checkTimeAdded: on a node that was changed each NoExecute taint that was added has its timeAdded, and every other
// taint the one that it had.
func checkTimeAdded(in invocation, ours aftermath) error {
	for i, all := range ours.Taints {
		name := fmt.Sprintf("n%d", i+1)
		changed := slices.ContainsFunc(ours.Printed, func(line string) bool { return strings.HasPrefix(line, "node/"+name) })
		for _, taint := range all {
			was := slices.IndexFunc(in.Current[i], func(old corev1.Taint) bool { return old.MatchTaint(&taint) && old.Value == taint.Value })
			switch added := changed && in.adds(taint); {
			case added && taint.Effect == corev1.TaintEffectNoExecute && taint.TimeAdded.IsZero():
				return fmt.Errorf("%q: node %s: %s has no timeAdded", in.Args, name, taints.Format(taint))
			case !added && was >= 0 && !taint.TimeAdded.Equal(in.Current[i][was].TimeAdded):
				return fmt.Errorf("%q: node %s: %s has another timeAdded", in.Args, name, taints.Format(taint))
			}
		}
	}
	return nil
}

func (in invocation) adds(taint corev1.Taint) bool {
	return slices.ContainsFunc(in.Args, func(arg string) bool {
		spec, err := taints.Parse(arg)
		return err == nil && spec.MatchTaint(&taint)
	})
}

func TestTheCommandDoesWhatKubectlTaintDoes(t *testing.T) {
	p := newPlugins(t)
	current := [3][]corev1.Taint{
		{{Key: "a", Value: "1", Effect: "NoExecute", TimeAdded: &added}},
		{{Key: "a", Value: "2", Effect: "NoSchedule"}, {Key: "b", Effect: "NoExecute"}},
		nil,
	}
	for _, line := range []string{
		"node n1 k=v:NoExecute",
		"nodes n1 n2 k=v:NoSchedule",
		"nodes n3 k:PreferNoSchedule",
		"Node n3 k:NoExecute",
		"node n1 a:NoExecute-",
		"node n1 n2 a-",
		"node n1 a=1:NoExecute-",
		"node n1 k:NoExecute a-",
		"node n1 a=2:NoExecute",
		"node n1 a=2:NoExecute --overwrite",
		"node n1 a=1:NoExecute --overwrite",
		"node n3 a=2:NoExecute --overwrite",
		"node n1 a- --overwrite",
		"nodes --all k:NoExecute",
		"nodes --all a=3:NoExecute",
		"nodes --all a-",
		"nodes --all a=3:NoExecute --overwrite",
		"nodes -l zone=a k:NoSchedule",
		"nodes -l zone!=a k:NoSchedule",
		"nodes --selector=zone=b k:NoSchedule",
		"nodes -l zone=a --all k:NoSchedule",
		"node n1 b-",
		"node n1 k:NoExecute k:NoExecute-",
		"node n1 k:NoExecute k=1:NoExecute",
		"node n1 k:NoExec",
		"node n1 k",
		"node n1",
		"node k:NoExecute n1",
		"node n1 k:NoExecute --dry-run=none",
		"node n1 k:NoExecute --dry-run=client -o name",
		"node n1 k:NoExecute --dry-run=all",
		"node n1 k:NoExecute -o name",
		"node n1 n3 a=x:NoExecute -o name",
	} {
		t.Run(line, func(t *testing.T) {
			if err := p.compare(invocation{Args: strings.Fields(line), Current: current}); err != nil {
				t.Error(err)
			}
		})
	}
}

// These are different on purpose: kubectl changes what may not have been meant, or does not say what it did.
func TestTheCommandIsClearerThanKubectlTaint(t *testing.T) {
	p := newPlugins(t)
	for line, says := range map[string]string{
		"node n1 n9 k:NoExecute":               `there is no node "n9"`,              // kubectl changes n1
		"node n1 -l zone=b k:NoExecute":        "nodes are selected in several ways", // kubectl changes n3 and not n1
		"node n1 --all k:NoExecute":            "nodes are selected in several ways", // kubectl changes all
		"nodes -l zone=none k:NoExecute":       "no node matches the selector",       // kubectl says nothing, and succeeds
		"node n1 k:NoExecute --dry-run=client": "",                                   // kubectl prints what it prints when the node is tainted
	} {
		t.Run(line, func(t *testing.T) {
			in := invocation{Args: strings.Fields(line)}
			theirs, ours := p.play(in, p.kubectl), p.play(in, p.ours)
			if cmp.Equal(theirs, ours, sameButTimeAdded) {
				t.Error("they do the same")
			}
			if ours.Failed != (says != "") || !strings.Contains(ours.message, says) {
				t.Errorf("ours says: %s", ours.message)
			}
			if diff := cmp.Diff([3][]corev1.Taint{}, ours.Taints, cmpopts.EquateEmpty()); ours.Failed && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheCommandDoesWhatKubectlTaintDoesWithAnything(t *testing.T) {
	p := newPlugins(t)
	seed.Property[invocation]{Usual: 1000, Generate: generateInvocation, Check: p.compare}.Hold(t)
}

// A comparison that finds nothing wrong with a wrong command proves nothing.
func TestAWrongCommandIsFound(t *testing.T) {
	p := newPlugins(t)
	for name, wrong := range map[string]func(args []string) []string{
		"it always overwrites": func(args []string) []string { return append([]string{"--overwrite"}, args...) },
		"it never overwrites": func(args []string) []string {
			return slices.DeleteFunc(args, func(arg string) bool { return arg == "--overwrite" })
		},
		"it leaves out the last word": func(args []string) []string { return args[:len(args)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			seed.Property[invocation]{Generate: generateInvocation, Check: func(in invocation) error {
				theirs, ours := p.play(in, p.kubectl), p.play(in, func(args []string) (string, string, bool) { return p.ours(wrong(slices.Clone(args))) })
				if diff := cmp.Diff(theirs, ours, sameButTimeAdded); diff != "" {
					return fmt.Errorf("%s", diff)
				}
				return nil
			}}.MustFind(t, 300)
		})
	}
}

func generateInvocation(r *rand.Rand) invocation {
	in := invocation{}
	for i := range in.Current {
		in.Current[i] = unique(seed.List(r, 3, currentTaint))
	}
	in.Args = append(in.Args, seed.Pick(r, []string{"node", "nodes", "Node"}))
	in.Args = append(in.Args, seed.Pick(r, [][]string{{"n1"}, {"n2"}, {"n3", "n1"}, {"n1", "n2", "n3"}, {"--all"}, {"-l", "zone=a"}, {"--selector=zone in (b)"}})...)
	if r.IntN(2) == 0 {
		in.Args = append(in.Args, "--overwrite")
	}
	in.Args = append(in.Args, "--")
	specs := seed.List(r, 3, spec)
	if !namesAnotherNode(specs) {
		in.Args = append(in.Args, specs...)
	}
	return in
}
