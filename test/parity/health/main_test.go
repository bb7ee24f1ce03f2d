// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

var (
	count = flag.Int("n", 300, "how many histories TestHistories plays")
	seed  = flag.Uint64("seed", 1, "the seed from which the histories are made")
	only  = flag.Int("only", -1, "play this history alone, by its index, and print it")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *count < 1 {
		fmt.Fprintf(os.Stderr, "-n=%d: ask for at least one history\n", *count)
		os.Exit(1)
	}
	klog.SetLogger(logr.Discard())
	// One of client-go's error handlers sleeps until a little after the previous error of the
	// process: another bubble's error, whose virtual time may be ahead by minutes.
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}
