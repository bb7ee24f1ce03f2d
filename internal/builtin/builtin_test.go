// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/internal/builtin"
)

func TestOnlyTheFlagsThatSayWhatItRunsAreKept(t *testing.T) {
	for name, test := range map[string]struct {
		container corev1.Container
		want      []string
	}{
		"with a path":                 {corev1.Container{Name: "c", Command: []string{"/usr/bin/kube-controller-manager", "--controllers=*", "--kubeconfig=secret"}}, []string{"kube-controller-manager", "--controllers=*"}},
		"behind a shell's arguments":  {corev1.Container{Command: []string{"/go-runner"}, Args: []string{"kube-controller-manager", "--controllers", "a"}}, []string{"kube-controller-manager", "--controllers", "a"}},
		"which Lease is its leader's": {corev1.Container{Command: []string{"kube-controller-manager", "--leader-elect-resource-namespace=control", "--leader-elect-lease-duration=9s"}}, []string{"kube-controller-manager", "--leader-elect-resource-namespace=control"}},
		"an image's entrypoint":       {corev1.Container{Name: "kube-controller-manager", Args: []string{"--controllers=*"}}, []string{"kube-controller-manager", "--controllers=*"}},
		"what was kept before":        {corev1.Container{Name: "c", Command: []string{"kube-controller-manager", "--controllers=*"}}, []string{"kube-controller-manager", "--controllers=*"}},
		"a program of a user":         {corev1.Container{Name: "c", Command: []string{"serve", "--controllers=*", "--password=x"}}, nil},
		"ours":                        {corev1.Container{Name: "taintkeeper", Command: []string{"taintkeeper", "--controllers=*"}}, nil},
		"a flag is no program":        {corev1.Container{Name: "c", Command: []string{"serve", "--kubeconfig=/etc/kube-controller-manager"}}, nil},
		"a name alone is no program":  {corev1.Container{Name: "kube-controller-manager", Command: []string{"sleep", "--controllers=*"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := builtin.CommandOf(&test.container); !slices.Equal(got, test.want) {
				t.Errorf("kept %q, want %q", got, test.want)
			}
		})
	}
}

func TestTheFirstItemThatNamesAControllerDecides(t *testing.T) {
	for flags, want := range map[string]bool{
		"":                           true,
		"--controllers=*":            true,
		"--controllers=*,deployment": true,
		"--controllers=*,-node-lifecycle-controller":                               false,
		"--controllers *,-node-lifecycle-controller":                               false, // in two words
		"--controllers=*,-nodelifecycle":                                           false, // its name until 1.28
		"--controllers=nodelifecycle":                                              true,
		"--controllers=deployment":                                                 false,
		"--controllers=-node-lifecycle-controller,node-lifecycle-controller":       false,
		"--controllers=* --controllers=*,-node-lifecycle-controller --v=2 --other": false, // the last list counts
	} {
		words := append([]string{builtin.Program}, strings.Fields(flags)...)
		if got := builtin.NodeLifecycle.RunsWith(words); got != want {
			t.Errorf("%q: it runs: %t, want %t", flags, got, want)
		}
	}
}

func running(words ...string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar"}, {Name: "c", Command: words}}}}
}

func TestTheFlagsOfPodsSayWhichLeaseTheirReplicasUse(t *testing.T) {
	over := running("kube-controller-manager", "--leader-elect-resource-name=a")
	over.Status.Phase = corev1.PodFailed
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"without flags":              {running("kube-controller-manager"), "kube-controller-manager in "},
		"both flags":                 {running("kube-controller-manager", "--leader-elect-resource-name=a", "--leader-elect-resource-namespace=b"), "a in b"},
		"a flag without a value":     {running("kube-controller-manager", "--leader-elect-resource-name="), "kube-controller-manager in "},
		"of another program":         {running("taintkeeper", "--leader-elect-resource-name=a"), "kube-controller-manager in "},
		"of a pod that has finished": {over, "kube-controller-manager in "},
	} {
		lease, namespace := builtin.Election([]*corev1.Pod{test.pod})
		if got := lease + " in " + namespace; got != test.want {
			t.Errorf("%s: the Lease is %q, want %q", name, got, test.want)
		}
	}
}

func TestTheLastWriteOfAManagerCounts(t *testing.T) {
	at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	entry := func(manager, fields string, after time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: new(metav1.NewTime(at.Add(after))), FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const taints, conditions = `{"f:spec":{"f:taints":{}}}`, `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{}}}}`
	entries := []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", conditions, 2*time.Second), entry("kube-controller-manager", taints, time.Second),
		entry("kube-controller-manager", `{"f:metadata":{"f:annotations":{}}}`, 3*time.Second), entry("kubectl-taint", taints, 4*time.Second),
		{Manager: "kube-controller-manager"}, {Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(taints)},
	}
	if got := builtin.LastWrite(entries, builtin.Program, builtin.Taints, builtin.Conditions); !got.Equal(at.Add(2 * time.Second)) {
		t.Errorf("it last wrote at %v", got)
	}
	if got := builtin.LastWrite(entries, builtin.Program, builtin.Taints); !got.Equal(at.Add(time.Second)) {
		t.Errorf("it last wrote taints at %v", got)
	}
	if got := builtin.LastWrite(entries, "taintkeeper", builtin.Taints); !got.IsZero() {
		t.Errorf("another manager wrote at %v", got)
	}
}
