// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func answered(verb, resource, name, user string, object any) Event {
	response, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return Event{Verb: verb, Resource: resource, Name: name, User: user, Code: 200, Response: response}
}

// tainted is a write of node n, in a version of the cluster.
func tainted(version int, keys ...string) Event {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: fmt.Sprint(version)}}
	for _, key := range keys {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	return answered("patch", "nodes", "n", "admin", node)
}

// removed is a delete of a pod on node n that tolerates some taints indefinitely.
func removed(version int, uid, user string, tolerates ...string) Event {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", UID: types.UID(uid), ResourceVersion: fmt.Sprint(version)},
		Spec:       corev1.PodSpec{NodeName: "n"},
	}
	for _, key := range tolerates {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	if version == 0 {
		pod.ResourceVersion = ""
	}
	return answered("delete", "pods", "db-0", user, pod)
}

func TestADeleteIsWrongIfThePodsNodeHadNoTaintThatItDoesNotTolerate(t *testing.T) {
	const builtIn = BuiltInAsServiceAccount
	done := answered("delete", "pods", "db-0", builtIn, metav1.Status{Status: "Success"})
	for name, test := range map[string]struct {
		events []Event
		want   int
	}{
		"tainted":                                               {[]Event{tainted(1, "k"), removed(2, "a", builtIn)}, 0},
		"never tainted":                                         {[]Event{tainted(1), removed(2, "a", builtIn)}, 1},
		"of a node that nobody wrote":                           {[]Event{removed(2, "a", builtIn)}, 1},
		"untainted before":                                      {[]Event{tainted(1, "k"), tainted(2), removed(3, "a", builtIn)}, 1},
		"untainted after":                                       {[]Event{tainted(1, "k"), removed(2, "a", builtIn), tainted(3)}, 0},
		"untainted after, and noted before":                     {[]Event{tainted(1, "k"), tainted(3), removed(2, "a", builtIn)}, 0},
		"tolerated indefinitely":                                {[]Event{tainted(1, "k"), removed(2, "a", builtIn, "k")}, 1},
		"one of two taints tolerated":                           {[]Event{tainted(1, "k", "l"), removed(2, "a", builtIn, "k")}, 0},
		"by somebody who is not asked for":                      {[]Event{tainted(1), removed(2, "a", "admin")}, 0},
		"already deleted by somebody else":                      {[]Event{tainted(1), removed(2, "a", "admin"), removed(2, "a", builtIn)}, 0},
		"the next pod with the name":                            {[]Event{tainted(1, "k"), removed(2, "a", builtIn), tainted(3), removed(4, "b", builtIn)}, 1},
		"untainted before, and gone at once":                    {[]Event{tainted(1, "k"), tainted(2), removed(0, "a", builtIn)}, 1},
		"answered only with a Status that says that it is done": {[]Event{tainted(1), done}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			wrong, err := WrongDeletes(test.events, Event.ByBuiltIn)
			if err != nil || len(wrong) != test.want {
				t.Errorf("%v are wrong (%v), want %d", wrong, err, test.want)
			}
		})
	}
}
