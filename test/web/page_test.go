// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/web"
)

// arguments make the plan that most tests open: it has pods that leave because of it, that leave earlier because of it,
// and that leave as they would without it.
var arguments = []string{"plan", "-f", "../../examples/cluster.yaml", "--all", "maintenance=planned:NoExecute"}

// zone simulates a zone that falls silent.
var zone = []string{"simulate", "-f", "../../examples/cluster.yaml", "--where-to", "../../examples/simulations/zone.yaml"}

// written writes the page of a plan or a simulation, and returns its file.
func written(t *testing.T, args ...string) string {
	t.Helper()
	content, err := web.Print(append(slices.Clone(args), "-o", "html")...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// openFile opens the page of a plan or a simulation.
func openFile(t *testing.T, view web.View, args ...string) *web.Tab {
	t.Helper()
	tab, err := browser.Open(written(t, args...), view)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return tab
}

// silent fails if a page has requested anything but itself, or has reported problems.
func silent(t *testing.T, tab *web.Tab) {
	t.Helper()
	if requests := tab.Requests(); len(requests) != 1 {
		t.Errorf("the page requests something: %v", requests)
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %v", problems)
	}
}

// figure is a JavaScript expression for a number of the summary.
func figure(label string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('#figures div')].find((div) => div.querySelector('dt').textContent === %q)?.querySelector('strong').textContent`, label)
}

// marked is a JavaScript expression for how many pods the marks of the timeline count.
const marked = `[...document.querySelectorAll('.mark')].reduce((n, mark) => n + Number(mark.dataset.all), 0)`

func TestWithoutABrowserTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CHROMIUM", "")
	if _, _, err := web.Start(t.Context()); !errors.Is(err, web.ErrNoBrowser) {
		t.Errorf("got %v, want %v", err, web.ErrNoBrowser)
	}
}

func TestThePageOfAPlanShowsWhatTheJSONSays(t *testing.T) {
	content, err := web.Print(append(slices.Clone(arguments), "-o", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	var plan, data cliv1alpha1.TaintPlan
	if err := json.Unmarshal(content, &plan); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		tab := openFile(t, web.View{Width: 1280, Height: 900, Scheme: scheme}, arguments...)
		expect(t, "the heading", value[string](t, tab, `document.querySelector('h1').textContent`), "19 of 27 pods on 6 nodes leave, 16 at once, 3 more within 10m.")
		expect(t, "the sections", value[string](t, tab, `[...document.querySelectorAll('section:not([hidden])')].map((s) => s.id).join(' ')`),
			"zones workloads budgets timeline pods nodes")
		for label, want := range map[string]int{
			"pods leave": plan.Summary.Leave, "of them at once": plan.Summary.AtOnce, "pods change": plan.Summary.Changed, "nodes emptied": plan.Summary.Emptied,
			"workloads lose every replica": plan.Summary.WorkloadsLost, "budgets breached": plan.Summary.BudgetsBreached,
		} {
			expect(t, label, value[string](t, tab, figure(label)), fmt.Sprint(want))
		}
		expect(t, "pods in the timeline", value[int](t, tab, marked), plan.Summary.Leave)
		for sheet, want := range map[string]int{"pods": len(plan.Pods), "nodes": len(plan.Nodes), "workloads": len(plan.Workloads), "budgets": len(plan.Budgets)} {
			expect(t, sheet, value[int](t, tab, web.Rows(sheet)), want)
		}
		expect(t, "pods that are drawn", value[int](t, tab, drawn("pods")), 20)
		expect(t, "the page is light", value[int](t, tab, brightness) > 384, scheme == "light")
		if err := json.Unmarshal([]byte(value[string](t, tab, `document.getElementById('data').textContent`)), &data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plan, data); diff != "" {
			t.Errorf("the data of the page: %s", diff)
		}
		silent(t, tab)
	}
}

func TestThePageOfASimulationShowsNodesAndWorkloads(t *testing.T) {
	tab := openFile(t, look, zone...)
	expect(t, "the sections", value[string](t, tab, `[...document.querySelectorAll('section:not([hidden])')].map((s) => s.id).join(' ')`),
		"zones workloads timeline story pods nodes notes not-simulated")
	expect(t, "lanes", value[int](t, tab, `document.querySelectorAll('.chart [role=group] > [role=group]').length`), 10)
	expect(t, "bars without size or words", value[int](t, tab, `[...document.querySelectorAll('rect.bar')].filter((b) => b.getBoundingClientRect().width < 2 || !b.getAttribute('aria-label')).length`), 0)
	expect(t, "the worst workload", value[string](t, tab, `document.querySelector('#workloads tbody th').textContent`), "Deployment ml/trainer")
	expect(t, "when the nodes are back", value[bool](t, tab, web.RowOf("story", "+10m")+`.includes('are back')`), true)
	silent(t, tab)
}

func TestWhatANameCarriesIsNotRun(t *testing.T) {
	cluster := filepath.Join(t.TempDir(), "cluster.yaml")
	const hostile = `</script><img src=//evil.example/x onerror=document.title='run'><script>document.title='run'</script>`
	objects := fmt.Sprintf(`{apiVersion: v1, kind: List, items: [
{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {topology.kubernetes.io/zone: %[1]q}}},
{apiVersion: v1, kind: Pod, metadata: {name: %[1]q, namespace: %[1]q, uid: a, creationTimestamp: "2026-11-22T08:00:00Z"}, spec: {nodeName: node-1, containers: [], tolerations: [{key: %[1]q}]}}]}`, hostile)
	if err := os.WriteFile(cluster, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	tab := openFile(t, look, "plan", "-f", cluster, "node-1", "m:NoExecute")
	expect(t, "the title", value[string](t, tab, `document.title`), "Plan: m:NoExecute")
	expect(t, "the pod", value[string](t, tab, `document.querySelector('#pods tbody th').textContent`), hostile+"/"+hostile)
	expect(t, "images", value[int](t, tab, `document.images.length`), 0)
	silent(t, tab)
}

func TestTheTimelineWorksByKeyboard(t *testing.T) {
	tab := openFile(t, look, arguments...)
	focused := func() string {
		t.Helper()
		before, _, _ := strings.Cut(value[string](t, tab, `document.activeElement.getAttribute('aria-label') ?? document.activeElement.id`), ":")
		return before
	}
	expect(t, "marks that Tab stops at", value[int](t, tab, `document.querySelectorAll('.mark[tabindex="0"]').length`), 1)
	value[bool](t, tab, `document.querySelector('.mark[tabindex="0"]').focus(), true`)
	expect(t, "the first mark", focused(), "Node gpu-b1, now")
	for _, step := range []struct{ key, want string }{
		{kb.ArrowDown, "Node worker-a1, now"}, {kb.ArrowRight, "Node worker-a1, in 2m"}, {kb.ArrowRight, "Node worker-a1, in 10m"},
		{kb.ArrowRight, "Node worker-a2, now"}, {kb.ArrowUp, "Node worker-a1, now"}, {kb.ArrowLeft, "Node gpu-b1, now"},
		{kb.ArrowUp, "Node gpu-b1, now"}, {kb.End, "Node worker-b2, now"}, {kb.Home, "Node gpu-b1, now"}, {kb.ArrowDown, "Node worker-a1, now"},
		{kb.ArrowRight, "Node worker-a1, in 2m"},
	} {
		press(t, tab, step.key)
		expect(t, "the focus", focused(), step.want)
	}
	expect(t, "the focus is visible", value[string](t, tab, `getComputedStyle(document.activeElement.querySelector('.ring')).strokeWidth`), "3px")
	expect(t, "what it is is shown", value[bool](t, tab, `document.querySelector('.about').textContent.includes('shop/checkout-7b9d4c5f6-bbbbb')`), true)
	press(t, tab, kb.Enter)
	expect(t, "the focus after Enter", focused(), "pods")
	expect(t, "the pods of the mark", value[int](t, tab, web.Rows("pods")), 2)
	expect(t, "their toleration", value[bool](t, tab, web.RowOf("pods", "checkout-7b9d4c5f6-bbbbb")+`.includes('maintenance=*:NoExecute for 120s')`), true)
	press(t, tab, kb.Escape)
	expect(t, "pods after Escape", value[int](t, tab, web.Rows("pods")), 27)
	silent(t, tab)
}

func TestTablesAreSortedFilteredAndDrawnOnDemand(t *testing.T) {
	tab := openFile(t, look, arguments...)
	click := func(selector string) {
		t.Helper()
		value[bool](t, tab, fmt.Sprintf(`document.querySelector(%q).click(), true`, selector))
	}
	first := `document.querySelector('#pods tbody th').textContent`
	press(t, tab, "/")
	press(t, tab, strings.Split("shop worker-a1", "")...)
	expect(t, "pods that match", value[string](t, tab, `document.getElementById('filter-count').textContent`), "4 pods, 0 nodes")
	press(t, tab, kb.Escape)
	click("#pods .more")
	expect(t, "pods after more", value[int](t, tab, drawn("pods")), 27)
	click("#pods thead th button")
	expect(t, "the first by name", value[string](t, tab, first), "kube-system/coredns-f7d9c8b5d-bbbbb")
	click("#pods thead th button")
	expect(t, "the last by name", value[string](t, tab, first), "shop/search-6d5f8c7b4-ccccc")
	expect(t, "the column says so", value[string](t, tab, `document.querySelector('#pods thead th').getAttribute('aria-sort')`), "descending")
	expect(t, "said", value[string](t, tab, `document.getElementById('status').textContent`), "Sorted by Pod, descending.")
	click("#workloads tbody button")
	expect(t, "pods of the worst workload", value[int](t, tab, web.Rows("pods")), 4)
	click("#zones tbody button")
	expect(t, "pods of the worst zone", value[int](t, tab, web.Rows("pods")), 16)
	silent(t, tab)
}

func TestAPrintedPageHasNothingToClick(t *testing.T) {
	tab := openFile(t, web.View{Width: 1280, Height: 900, Scheme: "dark"}, arguments...)
	if err := tab.Print(); err != nil {
		t.Fatal(err)
	}
	expect(t, "tools", value[int](t, tab, `[...document.querySelectorAll('.tools, .more')].filter((e) => e.getClientRects().length > 0).length`), 0)
	expect(t, "the paper", value[string](t, tab, `getComputedStyle(document.body).backgroundColor`), "rgb(255, 255, 255)")
	pdf, err := chromedp.Run(tab.Context, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(pdf), "%PDF-") {
		t.Error("no PDF was printed")
	}
}

func TestAFileFitsANarrowScreen(t *testing.T) {
	for _, width := range []int64{320, 390} {
		for _, args := range [][]string{arguments, append(slices.Clone(arguments), "--where-to"), zone} {
			tab := openFile(t, web.View{Width: width, Height: 844, Scheme: "dark"}, args...)
			expect(t, "the width of "+args[0], value[int64](t, tab, `document.documentElement.scrollWidth`), width)
		}
	}
	tab := openFile(t, web.View{Width: 1280, Height: 900, Scheme: "light"}, append(slices.Clone(arguments), "--where-to")...)
	expect(t, "the width with places", value[int](t, tab, `document.documentElement.scrollWidth`), 1280)
}

func TestWithoutJavaScriptAFileShowsTheAnswerAndWorkloads(t *testing.T) {
	view := look
	view.NoScript = true
	for want, args := range map[string][]string{
		"Deployment shop/checkout 2 2 0": arguments, "Deployment ml/trainer 0 of 1 9m45s +50s": zone,
	} {
		tab := openFile(t, view, args...)
		text := strings.Join(strings.Fields(value[string](t, tab, `document.body.innerText`)), " ")
		if !strings.Contains(text, want) || !strings.Contains(text, "need JavaScript") || !strings.Contains(text, "leave") {
			t.Errorf("it says %q, without %q", text, want)
		}
		silent(t, tab)
	}
}

func TestTheFileOfALargeClusterOpens(t *testing.T) {
	const nodes, pods = 5000, 150_000
	cluster := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(cluster, largeCluster(nodes, pods), 0o600); err != nil {
		t.Fatal(err)
	}
	file := written(t, "plan", "-f", cluster, "--all", "m:NoExecute")
	began := time.Now()
	tab, err := browser.Open(file, look)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	expect(t, "the heading", value[string](t, tab, `document.querySelector('h1').textContent`), "150000 of 150000 pods on 5000 nodes leave, 100000 at once, 50000 more within 60m.")
	t.Logf("it opens in %v", time.Since(began).Round(time.Millisecond))
	expect(t, "pods in the marks of zones", value[int](t, tab, marked), pods)
	if height := value[int](t, tab, `document.documentElement.scrollHeight`); height > 6000 {
		t.Errorf("the page is %d px high", height)
	}
	press(t, tab, "/")
	press(t, tab, strings.Split("pod-149999", "")...)
	expect(t, "pods that match", value[int](t, tab, web.Rows("pods")), 1)
	silent(t, tab)
}

// largeCluster returns a cluster in which every third pod tolerates everything for an hour.
func largeCluster(nodes, pods int) []byte {
	var list strings.Builder
	list.WriteString(`{"apiVersion":"v1","kind":"List","items":[`)
	for i := range nodes {
		fmt.Fprintf(&list, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-%d","labels":{"topology.kubernetes.io/zone":"%c"}}},`, i, 'a'+i%3)
	}
	for i := range pods {
		tolerations := ""
		if i%3 == 0 {
			tolerations = `,"tolerations":[{"operator":"Exists","tolerationSeconds":3600}]`
		}
		fmt.Fprintf(&list, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-%[1]d","namespace":"shop","uid":"%[1]d","creationTimestamp":"2026-11-22T08:00:00Z"},"spec":{"containers":[],"nodeName":"node-%[2]d"%[3]s}}`, i, i%nodes, tolerations)
		if i < pods-1 {
			list.WriteByte(',')
		}
	}
	list.WriteString(`]}`)
	return []byte(list.String())
}
