// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
)

// down tells what happens to held pods while Taintkeeper is not running. It is not safe for concurrent use.
type down struct {
	client  kubernetes.Interface
	binding string    // for ifDown: Hold; empty where the built-in does not run
	looked  time.Time // when the API server last said whether the binding exists
	exists  bool
}

// lookDownEvery is how often the binding is looked up, at most.
const lookDownEvery = time.Minute

// builtInEvicts begins the messages about policies whose pods the built-in would evict.
const builtInEvicts = "While Taintkeeper is not running, the built-in controller evicts the selected pods when they are due"

// look finds out whether the binding exists. If the API server does not say, the last answer remains valid.
func (d *down) look(ctx context.Context, now time.Time) {
	if d.binding == "" || now.Sub(d.looked) < lookDownEvery {
		return
	}
	ctx, cancel := apicall.InFlight(ctx)
	defer cancel()
	bindings := d.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := bindings.Get(ctx, d.binding, metav1.GetOptions{})
	if err == nil || apicall.IsNotFound(err) {
		d.exists, d.looked = err == nil, now
	}
}

// says returns whether the pods that a policy holds would stay if Taintkeeper died, with the reason and the message of
// condition HeldWhenDown.
func (d *down) says(p followed) (held bool, reason, message string) {
	switch {
	case d.binding == "":
		return true, "BuiltInOff", "Nothing else evicts while Taintkeeper is not running."
	case p.DryRun:
		return false, "DryRun", builtInEvicts + ", because dryRun is true."
	case p.IfDown != v1alpha1.IfDownHold:
		return false, "BuiltInWouldEvict", builtInEvicts + ". To keep them, set ifDown to Hold."
	case !d.exists:
		return false, "NoAdmissionPolicy", fmt.Sprintf(builtInEvicts+", "+
			"because ValidatingAdmissionPolicyBinding %s does not exist. Apply config/coexistence.yaml, or the chart of this version.", d.binding)
	}
	return true, "AdmissionPolicy", fmt.Sprintf("ValidatingAdmissionPolicy %s keeps the built-in controller from evicting the selected pods.", d.binding)
}
