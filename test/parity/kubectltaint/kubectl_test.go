// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectltaint

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest/fake"
	"k8s.io/kubectl/pkg/cmd/taint"
	cmdtesting "k8s.io/kubectl/pkg/cmd/testing"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/scheme"

	"github.com/taintkeeper/taintkeeper/taints"
)

const nodeName = "node-1"

// kubectl runs real kubectl taint commands in this process, one after the other. The server that they talk to has one
// node.
type kubectl struct {
	factory *cmdtesting.TestFactory
	server  *server
}

// fatal is what a command panics with where kubectl would end.
type fatal struct{ message string }

func newKubectl(t *testing.T) *kubectl {
	t.Helper()
	s := &server{}
	return &kubectl{newFactory(t, s.serve), s}
}

// newFactory makes what a kubectl command needs, with an API server that is a function.
func newFactory(t *testing.T, serve func(*http.Request) (*http.Response, error)) *cmdtesting.TestFactory {
	t.Helper()
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(fatal{message}) })
	t.Cleanup(cmdutil.DefaultBehaviorOnFatal)
	factory := cmdtesting.NewTestFactory()
	t.Cleanup(factory.Cleanup)
	factory.ClientConfigVal = cmdtesting.DefaultClientConfig()
	factory.Client = &fake.RESTClient{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		GroupVersion:         corev1.SchemeGroupVersion,
		Client:               fake.CreateHTTPClient(serve),
	}
	return factory
}

// step is how far a command gets.
type step string

const (
	// refusedUnseen: what it asks for makes no sense, whatever the node has.
	refusedUnseen step = "refused before the node is looked at"
	// refusedExisting: it would overwrite a taint and may not.
	refusedExisting step = "refused because a taint is there"
	// refusedMissing: it removes a taint that is not there.
	refusedMissing step = "refused because a taint is not there"
	done           step = "done"
)

// outcome is how a command ends.
type outcome struct {
	Step step
	// Taints are the node's when it is done.
	Taints []corev1.Taint
	// message is what the user is told, for people only.
	message string
}

// run carries out the command. An error means that kubectl did something that this test knows nothing about.
func (k *kubectl) run(c command) (outcome, error) {
	k.server.reset(newNode(nodeName, c.Current))
	_, message, failed := execute(k.factory, arguments(c))
	switch {
	case failed && k.server.patched:
		return outcome{}, fmt.Errorf("kubectl changed the node and failed: %s", message)
	case !failed && !k.server.patched:
		return outcome{}, fmt.Errorf("kubectl neither failed nor changed the node: %s", message)
	case !failed:
		return outcome{Step: done, Taints: k.server.nodes[0].Spec.Taints}, nil
	case !k.server.asked:
		return outcome{Step: refusedUnseen, message: message}, nil
	case strings.Contains(message, "--overwrite is false"):
		return outcome{Step: refusedExisting, message: message}, nil
	case strings.Contains(message, "not found"):
		return outcome{Step: refusedMissing, message: message}, nil
	}
	return outcome{}, fmt.Errorf("kubectl failed for a reason of its own: %s", message)
}

// execute tells what kubectl wrote to the standard output and the standard error, and whether it ended with an error.
func execute(factory cmdutil.Factory, args []string) (printed, message string, failed bool) {
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
	cmd := taint.NewCmdTaint(factory, streams)
	cmd.SilenceUsage = true
	cmd.SetErr(errOut)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), errOut.String(), err != nil
}

// arguments has a "--" before the specs, so that none of them is parsed as a flag.
func arguments(c command) []string {
	args := []string{"node", nodeName}
	if c.Policy == taints.OverwriteExisting {
		args = append(args, "--overwrite")
	}
	return append(append(args, "--"), c.Specs...)
}
