// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/internal/plugin/show"
	"github.com/taintkeeper/taintkeeper/taints"
)

// operation is kubectl taint's word for the change.
func (t *tainting) operation() string {
	done := "untainted"
	switch {
	case t.overwrite, len(t.edit.Add) > 0 && len(t.edit.Remove) > 0:
		done = "modified"
	case len(t.edit.Add) > 0:
		done = "tainted"
	}
	return t.dryRun.Done(done)
}

// printOne prints a node as soon as it is changed, unless a table is wanted.
func (t *tainting) printOne(one changed) error {
	if t.output.Format == show.Wide {
		return nil
	}
	if t.printed++; t.printed > 1 && t.output.Format == show.YAML {
		t.output.Line("---")
	}
	node := one.node.DeepCopy()
	node.ManagedFields = nil
	if printed, err := t.output.Object(show.WithKind(node, "v1", "Node")); printed {
		return err
	}
	if t.output.Format == show.Name {
		t.output.Line("node/%s", node.Name)
		return nil
	}
	t.output.Line("node/%s %s", node.Name, t.operation())
	return nil
}

// print prints the table of -o wide.
func (t *tainting) print(all []changed) {
	if t.output.Format != show.Wide || len(all) == 0 {
		return
	}
	show.Table(&t.output, []show.Column[changed]{
		{Title: "Node", Cell: func(one changed) string { return one.node.Name }},
		{Title: "Result", Cell: func(changed) string { return t.operation() }},
		{Title: "Before", Cell: func(one changed) string { return specsOf(one.before) }},
		{Title: "After", Cell: func(one changed) string { return specsOf(one.node.Spec.Taints) }},
	}, all)
}

func specsOf(all []corev1.Taint) string {
	specs := make([]string, 0, len(all))
	for _, taint := range all {
		specs = append(specs, taints.Format(taint))
	}
	return strings.Join(specs, ",")
}
