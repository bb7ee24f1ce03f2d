// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command taintkeeper is the controller process. It makes pods leave nodes whose NoExecute taints they do not
// tolerate, beside kube-controller-manager's taint-eviction-controller or in its place, and taints nodes that are
// not healthy, instead of its node-lifecycle-controller. Next to either it taints nodes by NodeTaintRules.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set when the binary is linked.
var version = "(devel)"

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "taintkeeper: %v\n", err)
		os.Exit(1)
	}
}
