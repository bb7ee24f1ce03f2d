// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command taintkeeper is the controller process. It evicts pods from nodes whose NoExecute taints they do not
// tolerate, alongside kube-controller-manager's taint-eviction-controller or instead of it, and taints nodes that are
// not healthy, instead of its node-lifecycle-controller. It also taints nodes according to NodeTaintRules.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set at link time.
var version = "(devel)"

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "taintkeeper: %v\n", err)
		os.Exit(1)
	}
}
