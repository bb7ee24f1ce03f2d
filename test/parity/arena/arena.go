// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package arena is where contestants play: virtual time, a process that is started and killed in it, what client-go's
// fake clientset lacks of an API server, and series of random histories, of which the smallest with a fault is shown.
// What happens there, and what the result should be, is up to the packages that play.
package arena

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"github.com/taintkeeper/taintkeeper/test/parity/seed"
)

// Main is the TestMain of a package that plays. It does not return.
func Main(m *testing.M) {
	flag.Parse()
	if n := seed.Count(1); n < 1 {
		fmt.Fprintf(os.Stderr, "-n=%d: ask for at least one history\n", n)
		os.Exit(1)
	}
	klog.SetLogger(logr.Discard())
	// One of client-go's error handlers sleeps until a little after the previous error of the
	// process: another bubble's error, whose virtual time may be ahead by minutes.
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// Epoch is when every synctest bubble begins. All instants of a history count from it.
var Epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Now is the virtual instant, from the beginning of the bubble.
func Now() time.Duration { return time.Since(Epoch) }

// Sleep lets virtual time pass. It is for bubbles only.
func Sleep(d time.Duration) { time.Sleep(d) }

// TakeTime lets virtual time pass in a call that a reactor answers, without holding up other calls.
func TakeTime(client *fake.Clientset, pass func()) {
	client.Unlock()
	defer client.Lock()
	pass()
}
