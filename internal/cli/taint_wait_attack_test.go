// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The pod was there before the command. It has to leave since somebody else has tainted the node, too.
func TestAPodThatWasThereAllAlongIsNotSaidToHaveBeenPutOnTheNode(t *testing.T) {
	playTaint(t, func(s *taintScene) {
		s.later(20*time.Second, func() { s.becomes("n", "m:NoExecute", "node.kubernetes.io/unreachable:NoExecute") })
		err := s.taint("n", "m:NoExecute", "--yes", "--wait", "--timeout", "1m")
		s.mustFail(err, "2 pods have not left")
		if strings.Contains(err.Error(), "put on the nodes meanwhile") {
			s.Errorf("no pod was put on the node, but it is said:\n%v", err)
		}
	}, taintedNode("n"), podOnNode("n", "p"), podOnNode("n", "agent", func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "m", Operator: corev1.TolerationOpExists}}
	}))
}
