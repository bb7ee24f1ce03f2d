// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/taintkeeper/taintkeeper/internal/plugin/source"
)

func TestPodsAreCompletedFromFiles(t *testing.T) {
	s := &source.Source{Config: genericclioptions.NewConfigFlags(true)}
	s.Files.Filenames = []string{"../../../examples/cluster.yaml"}
	*s.Config.Namespace = "payments"
	words, _ := completePods(s)(nil, nil, "led")
	if diff := cmp.Diff([]string{"ledger-84d7f6c9b-bbbbb"}, words[:min(len(words), 1)]); diff != "" {
		t.Error(diff)
	}
	if words, _ := completePods(s)(nil, nil, "checkout"); len(words) > 0 {
		t.Errorf("%s are of another namespace", words)
	}
	if words, _ := completePods(s)(nil, []string{"p"}, "led"); len(words) > 0 {
		t.Errorf("%s come behind the one pod", words)
	}
}
