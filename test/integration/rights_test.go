// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// callsForRules are the calls of our user in the clusters that tests have for rules.
var callsForRules struct {
	sync.Mutex

	all []call
}

// usedElsewhere are rights that test/e2e sees used: those of node health, and that to write the report of shadow mode,
// because a shadow may end here before it first writes.
var usedElsewhere = []string{
	"patch nodes/status", "watch leases in kube-node-lease",
	"patch leases/taintkeeper.dev in kube-node-lease", "get namespaces/kube-node-lease in kube-node-lease",
	"patch configmaps/taintkeeper-shadow in kube-system",
}

// neededElsewhere are rights that this API server does not ask for: unlike older ones, it streams lists by a watch, and
// no event occurs twice in these tests, which would need a patch. Our own Lease, that of a dry run, and the report of
// shadow mode are created by a patch. The API server then asks for the right to create it, too, but the audit log does
// not say so.
var neededElsewhere = []string{
	"list pods", "list nodes", "list namespaces", "list poddisruptionbudgets", "list nodetaintrules",
	"list evictionpolicies",
	"list leases in kube-node-lease", "patch events",
	"create leases/taintkeeper.dev in kube-node-lease", "create leases/dry-run.taintkeeper.dev in kube-node-lease",
	"create configmaps/taintkeeper-shadow in kube-system",
}

// checkRights checks that no right of config/rbac.yaml, which is the chart's, is there for nothing. It can only say so
// after all tests.
func checkRights() error {
	if !suite.Whole() {
		return nil
	}
	calls, err := audit.Events(allowed)
	if err != nil {
		return err
	}
	objects, err := config.Objects(config.RBAC)
	if err != nil {
		return err
	}
	callsForRules.Lock()
	defer callsForRules.Unlock()
	unused := auditlog.UnusedRights(objects, slices.Concat(calls, callsForRules.all))
	known := slices.Concat(usedElsewhere, neededElsewhere)
	unused = slices.DeleteFunc(unused, func(right auditlog.Right) bool { return slices.Contains(known, right.String()) })
	if len(unused) > 0 {
		return fmt.Errorf("charts/taintkeeper/templates/rbac.yaml gives rights that nothing used: %v", unused)
	}
	return nil
}

func allowed(c call) bool { return c.Code != http.StatusForbidden }

// note keeps the calls of a cluster of its own, which ends with its test.
func note(log *auditlog.Log) error {
	calls, err := log.Events(allowed)
	callsForRules.Lock()
	defer callsForRules.Unlock()
	callsForRules.all = append(callsForRules.all, calls...)
	return err
}
