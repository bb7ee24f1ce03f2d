// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealth

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func after(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func posted(heartbeat int) *corev1.Node {
	node := nodeWith(map[corev1.NodeConditionType]corev1.ConditionStatus{corev1.NodeReady: corev1.ConditionTrue})
	node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(after(heartbeat))
	return node
}

func wantProbe(t *testing.T, p *probes, now, want int) {
	t.Helper()
	if got := p.of("n", after(now)); !got.Equal(after(want)) {
		t.Errorf("after %d s the last sign of life is at %s, want at %d s", now, got.Sub(noon), want)
	}
}

func TestTheFirstSightOfANodeIsASignOfLife(t *testing.T) {
	p := newProbes(defaultGrace)
	p.heartbeat(posted(-1000), after(5))
	wantProbe(t, p, 10, 5)
}

func TestANodeThatNeverPostedItsStatusCountsFromItsCreation(t *testing.T) {
	p := newProbes(defaultGrace)
	node := nodeWith(nil)
	node.CreationTimestamp = metav1.NewTime(after(-7))
	p.heartbeat(node, after(5))
	wantProbe(t, p, 10, -7)
	p.heartbeat(posted(20), after(21)) // its first status
	wantProbe(t, p, 30, 21)
}

func TestACreationInTheFutureIsNow(t *testing.T) {
	p := newProbes(defaultGrace)
	node := nodeWith(nil)
	node.CreationTimestamp = metav1.NewTime(after(3600))
	p.heartbeat(node, after(5))
	wantProbe(t, p, 10, 5)
}

func TestOnlyAHeartbeatOrARenewalThatIsNewIsASignOfLife(t *testing.T) {
	p := newProbes(defaultGrace)
	p.heartbeat(posted(0), after(0))
	p.heartbeat(posted(0), after(10)) // some other change of the node
	wantProbe(t, p, 10, 0)
	p.heartbeat(posted(20), after(20))
	wantProbe(t, p, 20, 20)
	p.renewed("n", after(30), after(31))
	wantProbe(t, p, 31, 31)
	p.renewed("n", after(30), after(40)) // some other change of the lease
	wantProbe(t, p, 40, 31)
	p.renewed("n", after(29), after(41)) // the kubelet's clock was set back
	wantProbe(t, p, 41, 41)
	p.renewed("n", after(41), after(42))
	wantProbe(t, p, 42, 42)
}

func TestSilenceDoesNotCountWhileNothingCanBeSeen(t *testing.T) {
	p := newProbes(defaultGrace)
	p.renewed("n", after(0), after(0))
	p.cannotSee(after(20))
	wantProbe(t, p, 20, 0)
	p.cannotSee(after(50)) // the next try fails, too
	wantProbe(t, p, 100, 80)
	p.renewed("n", after(101), after(101)) // heard all the same
	wantProbe(t, p, 110, 110)
	p.canSee(after(115))
	wantProbe(t, p, 120, 115)
	p.cannotSee(after(130))
	p.canSee(after(139))
	wantProbe(t, p, 150, 124)
}

func TestAfterALongTimeOfBlindnessKubeletsHaveTimeToFindTheAPIServerAgain(t *testing.T) {
	p := newProbes(defaultGrace)
	p.heartbeat(posted(0), after(0))
	p.cannotSee(after(20))
	p.canSee(after(60))
	wantProbe(t, p, 60, 40) // 20 of 50 s were over, and are
	p.cannotSee(after(80))
	p.canSee(after(90))
	wantProbe(t, p, 90, 60) // 20 s are left, not 10
	p.cannotSee(after(100))
	p.canSee(after(109))
	wantProbe(t, p, 109, 69) // a short time stops the clock, no more
}

func TestAGracePeriodThatIsShorterThanThatBeginsAnew(t *testing.T) {
	p := newProbes(Grace{Monitor: 15 * time.Second, Startup: DefaultStartupGrace})
	p.heartbeat(posted(0), after(0))
	p.cannotSee(after(10))
	p.canSee(after(30))
	wantProbe(t, p, 30, 30)
}

func TestARestartOfAllProbesIsNoSignOfLifeOfANodeThatNeverGaveOne(t *testing.T) {
	p := newProbes(defaultGrace)
	node := nodeWith(nil)
	node.CreationTimestamp = metav1.NewTime(after(0))
	p.heartbeat(node, after(0))
	p.restart(after(30))
	wantProbe(t, p, 31, 0)
	p.renewed("n", after(35), after(35))
	p.restart(after(60))
	wantProbe(t, p, 61, 60)
}

func TestARestartOfAllProbesIsASignOfLifeOfEveryNode(t *testing.T) {
	p := newProbes(defaultGrace)
	p.heartbeat(posted(0), after(0))
	p.renewed("n", after(5), after(5))
	p.restart(after(60))
	wantProbe(t, p, 61, 60)
}
