// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package coexist

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/internal/controller/coexist"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// hold is what the leader has recorded of the built-in's backlog. Times are relative to now.
type hold struct {
	since, until time.Duration
	spared       string
}

// With everything, the built-in may mark no pod. With nothing, it may mark every pod.
var (
	everything = hold{since: -time.Hour, until: 5 * time.Minute, spared: "*"}
	nothing    = hold{since: -time.Hour, until: -time.Minute}
)

func (h hold) annotations() map[string]string {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	return map[string]string{
		coexist.BacklogSince: in(h.since), coexist.BacklogUntil: in(h.until), coexist.BacklogSpared: h.spared,
	}
}

// record writes a hold, with a clock that is stale.
func (s *scene) record(t *testing.T, annotations map[string]string) {
	t.Helper()
	await.Must(t, s.setClock(t.Context(), nil))
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	await.Must(t, err)
	_, err = admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem).
		Patch(t.Context(), clockName, types.MergePatchType, patch, metav1.PatchOptions{})
	await.Must(t, err)
}

// wantMark waits until the API server refuses the built-in's mark of a pod, or accepts it. It only makes dry runs.
func (s *scene) wantMark(t *testing.T, pod *corev1.Pod, refused bool) {
	t.Helper()
	const mark = `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}]}}`
	await.Eventually(t, fmt.Sprintf("the mark is refused: %t", refused), func(ctx context.Context) error {
		_, err := admin.CoreV1().Pods(s.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(mark),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		if (err != nil) != refused {
			return fmt.Errorf("it is answered with %w", err)
		}
		return nil
	})
}

// owned gives a pod a controller. The node serves as one, because the garbage collector finds it.
func (s *scene) owned(t *testing.T) func(*corev1.Pod) {
	t.Helper()
	owner, err := admin.CoreV1().Nodes().Get(t.Context(), s.node, metav1.GetOptions{})
	await.Must(t, err)
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: owner.Name, UID: owner.UID, Controller: new(true),
		}}
	}
}

// TestWhileTheBacklogLastsTheBuiltInMayMarkWhatCannotBeAnotherPod asks a real API server about each rule of the policy.
func TestWhileTheBacklogLastsTheBuiltInMayMarkWhatCannotBeAnotherPod(t *testing.T) {
	s := newScene(t)
	s.holdOff(t)

	pod := func(name, generateName string, more ...func(*corev1.Pod)) *corev1.Pod {
		made, err := s.Pod(t.Context(), name, s.node, append(more, func(pod *corev1.Pod) { pod.GenerateName = generateName })...)
		await.Must(t, err)
		return made
	}
	fixed := pod("web-0", "", s.owned(t))
	random := pod("web-x7k2p", "web-", s.owned(t))
	digits := pod("web-24567", "web-", s.owned(t))
	ownerless := pod("web-x7k2q", "web-")
	leaving := pod("web-1", "", s.owned(t), func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/stays"} })
	pods := admin.CoreV1().Pods(s.Namespace)
	await.Must(t, pods.Delete(t.Context(), leaving.Name, metav1.DeleteOptions{}))
	t.Cleanup(func() {
		goes := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := pods.Patch(context.WithoutCancel(t.Context()), leaving.Name, types.MergePatchType, goes, metav1.PatchOptions{})
		await.Must(t, err)
	})
	young := func(until time.Duration, spared string) hold { return hold{-time.Hour, until, spared} }
	old := func(spared string) hold { return hold{time.Minute, 5 * time.Minute, spared} }

	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		hold    hold
		refused bool
	}{
		{"a younger pod whose name comes again", fixed, young(5*time.Minute, ""), true},
		{"one that is older than the storm", fixed, old(""), false},
		{"one that is older than the storm and is terminating", leaving, old(""), true},
		{"one with a random name from its controller", random, young(5*time.Minute, ""), false},
		{"one whose random name is all digits, as a StatefulSet's can be", digits, young(5*time.Minute, ""), true},
		{"one with a random name and no owner", ownerless, young(5*time.Minute, ""), true},
		{"an older pod on a spared node", random, old("other " + s.node), true},
		{"an older pod on a node whose name is only a part of a spared one's", random, old(s.node + "0 0" + s.node), false},
		{"an older pod where all nodes are spared", random, old("*"), true},
		{"at the end of the backlog", fixed, young(-time.Second, "*"), false},
		{"an end that is nearly ten minutes ahead", fixed, young(9*time.Minute+50*time.Second, ""), true},
		{"an end that is more than ten minutes ahead", fixed, young(11*time.Minute, "*"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := everything
			if test.refused {
				before = nothing
			}
			s.record(t, before.annotations())
			s.wantMark(t, test.pod, !test.refused)
			s.record(t, test.hold.annotations())
			s.wantMark(t, test.pod, test.refused)
		})
	}
	for _, name := range []string{coexist.BacklogSince, coexist.BacklogUntil} {
		t.Run("an instant that cannot be read: "+name, func(t *testing.T) {
			s.record(t, everything.annotations())
			s.wantMark(t, fixed, true)
			unreadable := young(5*time.Minute, "").annotations()
			unreadable[name] = "soon"
			s.record(t, unreadable)
			s.wantMark(t, fixed, false)
		})
	}
}
