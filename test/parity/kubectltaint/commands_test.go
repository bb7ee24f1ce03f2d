// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	restfake "k8s.io/client-go/rest/fake"
	kubectltaint "k8s.io/kubectl/pkg/cmd/taint"
	cmdtesting "k8s.io/kubectl/pkg/cmd/testing"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/scheme"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// outcome is how a command ends.
type outcome struct {
	Taints  [3][]corev1.Taint
	Failed  bool
	Printed []string // lines of the standard output, sorted
	message string   // of the standard error, for people only
}

// runner runs a command with arguments.
type runner func(args []string) (printed, message string, failed bool)

// commands runs both commands.
type commands struct {
	server        *server
	kubectl, ours runner
}

// fatal is what a command of kubectl panics with where kubectl would end.
type fatal struct{ message string }

func newCommands(t *testing.T) *commands {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	s := &server{}

	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(fatal{message}) })
	t.Cleanup(cmdutil.DefaultBehaviorOnFatal)
	factory := cmdtesting.NewTestFactory()
	t.Cleanup(factory.Cleanup)
	factory.ClientConfigVal = cmdtesting.DefaultClientConfig()
	factory.Client = &restfake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		GroupVersion:         corev1.SchemeGroupVersion,
		Client:               restfake.CreateHTTPClient(s.serve),
	}

	listening := httptest.NewServer(s)
	listening.Config.SetKeepAlivesEnabled(false) // each command makes a client of its own
	t.Cleanup(listening.Close)
	ours := func(args []string) (string, string, bool) {
		var out, errOut bytes.Buffer
		root := cmd.New(cmd.Env{
			IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard},
			Clock:     clock.RealClock{},
		})
		root.SetArgs(append([]string{"taint", "--yes", "--server=" + listening.URL}, args...))
		failed := cmd.Fail(&errOut, root.ExecuteContext(t.Context())) != cmd.ExitOK
		return out.String(), errOut.String(), failed
	}
	return &commands{s, func(args []string) (string, string, bool) { return runKubectl(factory, args) }, ours}
}

func runKubectl(factory cmdutil.Factory, args []string) (printed, message string, failed bool) {
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case fatal:
			printed, message, failed = out.String(), ended.message, true
		default:
			panic(ended)
		}
	}()
	cmd := kubectltaint.NewCmdTaint(factory, streams)
	cmd.SilenceUsage = true
	cmd.SetErr(errOut)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), errOut.String(), err != nil
}

// play runs one of the commands on n1 and n2 in zone a, and n3 in zone b.
func (c *commands) play(in command, run runner) outcome {
	c.server.nodes = nil
	for i, zone := range []string{"a", "a", "b"} {
		name := fmt.Sprintf("n%d", i+1)
		c.server.nodes = append(c.server.nodes, &corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{"zone": zone},
			},
			Spec: corev1.NodeSpec{Taints: in.Current[i]},
		})
	}
	printed, message, failed := run(in.Args)
	after := outcome{Failed: failed, message: message}
	for i, node := range c.server.nodes {
		after.Taints[i] = node.Spec.Taints
	}
	for line := range strings.Lines(printed) {
		after.Printed = append(after.Printed, strings.TrimSpace(line))
	}
	slices.Sort(after.Printed)
	return after
}

// sameButTimeAdded compares outcomes. kubectl sets no timeAdded.
var sameButTimeAdded = cmp.Options{
	cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(outcome{}), cmpopts.IgnoreFields(corev1.Taint{}, "TimeAdded"),
}

// compare compares kubectl with another command.
func (c *commands) compare(in command, run runner) error {
	theirs, ours := c.play(in, c.kubectl), c.play(in, run)
	if diff := cmp.Diff(theirs, ours, sameButTimeAdded); diff != "" {
		return fmt.Errorf("%q (-kubectl +ours):\n%skubectl says: %s\nours says: %s", in.Args, diff, theirs.message, ours.message)
	}
	return checkTimeAdded(in, ours)
}

// checkTimeAdded: on a node that was changed each NoExecute taint that was added has its timeAdded, and every other
// taint the one that it had.
func checkTimeAdded(in command, ours outcome) error {
	for i, all := range ours.Taints {
		name := fmt.Sprintf("n%d", i+1)
		changed := !slices.Contains(in.Args, "--dry-run=client") &&
			slices.ContainsFunc(ours.Printed, func(line string) bool { return strings.HasPrefix(line, "node/"+name) })
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

func (c command) adds(taint corev1.Taint) bool {
	return slices.ContainsFunc(c.Args, func(arg string) bool {
		spec, err := taints.Parse(arg)
		return err == nil && spec.MatchTaint(&taint)
	})
}

func (c *commands) property(run runner) seed.Property[command] {
	return seed.Property[command]{Usual: 1000, Generate: generateCommand, Check: func(in command) error { return c.compare(in, run) }}
}

func TestTheCommandDoesWhatKubectlTaintDoesWithAnything(t *testing.T) {
	c := newCommands(t)
	c.property(c.ours).Hold(t)
}

// These are mistakes that the generator does not make, and words in another order.
func TestTheCommandDoesWhatKubectlTaintDoes(t *testing.T) {
	c := newCommands(t)
	for _, line := range []string{
		"node n1 k=v:NoExecute",
		"node n1 a=2:NoExecute --overwrite",
		"node n1 a- --overwrite",
		"node n1 k",
		"node n1",
		"node k:NoExecute n1",
		"node n1 k:NoExecute --dry-run=all",
	} {
		t.Run(line, func(t *testing.T) {
			in := command{Args: strings.Fields(line)}
			in.Current[0] = []corev1.Taint{{Key: "a", Value: "1", Effect: "NoExecute", TimeAdded: &added}}
			if err := c.compare(in, c.ours); err != nil {
				t.Error(err)
			}
		})
	}
}

// These are different on purpose: kubectl changes what may not have been meant, or does not say what it did.
func TestTheCommandIsClearerThanKubectlTaint(t *testing.T) {
	c := newCommands(t)
	for line, says := range map[string]string{
		"node n1 n9 k:NoExecute":               `there is no node "n9"`,              // kubectl changes n1
		"node n1 -l zone=b k:NoExecute":        "nodes are selected in several ways", // kubectl changes n3 and not n1
		"node n1 --all k:NoExecute":            "nodes are selected in several ways", // kubectl changes all
		"nodes -l zone=none k:NoExecute":       "no node matches the selector",       // kubectl says nothing, and succeeds
		"node n1 k:NoExecute --dry-run=client": "",                                   // kubectl prints what it prints when the node is tainted
	} {
		t.Run(line, func(t *testing.T) {
			in := command{Args: strings.Fields(line)}
			theirs, ours := c.play(in, c.kubectl), c.play(in, c.ours)
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

// A comparison that finds nothing wrong with a wrong command proves nothing.
func TestAWrongCommandIsFound(t *testing.T) {
	c := newCommands(t)
	for name, wrong := range map[string]func(args []string) []string{
		"it always overwrites":        func(args []string) []string { return append([]string{"--overwrite"}, args...) },
		"it leaves out the last word": func(args []string) []string { return args[:len(args)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			c.property(func(args []string) (string, string, bool) { return c.ours(wrong(slices.Clone(args))) }).MustFind(t, 300)
		})
	}
}
