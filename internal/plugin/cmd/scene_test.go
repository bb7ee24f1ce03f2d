// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/command"
	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
	"github.com/taintkeeper/taintkeeper/internal/plugin/state"
)

// virtualStart is when virtual time begins.
var virtualStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// The resources that scenes change.
var (
	nodesResource  = corev1.SchemeGroupVersion.WithResource("nodes")
	podsResource   = corev1.SchemeGroupVersion.WithResource("pods")
	leasesResource = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// scene is a cluster in virtual time, and what a command prints.
type scene struct {
	*testing.T

	client   *fake.Clientset
	dynamic  *dynamicfake.FakeDynamicClient // EvictionPolicies
	in       string
	out, err transcript
}

// transcript is the output of a command, which can be read while the command runs.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *transcript) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(data)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// take returns the output since the last call.
func (t *transcript) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.text.Reset()
	return t.text.String()
}

// play runs a scene with some objects.
func play(t *testing.T, act func(*scene), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		kinds := map[schema.GroupVersionResource]string{source.EvictionPolicies: "EvictionPolicyList"}
		act(&scene{
			T: t, client: fake.NewClientset(objects...),
			dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds),
		})
	})
}

// env is what the program gives to a command.
func (s *scene) env() command.Env {
	return command.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(s.in), Out: &s.out, ErrOut: &s.err},
		Clock:     clock.RealClock{}, // virtual time
	}
}

func (s *scene) reader() *source.Reader {
	s.Helper()
	scheme := metadatafake.NewTestScheme()
	s.must(metav1.AddMetaToScheme(scheme))
	return source.NewReader("https://example.com", s.client, s.dynamic, metadatafake.NewSimpleMetadataClient(scheme), show.NewProgress(s.env()))
}

// put creates an object, or replaces it.
func (s *scene) put(resource schema.GroupVersionResource, object runtime.Object, namespace string) {
	s.Helper()
	err := s.client.Tracker().Create(resource, object, namespace)
	if apierrors.IsAlreadyExists(err) {
		err = s.client.Tracker().Update(resource, object, namespace)
	}
	if err != nil {
		s.Error(err)
	}
}

func (s *scene) remove(resource schema.GroupVersionResource, namespace, name string) {
	s.Helper()
	if err := s.client.Tracker().Delete(resource, namespace, name); err != nil {
		s.Error(err)
	}
}

// policy creates an EvictionPolicy.
func (s *scene) policy(name string, spec map[string]any) {
	s.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "taintkeeper.dev/v1alpha1", "kind": "EvictionPolicy", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	_, err := s.dynamic.Resource(source.EvictionPolicies).Create(s.Context(), object, metav1.CreateOptions{})
	s.must(err)
}

// mustSay fails unless a text has all parts.
func (s *scene) mustSay(text string, parts ...string) {
	s.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			s.Errorf("%q is not said, but\n%s", part, text)
		}
	}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%v\n%s", err, s.err.String())
	}
}

func (s *scene) mustFail(err error, parts ...string) {
	s.Helper()
	if err == nil {
		s.Fatal("there is no error")
	}
	s.mustSay(err.Error(), parts...)
}

// later calls a function after the given time.
func (s *scene) later(after time.Duration, do func()) {
	timer := time.AfterFunc(after, do)
	s.Cleanup(func() { timer.Stop() })
}

func TestTheHelpNamesEveryKindInASnapshot(t *testing.T) {
	help := strings.ToLower(newSnapshot(command.Env{}, genericclioptions.NewConfigFlags(false)).Long)
	for _, kind := range state.Kinds {
		if !strings.Contains(help, kind.Resource) {
			t.Errorf("the help does not name %s", kind.Resource)
		}
	}
}

func TestPodsAreCompletedFromFiles(t *testing.T) {
	s := &source.Source{Config: genericclioptions.NewConfigFlags(true)}
	s.Files.Filenames = []string{"../../../examples/cluster.yaml"}
	*s.Config.Namespace = "payments"
	words, _ := completePods(s)(nil, nil, "led")
	if diff := cmp.Diff([]string{"ledger-84d7f6c9b-bbbbb"}, words[:min(len(words), 1)]); diff != "" {
		t.Error(diff)
	}
	if words, _ := completePods(s)(nil, nil, "checkout"); len(words) > 0 {
		t.Errorf("%s are of another namespace", words)
	}
	if words, _ := completePods(s)(nil, []string{"p"}, "led"); len(words) > 0 {
		t.Errorf("%s come behind the one pod", words)
	}
}

func TestBudgetsThatAreNotKnownFailThoseWhoAskForThem(t *testing.T) {
	for name, test := range map[string]struct {
		asks    failOnFlag
		unknown bool
		fails   bool
	}{
		"they are known":          {failOnFlag{command.Budget}, false, false},
		"they are not known":      {failOnFlag{command.LostWorkload, command.Budget}, true, true},
		"nobody asks for budgets": {failOnFlag{command.LostWorkload}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.asks.CheckBudgets(test.unknown); (err != nil) != test.fails {
				t.Errorf("the error is %v, want one: %t", err, test.fails)
			}
		})
	}
}
