// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"testing/synctest"
	"time"
)

// Pass lets virtual time pass, and returns when everything that can happen has happened.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
