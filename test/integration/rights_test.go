// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/taintkeeper/taintkeeper/config"
	"github.com/taintkeeper/taintkeeper/internal/localcluster"
)

// callsForRules are the calls of our user in the clusters that tests have for rules.
var callsForRules struct {
	sync.Mutex

	all []call
}

// usedByNodeHealth are rights that test/nodehealth sees used.
var usedByNodeHealth = []string{
	"patch nodes/status", "get leases in kube-node-lease", "list leases in kube-node-lease", "watch leases in kube-node-lease",
}

// checkRights checks that no right of config/rbac.yaml, which is the chart's, is there for nothing. It can only say so after
// all tests.
func checkRights() error {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return nil
		}
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
	unused := localcluster.UnusedRights(objects, slices.Concat(calls, callsForRules.all))
	unused = slices.DeleteFunc(unused, func(right localcluster.Right) bool { return slices.Contains(usedByNodeHealth, right.String()) })
	if len(unused) > 0 {
		return fmt.Errorf("charts/taintkeeper/templates/rbac.yaml gives rights that nothing used: %v", unused)
	}
	return nil
}

func allowed(c call) bool { return c.Code != http.StatusForbidden }

// note keeps the calls of a cluster of its own, which ends with its test.
func note(log auditLog) error {
	calls, err := log.Events(allowed)
	callsForRules.Lock()
	defer callsForRules.Unlock()
	callsForRules.all = append(callsForRules.all, calls...)
	return err
}
