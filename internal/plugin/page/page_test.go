// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/page"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var now = time.Date(2026, time.November, 22, 9, 0, 0, 0, time.UTC)

// pod returns a pod that is due, or one that stays if the offset is negative.
func pod(name, node string, change cliv1alpha1.Change, offset time.Duration) cliv1alpha1.PlannedPod {
	planned := cliv1alpha1.PlannedPod{
		Namespace: "shop", Name: name, UID: types.UID(name), Node: node, Change: change, GracePeriodSeconds: 30,
		Taint: "m:NoExecute", Owner: &cliv1alpha1.Owner{Kind: "Deployment", Name: "web"},
	}
	if offset >= 0 {
		due := metav1.NewMicroTime(now.Add(offset))
		planned.Leaves, planned.Due = true, &due
	}
	return planned
}

// small is a plan with a pod of each kind.
func small() *cliv1alpha1.TaintPlan {
	before := metav1.NewMicroTime(now.Add(5 * time.Minute))
	last := metav1.NewMicroTime(now.Add(10 * time.Minute))
	plan := &cliv1alpha1.TaintPlan{
		At: metav1.NewMicroTime(now), Taints: []string{"m:NoExecute", "old-"},
		Summary: cliv1alpha1.PlanSummary{
			Nodes: 2, Emptied: 1, Pods: 7, Leave: 5, AtOnce: 2, Changed: 5, WorkloadsLost: 1, BudgetsBreached: 1, Last: &last,
		},
		Notes: []string{"No PodDisruptionBudgets were read."},
		Nodes: []cliv1alpha1.PlannedNode{
			{Name: "node-1", Zone: "a", Before: []string{"old:NoExecute"}, After: []string{"m:NoExecute"}, Pods: 5, Leave: 5, Emptied: true},
			{Name: "node-2", Before: []string{}, After: []string{"m:NoExecute"}, Pods: 2},
		},
		Pods: []cliv1alpha1.PlannedPod{
			pod("web-1", "node-1", cliv1alpha1.ChangeLeaves, 0),
			pod("web-2", "node-1", cliv1alpha1.ChangeLeaves, 0),
			pod("early", "node-1", cliv1alpha1.ChangeEarlier, 2*time.Minute),
			pod("late", "node-1", cliv1alpha1.ChangeLater, 10*time.Minute),
			pod("same", "node-1", cliv1alpha1.ChangeNone, 10*time.Minute),
			pod("freed", "node-2", cliv1alpha1.ChangeStays, -1),
			pod("calm", "node-2", cliv1alpha1.ChangeNone, -1),
		},
		Workloads: []cliv1alpha1.PlannedWorkload{{Owner: cliv1alpha1.Owner{Kind: "Deployment", Name: "web"}, Namespace: "shop", Replicas: 5, Leave: 5}},
		Budgets:   []cliv1alpha1.PlannedBudget{{Namespace: "shop", Name: "web", Allowed: 1, Leave: 5, Breach: 4}},
	}
	plan.SetGroupVersionKind(cliv1alpha1.GroupVersion.WithKind("TaintPlan"))
	plan.Pods[2].DueBefore, plan.Pods[3].DueBefore, plan.Pods[5].DueBefore = &last, &before, &before
	plan.Pods[0].Budgets = []string{"web"}
	plan.Pods[0].Toleration = &corev1.Toleration{Key: "other"}
	return plan
}

// written returns the page of a plan, as text and parsed.
func written(t *testing.T, plan *cliv1alpha1.TaintPlan) (string, *html.Node) {
	t.Helper()
	var out bytes.Buffer
	err := page.Write(&out, page.Page{
		Plan: plan, Answer: "The answer.", Losses: []string{"A loss."},
		Words: func(pod *cliv1alpha1.PlannedPod) page.Words {
			return page.Words{Leaves: "soon", At: "then", Toleration: "words for " + pod.Name, HeldBy: pod.Answer.HeldBy()}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, out.String())
}

// parsed returns a page, as text and parsed.
func parsed(t *testing.T, written string) (string, *html.Node) {
	t.Helper()
	document, err := html.Parse(strings.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	return written, document
}

func attribute(node *html.Node, name string) string {
	for _, attribute := range node.Attr {
		if attribute.Key == name {
			return attribute.Val
		}
	}
	return ""
}

// text returns the text in a node, with single spaces.
func text(node *html.Node) string {
	var all []string
	for child := range node.Descendants() {
		if child.Type == html.TextNode {
			all = append(all, child.Data)
		}
	}
	return strings.Join(strings.Fields(strings.Join(all, "")), " ")
}

// find returns the elements for which match is true.
func find(document *html.Node, match func(*html.Node) bool) []*html.Node {
	var all []*html.Node
	for node := range document.Descendants() {
		if node.Type == html.ElementNode && match(node) {
			all = append(all, node)
		}
	}
	return all
}

func withID(t *testing.T, document *html.Node, id string) *html.Node {
	t.Helper()
	found := find(document, func(node *html.Node) bool { return attribute(node, "id") == id })
	if len(found) != 1 {
		t.Fatalf("%d elements with the id %q, want 1", len(found), id)
	}
	return found[0]
}

func withClass(document *html.Node, class string) []*html.Node {
	return find(document, func(node *html.Node) bool {
		return slices.Contains(strings.Fields(attribute(node, "class")), class)
	})
}

func rowsOf(t *testing.T, document *html.Node, table string) []string {
	t.Helper()
	var rows []string
	for _, row := range find(withID(t, document, table), func(node *html.Node) bool { return node.Data == "tr" }) {
		rows = append(rows, text(row))
	}
	return rows[1:]
}

func dataOf(t *testing.T, document *html.Node) cliv1alpha1.TaintPlan {
	t.Helper()
	var data cliv1alpha1.TaintPlan
	if err := json.Unmarshal([]byte(withID(t, document, "plan").FirstChild.Data), &data); err != nil {
		t.Fatalf("the data of the page is no JSON: %v", err)
	}
	return data
}

func TestThePageHasThePartsOfAPlanInOrder(t *testing.T) {
	_, document := written(t, small())
	wantOutline(t, document, "outline.golden")
}

// wantOutline compares the outline of a page with a golden file.
func wantOutline(t *testing.T, document *html.Node, name string) {
	t.Helper()
	var outline strings.Builder
	for _, node := range find(document, func(*html.Node) bool { return true }) {
		switch label := attribute(node, "aria-label"); {
		case slices.Contains([]string{"h1", "h2", "dt", "dd", "tr", "li", "p", "time"}, node.Data):
			fmt.Fprintf(&outline, "%s: %s\n", node.Data, text(node))
		case label != "":
			fmt.Fprintf(&outline, "%s %s: %s\n", node.Data, attribute(node, "role"), label)
		case attribute(node, "id") != "" && node.Data != "path":
			fmt.Fprintf(&outline, "%s #%s\n", node.Data, attribute(node, "id"))
		}
	}
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, []byte(outline.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), outline.String()); diff != "" {
		t.Errorf("the page is not as in %s (run with -update to rewrite it):\n%s", golden, diff)
	}
}

func TestTheDataOfThePageIsThePlan(t *testing.T) {
	plan := small()
	_, document := written(t, plan)
	got, want := dataOf(t, document), *plan
	gotJSON, _ := json.Marshal(got)
	wantJSON, _ := json.Marshal(want)
	if diff := cmp.Diff(string(wantJSON), string(gotJSON)); diff != "" {
		t.Error(diff)
	}
}

func TestTheFiguresAreThoseOfTheSummary(t *testing.T) {
	plan := small()
	_, document := written(t, plan)
	s := plan.Summary
	want := map[string]string{
		"leave": strconv.Itoa(s.Leave), "atOnce": strconv.Itoa(s.AtOnce), "last": "in 10m", "changed": strconv.Itoa(s.Changed),
		"workloadsLost": strconv.Itoa(s.WorkloadsLost), "budgetsBreached": strconv.Itoa(s.BudgetsBreached), "emptied": strconv.Itoa(s.Emptied),
	}
	got := map[string]string{}
	for _, node := range find(document, func(node *html.Node) bool { return attribute(node, "data-figure") != "" }) {
		got[attribute(node, "data-figure")] = text(node)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPodsThatPoliciesHoldAreDue(t *testing.T) {
	plan := small()
	plan.Pods[0].Answer = &cliv1alpha1.PolicyAnswer{Says: cliv1alpha1.PolicyHold, Policy: "stop", Reason: "Paused"}
	content, _ := written(t, plan)
	for _, want := range []string{"pods are due", "last one is due", "held by policy stop: Paused"} {
		if !strings.Contains(content, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if content, _ := written(t, small()); strings.Contains(content, "held by policy") || strings.Contains(content, "pods are due") {
		t.Error("the page speaks of policies where there are none")
	}
}

func TestTheMarksCountEveryPodThatLeavesOrNoLongerDoes(t *testing.T) {
	_, document := written(t, small())
	got := map[string]string{}
	for _, mark := range withClass(document, "mark") {
		kind := strings.TrimPrefix(attribute(mark, "class"), "mark ")
		got[kind] = attribute(mark, "data-all") + " at " + attribute(mark, "data-pods")
	}
	want := map[string]string{"leaves": "2 at 0 1", "earlier": "1 at 2", "later": "1 at 3", "same": "1 at 4", "stays": "1 at 5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// hostile are names that try to break out of the text.
var hostile = []string{
	`</script><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onfocus='alert(1)`, `<!--<script>`, `]]></svg><svg onload=alert(1)>`,
	`{{.Plan}}`, `javascript:alert(1)`, "a\u2028b", `\u003c/script>`, `</title></style><script>alert(1)</script>`,
}

func TestNamesOfAnyKindStayText(t *testing.T) {
	for _, name := range hostile {
		plan := small()
		plan.Taints = []string{name}
		plan.Notes = []string{name}
		plan.Nodes[0].Name, plan.Nodes[0].Zone, plan.Nodes[0].Before, plan.Nodes[0].After = name, name, []string{name}, []string{name}
		for i := range plan.Pods {
			p := &plan.Pods[i]
			p.Namespace, p.Name, p.Node, p.Taint, p.Reason, p.Owner, p.Budgets = name, name, name, name, name, &cliv1alpha1.Owner{Kind: name, Name: name}, []string{name}
			p.Toleration = &corev1.Toleration{Key: name, Value: name}
			p.WhereTo = &cliv1alpha1.WhereTo{Node: name, Warnings: []cliv1alpha1.PlacementWarning{{Message: name}}}
		}
		plan.Workloads[0].Owner, plan.Budgets[0].Name = cliv1alpha1.Owner{Kind: name, Name: name}, name
		_, document := written(t, plan)

		wantOnlyOurElements(t, name, document)
		if got := dataOf(t, document).Pods[0].Name; got != name {
			t.Errorf("the data names a pod %q, want %q", got, name)
		}
		if rows := rowsOf(t, document, "nodes"); !strings.Contains(rows[0], strings.Join(strings.Fields(name), " ")) {
			t.Errorf("the table of nodes does not show %q: %s", name, rows[0])
		}
	}
}

// wantOnlyOurElements fails if a name created an element that loads or runs something, or an attribute.
func wantOnlyOurElements(t *testing.T, name string, document *html.Node) {
	t.Helper()
	for _, node := range find(document, func(node *html.Node) bool { return node.Data == "script" || node.Data == "img" }) {
		if id := attribute(node, "id"); id != "plan" && !strings.Contains(text(node), "'use strict'") {
			t.Errorf("%q made an element <%s>", name, node.Data)
		}
	}
	for _, node := range find(document, func(*html.Node) bool { return true }) {
		for _, attribute := range node.Attr {
			if strings.HasPrefix(attribute.Key, "on") || attribute.Key == "style" {
				t.Errorf("%q made an attribute %s", name, attribute.Key)
			}
		}
	}
}

func TestThePolicyAllowsThePagesOwnScriptAndNothingElse(t *testing.T) {
	wantClosed(t, written, small())
	policy := wantClosed(t, writtenSimulation, smallSimulation())
	if !strings.Contains(policy, "script-src 'none'") {
		t.Errorf("the page of a simulation may run scripts: %s", policy)
	}
}

// wantClosed fails if a page requests anything outside itself, and returns its policy.
func wantClosed[T any](t *testing.T, write func(*testing.T, T) (string, *html.Node), of T) string {
	t.Helper()
	source, document := write(t, of)
	metas := find(document, func(node *html.Node) bool { return attribute(node, "http-equiv") == "Content-Security-Policy" })
	if len(metas) != 1 {
		t.Fatalf("%d policies, want 1", len(metas))
	}
	policy := attribute(metas[0], "content")
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy allows too much: %s", policy)
	}
	for _, outside := range []string{"http://", "https://", "@import", "url("} {
		if strings.Contains(source, outside) {
			t.Errorf("the page names something outside: %s", outside)
		}
	}
	return policy
}

func TestAPlanWithoutDeparturesHasNoTimeline(t *testing.T) {
	plan := small()
	plan.Pods = []cliv1alpha1.PlannedPod{pod("calm", "node-1", cliv1alpha1.ChangeNone, -1)}
	plan.Summary = cliv1alpha1.PlanSummary{Nodes: 1, Pods: 1}
	source, document := written(t, plan)
	if marks := withClass(document, "mark"); len(marks) > 0 {
		t.Errorf("%d marks for a pod that stays", len(marks))
	}
	if !strings.Contains(source, "No pod is due, with or without the plan.") {
		t.Error("the page does not say that no pod is due")
	}
}

func TestWhereToIsAColumnOnlyIfItWasAsked(t *testing.T) {
	plan := small()
	_, document := written(t, plan)
	if head := text(find(withID(t, document, "pods"), func(node *html.Node) bool { return node.Data == "thead" })[0]); strings.Contains(head, "Where to") {
		t.Error("a column without content")
	}
	plan.Pods[0].WhereTo = &cliv1alpha1.WhereTo{Node: "node-9", Fits: 3, Warnings: []cliv1alpha1.PlacementWarning{{Message: "Its volume is bound to the node."}}}
	plan.Pods[1].WhereTo = &cliv1alpha1.WhereTo{}
	plan.Pods[2].WhereTo = &cliv1alpha1.WhereTo{Reason: "It has no controller.", NoSuccessor: true}
	_, document = written(t, plan)
	rows := rowsOf(t, document, "pods")
	for i, want := range []string{
		"node-9 3 nodes fit Its volume is bound to the node.", "nowhere 0 nodes fit", "no successor It has no controller.",
	} {
		if !strings.HasSuffix(rows[i], want) {
			t.Errorf("row %q does not end in %q", rows[i], want)
		}
	}
}

// big is a plan for a large cluster.
func big(nodes, pods int) *cliv1alpha1.TaintPlan {
	plan := &cliv1alpha1.TaintPlan{At: metav1.NewMicroTime(now), Taints: []string{"m:NoExecute"}}
	plan.Summary = cliv1alpha1.PlanSummary{Nodes: nodes, Pods: pods, Leave: pods}
	for i := range nodes {
		plan.Nodes = append(plan.Nodes, cliv1alpha1.PlannedNode{Name: fmt.Sprintf("node-%d", i), Zone: string(rune('a' + i%3)), Pods: pods / nodes, Leave: pods / nodes})
	}
	for i := range pods {
		plan.Pods = append(plan.Pods, pod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("node-%d", i%nodes), cliv1alpha1.ChangeLeaves, time.Duration(i)*time.Millisecond))
	}
	return plan
}

func TestALargeClusterStillGivesAPageThatOpens(t *testing.T) {
	source, document := written(t, big(5000, 150_000))
	if megabytes := len(source) >> 20; megabytes > 4 {
		t.Errorf("the page has %d MiB, want at most 4", megabytes)
	}
	rows := withClass(document, "row")
	var labels []string
	all := map[string]int{}
	for _, row := range rows {
		labels = append(labels, attribute(row, "aria-label"))
		for _, mark := range withClass(row, "mark") {
			count, err := strconv.Atoi(attribute(mark, "data-all"))
			if err != nil {
				t.Fatal(err)
			}
			all[strings.Fields(attribute(row, "aria-label"))[0]] += count
		}
	}
	want := []string{
		"Zone a, 1667 nodes, 50010 of 50010 pods leave", "Zone b, 1667 nodes, 50010 of 50010 pods leave", "Zone c, 1666 nodes, 49980 of 49980 pods leave",
		"Node node-0, zone a, 30 of 30 pods leave",
	}
	if diff := cmp.Diff(want, labels[:4]); diff != "" {
		t.Error(diff)
	}
	if all["Zone"] != 150_000 || len(rows) != 63 {
		t.Errorf("%d rows, and the zones' marks count %d pods, want 63 and 150000", len(rows), all["Zone"])
	}
	for _, sentence := range []string{
		"Nodes with pods that the plan affects: 5000 of 5000. The 60 that lose the most pods have their own rows; the zones count all nodes. The plan with -o json has every node.",
		"This page lists 2000 of 150000 pods; -o json lists all.",
		"This page lists 300 of 5000 nodes; -o json lists all.",
	} {
		if !strings.Contains(source, sentence) {
			t.Errorf("the page does not say: %s", sentence)
		}
	}
	if notes := strings.Join(dataOf(t, document).Notes, " "); !strings.Contains(notes, "2000 of 150000 pods") {
		t.Errorf("the data does not say that it is not all: %s", notes)
	}
}
