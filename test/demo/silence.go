// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/taintkeeper/taintkeeper/taints"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// The last act does not begin with a taint: the kubelets of a zone fall silent, and taintkeeper sets the taints.
const (
	unreachable = corev1.TaintNodeUnreachable
	// grace is how long a node may be silent. kwok renews a lease four times in leaseSeconds, so a node may have been
	// silent for up to one renewal before the act.
	grace        = 8 * time.Second
	leaseSeconds = 4
	renewal      = leaseSeconds * time.Second / 4
	// taintEvery is the time between the NoExecute taints of two nodes of a zone.
	taintEvery = 4 * time.Second
	// tolerated is how long pods tolerate a silent node by default here; elsewhere it is 300 s.
	tolerated = 6 * time.Second
)

// healthFlags are the flags of both taintkeeper and the plan.
var healthFlags = []string{
	"--node-monitor-grace-period=" + grace.String(),
	fmt.Sprintf("--node-eviction-rate=%g", 1/taintEvery.Seconds()),
}

// zone is some nodes that fall silent together.
type zone struct {
	nodes    []string
	heard    map[string]time.Time // their last signs of life
	followed int                  // calls of taintkeeper's about nodes
	versions map[string]string    // the newest of each node
}

func newZone(nodes ...string) *zone {
	return &zone{nodes: nodes, heard: map[string]time.Time{}, versions: map[string]string{}}
}

// silence makes the kubelets fall silent.
func (z *zone) silence(ctx context.Context, p *Play) error {
	s, names := stageOf(p), fullNames(p, z.nodes)
	s.command("kubectl label node %s %s", strings.Join(names, " "), localcluster.SilenceLabel)
	return s.cluster.SilenceNodes(ctx, names...)
}

// resume makes them come back. Before that, it notes when they gave their last signs of life.
func (z *zone) resume(ctx context.Context, p *Play) error {
	s, names := stageOf(p), fullNames(p, z.nodes)
	for i, name := range names {
		lease, err := p.Admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		z.heard[z.nodes[i]] = lease.Spec.RenewTime.Time
	}
	s.command("kubectl label node %s %s", strings.Join(names, " "), localcluster.ResumeLabel)
	return s.cluster.ResumeNodes(ctx, names...)
}

// followUntil adds taintkeeper's changes of taints to the story until a condition holds.
func (z *zone) followUntil(so func(p *Play) bool) Step {
	return func(ctx context.Context, p *Play) error {
		return await.Poll(ctx, func(context.Context) error {
			if err := z.follow(p); err != nil {
				return err
			}
			if !so(p) {
				return errors.New("the zone's taints are not as they should be")
			}
			return nil
		})
	}
}

// follow reads new writes of taintkeeper to nodes from the audit log.
func (z *zone) follow(p *Play) error {
	s := stageOf(p)
	calls, err := p.Calls(auditlog.Accepted, auditlog.Since(s.began), func(c auditlog.Event) bool {
		return (c.Resource == "nodes" || c.Resource == "nodes/status") && (c.Verb == "patch" || c.Verb == "update")
	})
	if err != nil {
		return err
	}
	for _, c := range calls[z.followed:] {
		z.followed++
		var node corev1.Node
		if err := json.Unmarshal(c.Response, &node); err != nil {
			return fmt.Errorf("read node %s in the audit log: %w", c.Name, err)
		}
		if err := z.note(p, &node, scene.Span{From: c.Received, To: c.Answered}); err != nil {
			return err
		}
	}
	return nil
}

// note adds a version of a node to the story if its taints are others than before, unless a newer one is known.
func (z *zone) note(p *Play, node *corev1.Node, took scene.Span) error {
	newest, known := z.versions[node.Name]
	if known {
		order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, newest)
		if err != nil || order <= 0 {
			return err
		}
	}
	z.versions[node.Name] = node.ResourceVersion
	name := strings.TrimPrefix(node.Name, p.NodeName(""))
	if texts := taintsOf(node.Spec.Taints); texts != taintsOf(taintsNow(p, name)) {
		p.Tainted(name, took, node.Spec.Taints)
		s := stageOf(p)
		s.say("%s%.3f s: %s has %s", indent, took.From.Sub(s.began).Seconds(), node.Name, texts)
	}
	return nil
}

// taintsNow are the taints of a node according to the story.
func taintsNow(p *Play, node string) []corev1.Taint {
	history := p.History(node)
	if len(history) == 0 {
		return nil
	}
	return history[len(history)-1].Taints
}

func taintsOf(all []corev1.Taint) string {
	if len(all) == 0 {
		return "no taint"
	}
	var texts []string
	for _, taint := range all {
		taint.TimeAdded = nil
		texts = append(texts, taint.ToString())
	}
	slices.Sort(texts)
	return strings.Join(texts, " and ")
}

// oneIsEmpty reports whether all the nodes have a NoExecute taint, and all pods that must leave have left one of them.
func (z *zone) oneIsEmpty(p *Play) bool {
	waiting := map[string]bool{}
	for _, r := range p.Rows(time.Now()) {
		if r.Due != Never && !r.Left {
			waiting[r.Spec.NodeName] = true
		}
	}
	return len(waiting) < len(z.nodes) && !slices.ContainsFunc(z.nodes, func(node string) bool {
		return len(taints.NoExecute(taintsNow(p, node))) == 0
	})
}

// untainted reports whether none of the nodes has a taint.
func (z *zone) untainted(p *Play) bool {
	return !slices.ContainsFunc(z.nodes, func(node string) bool { return len(taintsNow(p, node)) > 0 })
}

// neverTainted wants a node never to have had a taint.
func neverTainted(node string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		if all := p.History(node); len(all) > 0 {
			return Finding{Seen: "node " + node + " of another zone was tainted"}, nil
		}
		return Finding{Right: true}, nil
	}
}

// inTurn wants the nodes to be tainted after their grace period, one after the other, and to lose both taints at once.
func (z *zone) inTurn(_ context.Context, p *Play) (Finding, error) {
	found := Finding{Right: true}
	wrong := func(format string, args ...any) { found = found.And(Finding{Seen: fmt.Sprintf(format, args...)}) }
	var turns []time.Time
	for _, node := range z.nodes {
		history := p.History(node)
		if silent := history[0].At.To.Sub(z.heard[node]); silent < grace {
			wrong("%s was tainted when it had been silent for %s", node, Seconds(silent))
		}
		for i := range history[1:] {
			if len(history[i].Taints) == 2 && len(history[i+1].Taints) == 1 {
				wrong("%s lost one of its taints before the other", node)
			}
		}
		turns = append(turns, firstNoExecute(p, p.NodeName(node), time.Time{}).To)
	}
	slices.SortFunc(turns, time.Time.Compare)
	const early = taintEvery / 8 // a call may take long
	if took := turns[len(turns)-1].Sub(turns[0]); took < time.Duration(len(turns)-1)*taintEvery-early {
		wrong("the zone was tainted within %s", Seconds(took))
	}
	return found, nil
}
