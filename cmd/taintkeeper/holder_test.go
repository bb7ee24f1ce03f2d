// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/taintkeeper/taintkeeper/internal/cluster/podcache"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

const releaseNamespace = "taintkeeper"

// standby is a replica that stands by, and its cluster.
type standby struct {
	api      *fake.Clientset
	registry *prometheus.Registry
	elected  chan struct{}
}

func replicaPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
}

// newStandby runs a replica on a host, in a cluster with the pods here (the replica), there and failed.
func newStandby(t *testing.T, host, holder string) *standby {
	t.Helper()
	failed := replicaPod(releaseNamespace, "failed")
	failed.Status.Phase = corev1.PodFailed
	s := &standby{
		api: fake.NewClientset(
			replicaPod(releaseNamespace, "here"), replicaPod(releaseNamespace, "there"), failed,
			replicaPod("elsewhere", "stranger"),
			&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: "taintkeeper"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
			}),
		registry: prometheus.NewRegistry(),
		elected:  make(chan struct{}),
	}
	o := parse(t, "--leader-elect-resource-namespace="+releaseNamespace)
	standing, err := newStanding(s.registry, o)
	if err != nil {
		t.Fatal(err)
	}
	pods := podcache.New(s.api, &timeline.Clock{})
	bubble.Run(t, "the watch of pods", pods.Run)
	watch := fakeClients(t, s.api).newHolderWatch(pods, standing.holderUnknown, logr.Discard(), o)
	watch.host, watch.elected = host, s.elected
	bubble.Run(t, "the watch of the holder", watch.Run)
	return s
}

// holds makes another identity hold the Lease.
func (s *standby) holds(t *testing.T, identity string) {
	t.Helper()
	leases := s.api.CoordinationV1().Leases(releaseNamespace)
	lease, err := leases.Get(t.Context(), "taintkeeper", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease.Spec.HolderIdentity = &identity
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// check checks what the replica reports about the holder.
func (s *standby) check(t *testing.T, when string, unknown bool, events int) {
	t.Helper()
	if got := valueOf(t, s.registry, "taintkeeper_lease_holder_unknown") == 1; got != unknown {
		t.Errorf("%s: the holder is unknown: %t, want %t", when, got, unknown)
	}
	list, err := s.api.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != events {
		t.Errorf("%s: %d events, want %d", when, len(list.Items), events)
	}
}

func TestAStandbyReportsAHolderThatIsNotALiveReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStandby(t, "here", "stranger_made-up")
		bubble.Pass(29 * time.Second)
		s.check(t, "within twice the lease duration", false, 0)
		bubble.Pass(2 * time.Second)
		s.check(t, "after it", true, 1)
		list, err := s.api.CoreV1().Events(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range list.Items {
			if about := event.InvolvedObject; event.Type != corev1.EventTypeWarning || about.Kind != "Lease" || about.Name != "taintkeeper" {
				t.Errorf("the event is %s, about %s %s", event.Type, about.Kind, about.Name)
			}
		}
		bubble.Pass(time.Hour)
		s.check(t, "an hour later", true, 1)
		s.holds(t, "there_1")
		bubble.Pass(15 * time.Second)
		s.check(t, "a replica holds it again", false, 1)
	})
}

func TestAHolderThatIsKnownOrCannotBeJudgedIsNotReported(t *testing.T) {
	for name, test := range map[string]struct {
		host, holder string
		unknown      bool
	}{
		"another replica leads":                  {"here", "there_1", false},
		"no replica holds the Lease":             {"here", "", false},
		"this replica runs outside":              {"laptop", "stranger_1", false},
		"a pod of another namespace":             {"here", "stranger_1", true},
		"another identity of this replica's pod": {"here", "here_1", true},
		"a pod that has failed":                  {"here", "failed_1", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStandby(t, test.host, test.holder)
				bubble.Pass(time.Minute)
				events := 0
				if test.unknown {
					events = 1
				}
				s.check(t, "after a minute", test.unknown, events)
			})
		})
	}
}

func TestAChangeOfLeadersIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStandby(t, "here", "gone_1")
		bubble.Pass(20 * time.Second) // seen twice: its Lease lapses
		s.holds(t, "there_1")
		bubble.Pass(20 * time.Second)
		s.holds(t, "gone_2")
		bubble.Pass(20 * time.Second)
		s.check(t, "after two changes", false, 0)
	})
}

func TestALeaderDoesNotLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStandby(t, "here", "stranger_made-up")
		bubble.Pass(40 * time.Second)
		s.check(t, "standing by", true, 1)
		close(s.elected)
		bubble.Pass(time.Second)
		s.check(t, "leading", false, 1)
		s.api.ClearActions()
		bubble.Pass(time.Hour)
		for _, action := range s.api.Actions() {
			if action.GetResource().Resource == "leases" {
				t.Errorf("a leader still looks: %s", action.GetVerb())
			}
		}
	})
}
