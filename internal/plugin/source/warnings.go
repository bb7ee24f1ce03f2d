// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"io"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

// warnings prints each warning of the API server once, except the one about policies that hold pods
// (config/coexistence.yaml). Commands that end such a policy say themselves which pods leave.
type warnings struct{ rest.WarningHandler }

func newWarnings(out io.Writer) warnings {
	return warnings{rest.NewWarningWriter(out, rest.WarningWriterOptions{Deduplicate: true})}
}

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, agent, text string) {
	if !strings.Contains(text, "'"+v1alpha1.HoldingAdmissionPolicy) {
		w.WarningHandler.HandleWarningHeader(code, agent, text)
	}
}
