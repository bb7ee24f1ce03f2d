// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package stops

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// act is what happens to Taintkeeper during a storm.
type act struct {
	name    string
	setting setting
	play    func(s *scene)
	// unprotected says that nothing can keep the built-in from deleting pods that should stay.
	unprotected bool
}

func killed(s *scene) { s.taint(); s.after(3 * time.Second); s.kill() }

func spared(s *scene) { s.taint(); s.untaint(); s.after(5 * time.Second); s.kill() }

// acts are what make stops plays. Each begins when the workload runs.
var acts = []act{
	{name: "the built-in alone", setting: setting{alone: true}, play: func(s *scene) { s.taint() }},
	{name: "clean stop of both replicas once all pods are evicted", setting: setting{due: 80}, play: func(s *scene) {
		s.taint()
		s.evicted()
		s.leaves(20)
		s.stop()
	}},
	{name: "clean stop 0.5 s after the taint", play: func(s *scene) { s.taint(); s.after(500 * time.Millisecond); s.stop() }},
	{name: "both replicas killed after 3 s", play: killed},
	{name: "both replicas of a Deployment's storm killed after 3 s", setting: setting{deployment: true}, play: killed},
	{name: "etcd stands still for 40 s, both replicas run", play: func(s *scene) {
		s.taint()
		s.after(6 * time.Second)
		await.Must(s.t, cluster.Freeze(localcluster.Etcd))
		s.after(46 * time.Second)
		await.Must(s.t, cluster.Thaw(localcluster.Etcd))
	}},
	{name: "untainted at once, clean stop 30 s later", play: func(s *scene) { s.taint(); s.untaint(); s.after(30 * time.Second); s.stop() }},
	{name: "untainted at once, both killed 5 s later", play: spared},
	{name: "a Deployment untainted at once, both killed 5 s later", setting: setting{deployment: true}, play: spared},
	{name: "the leader stands still for 40 s, then both are killed", play: func(s *scene) {
		s.taint()
		s.after(3 * time.Second)
		await.Must(s.t, syscall.Kill(s.replicas[0].PID(), syscall.SIGSTOP))
		s.after(43 * time.Second)
		await.Must(s.t, syscall.Kill(s.replicas[0].PID(), syscall.SIGCONT))
		s.kill()
	}},
	{name: "both killed, and the API server restarts", play: func(s *scene) {
		s.taint()
		s.after(3 * time.Second)
		s.kill()
		s.after(25 * time.Second)
		await.Must(s.t, cluster.KillAPIServer(s.t.Context()))
		await.Must(s.t, cluster.StartAPIServer(s.t.Context()))
	}},
	{
		name: "the replicas' clocks are 5 minutes ahead, both killed after 3 s", setting: setting{ahead: 5 * time.Minute},
		play: killed,
	},
	{
		name: "the replicas' clocks are 5 minutes behind, untainted, clean stop", setting: setting{ahead: -5 * time.Minute},
		play: func(s *scene) { s.taint(); s.untaint(); s.after(5 * time.Second); s.stop() },
	},
	{
		name:    "the API server's clock is 5 minutes behind all others, both killed after 3 s",
		setting: setting{ahead: 5 * time.Minute, managerAhead: 5 * time.Minute},
		play:    killed,
	},
	{
		name:    "the API server's clock is 5 minutes ahead of all others, clean stop after 12 s",
		setting: setting{ahead: -5 * time.Minute, managerAhead: -5 * time.Minute},
		play:    func(s *scene) { s.taint(); s.after(12 * time.Second); s.stop() },
	},
	{name: "shadow mode instead of both replicas, 90 s after an untaint", play: func(s *scene) {
		s.taint()
		s.untaint()
		s.after(90 * time.Second)
		s.loseTheClock() // Helm takes away the rights before the Deployment's pods end
		s.stop()
		s.startShadow()
	}},
	{name: "one replica: rolling update after 5 s, clean stop after 15 s", setting: setting{oneReplica: true}, play: func(s *scene) {
		s.taint()
		s.after(5 * time.Second)
		s.start("second")
		await.Must(s.t, s.replicas[0].Stop())
		s.after(15 * time.Second)
		await.Must(s.t, s.replicas[1].Stop())
	}},
	{name: "the policy is edited three times while the backlog runs, both killed after 3 s", play: func(s *scene) {
		s.taint()
		s.after(3 * time.Second)
		s.kill()
		for _, at := range []time.Duration{35 * time.Second, 45 * time.Second, 55 * time.Second} {
			s.after(at)
			s.editPolicy()
		}
	}},
	{name: "both killed after 3 s, and the policy is deleted for 5 s once the clock is stale", unprotected: true, play: func(s *scene) {
		s.taint()
		s.after(3 * time.Second)
		s.kill()
		s.after(40 * time.Second)
		s.deletePolicy(5 * time.Second)
	}},
	{name: "the right to patch the clock is lost, then a clean stop", play: func(s *scene) {
		s.taint()
		s.after(time.Second)
		s.loseTheClock()
		s.after(12 * time.Second)
		s.stop()
	}},
}

// TestStops plays all acts, and prints a table. Kube-controller-manager is the one and the other of its identities by
// turns.
func TestStops(t *testing.T) {
	fmt.Println("| scene | workload | the built-in is | evictions it began | over after | deleted although they should stay |")
	fmt.Println("| --- | --- | --- | --: | --: | --: |")
	for i, act := range all() {
		if !strings.Contains(act.name, *only) {
			continue
		}
		with := act.setting
		with.due, with.credentials = cmp.Or(with.due, *due), i%2 == 0
		t.Run(act.name, func(t *testing.T) {
			s := newScene(t, with)
			act.play(s)
			is := s.end()
			fmt.Printf("| %s | %s | %s | %d | %v | %d |\n", act.name, with.workload(), with.identity(), is.due, is.took, len(is.wrong))
			if len(is.wrong) > 0 && !act.unprotected {
				t.Errorf("%d, of which one is: %v", len(is.wrong), is.wrong[0])
			}
		})
	}
}
