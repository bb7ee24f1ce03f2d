// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	rig "github.com/taintkeeper/taintkeeper/test/rig/kubelets"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// cast is what runs in some stories: controllers of kube-controller-manager, and Taintkeeper.
type cast struct {
	// without are controllers that kube-controller-manager leaves out, each after a comma and a minus.
	without string
	// config is how Taintkeeper runs; without it, it does not run from the start.
	config *localcluster.TaintkeeperConfig
}

// stage is where a cast plays.
type stage struct {
	*Real

	started time.Time
}

// Started implements what [ExtraGraceOver] wants.
func (s stage) Started() time.Time { return s.started }

// Machines implements what the steps about machines want.
func (stage) Machines() *rig.Rig { return machines }

// Objects implements what the steps about policies want.
func (stage) Objects() client.Client { return objects }

// play plays stories with a cast: first side by side, then those that must be alone. Afterwards, it checks what must be
// true of all calls.
func play(t *testing.T, with cast, stories ...Scenario) {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
	began := time.Now()
	manager := localcluster.ControllerManagerConfig{}
	if with.without != "" {
		manager.Args = []string{"--controllers=" + with.without}
	}
	await.Must(t, cluster.RestartControllerManager(t.Context(), manager))
	if with.config != nil {
		startKeeper(t, *with.config)
	}
	on := stage{onStage, time.Now()}
	for _, alone := range []bool{false, true} {
		t.Run(map[bool]string{true: "alone", false: "together"}[alone], func(t *testing.T) {
			for i, s := range stories {
				if s.Alone == alone {
					t.Run(s.Name, func(t *testing.T) {
						if !alone {
							t.Parallel()
						}
						playStory(t, on, fmt.Sprintf("%s-%d", namespaceOf(t), i), s)
					})
				}
			}
		})
	}
	checkCalls(t, began)
}

func playStory(t *testing.T, on stage, namespace string, s Scenario) {
	t.Helper()
	found, err := Run(t.Context(), on, namespace, s)
	if err != nil || !found.Right {
		t.Errorf("%v, %v", found, err)
	}
	t.Log(found.Seen)
}

// namespaceOf makes a prefix of namespaces from the name of a test.
func namespaceOf(t *testing.T) string {
	t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(t.Name(), "Test"), "/")
	return strings.ToLower(name)
}

// startKeeper starts Taintkeeper until the test ends.
func startKeeper(t *testing.T, config localcluster.TaintkeeperConfig) {
	t.Helper()
	config.Binary = keeper
	started, err := cluster.StartTaintkeeper(t.Context(), config)
	await.Must(t, err)
	t.Cleanup(func() { await.Must(t, started.Stop()) })
}

// checkCalls checks that the rights of Taintkeeper suffice, that it deletes no pod twice, and that nothing keeps a
// kubelet from reporting what pods do.
func checkCalls(t *testing.T, began time.Time) {
	t.Helper()
	calls, err := onStage.Calls(auditlog.Since(began))
	await.Must(t, err)
	auditlog.CheckSteps(t, calls)
	for _, c := range calls {
		if c.Code == http.StatusForbidden {
			t.Errorf("config/rbac.yaml does not suffice: %v", c)
		}
	}
	patches, err := onStage.CallsByAll(auditlog.Since(began), auditlog.StatusPatches, auditlog.Refused, func(c auditlog.Event) bool {
		return strings.HasPrefix(c.User, "system:node:") && c.Code == http.StatusForbidden
	})
	await.Must(t, err)
	for _, c := range patches {
		t.Errorf("a kubelet may not report: %v", c)
	}
}
