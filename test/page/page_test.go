// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/page"
)

// arguments make the plan that most tests look at: it has pods that leave because of it, that leave earlier because of
// it, and that leave as they would without it.
var arguments = []string{"-f", "../../examples/cluster.yaml", "--all", "maintenance=planned:NoExecute"}

// browser starts a browser for a test.
func browser(t *testing.T) *page.Browser {
	t.Helper()
	started, stop, err := page.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return started
}

// write writes the page of a plan.
func write(t *testing.T, args ...string) string {
	t.Helper()
	return writePage(t, append([]string{"plan"}, args...)...)
}

// writePage writes the page of a plan or a simulation.
func writePage(t *testing.T, args ...string) string {
	t.Helper()
	written, err := page.Print(append(args, "-o", "html")...)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, written, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// look is how the tests look at a page unless they say otherwise.
var look = page.View{Width: 1120, Height: 900, Scheme: "light"}

func open(t *testing.T, browser *page.Browser, file string, view page.View) *page.Tab {
	t.Helper()
	tab, err := browser.Open(file, view)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return tab
}

// value returns the value of a JavaScript expression in the page.
func value[T any](t *testing.T, tab *page.Tab, expression string) T {
	t.Helper()
	got, err := chromedp.Run(tab.Context, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("evaluate %s: %v", expression, err)
	}
	return got
}

// press presses keys, one after the other.
func press(t *testing.T, tab *page.Tab, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := chromedp.Do(tab.Context, chromedp.KeyEvent(key)); err != nil {
			t.Fatal(err)
		}
	}
}

// tabToMarks presses Tab until the focus is on a mark of the timeline.
func tabToMarks(t *testing.T, tab *page.Tab) {
	t.Helper()
	for range 20 {
		if press(t, tab, kb.Tab); value[bool](t, tab, `document.activeElement.classList.contains('mark')`) {
			break
		}
	}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// quiet fails if the page has requested something, or has reported problems.
func quiet(t *testing.T, tab *page.Tab) {
	t.Helper()
	if requests := tab.Requests(); len(requests) != 1 {
		t.Errorf("the page requests something: %v", requests)
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %v", problems)
	}
}

// planOf returns the plan as -o json prints it.
func planOf(t *testing.T, args ...string) cliv1alpha1.TaintPlan {
	t.Helper()
	written, err := page.Print(append([]string{"plan", "-o", "json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var plan cliv1alpha1.TaintPlan
	if err := json.Unmarshal(written, &plan); err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestWithoutABrowserTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CHROMIUM", "")
	_, _, err := page.Start(t.Context())
	if !errors.Is(err, page.ErrNoBrowser) {
		t.Errorf("got %v, want %v", err, page.ErrNoBrowser)
	}
}

func TestThePageRendersAndAsksForNothing(t *testing.T) {
	browser := browser(t)
	for _, scheme := range []string{"light", "dark"} {
		tab := open(t, browser, write(t, arguments...), page.View{Width: 1120, Height: 900, Scheme: scheme})
		expect(t, "the heading", value[string](t, tab, `document.querySelector('h1').textContent`), "19 of 27 pods on 6 nodes leave, 16 at once, 3 more within 10m.")
		expect(t, "marks without size", value[int](t, tab, `[...document.querySelectorAll('.mark use')].filter(m => m.getBoundingClientRect().width < 8).length`), 0)
		quiet(t, tab)
	}
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
	tab := open(t, browser(t), write(t, "-f", cluster, "node-1", "m:NoExecute"), look)
	expect(t, "the title", value[string](t, tab, `document.title`), "Plan: m:NoExecute")
	expect(t, "the pod", value[string](t, tab, `document.querySelector('#pods tbody th').textContent`), hostile+"/"+hostile)
	press(t, tab, kb.Tab, kb.Tab, kb.Tab, kb.Tab)
	if err := chromedp.Do(tab.Context, chromedp.Click(chromedp.CSS(".mark"))); err != nil {
		t.Fatal(err)
	}
	expect(t, "images in the details", value[int](t, tab, `document.querySelectorAll('dialog img').length`), 0)
	quiet(t, tab)
}

func TestThePageTellsTheNumbersOfTheJSON(t *testing.T) {
	plan := planOf(t, arguments...)
	tab := open(t, browser(t), write(t, arguments...), look)

	figures := value[map[string]string](t, tab, `Object.fromEntries([...document.querySelectorAll('[data-figure]')].map(f => [f.dataset.figure, f.textContent]))`)
	delete(figures, "last")
	s := plan.Summary
	want := map[string]string{}
	for name, number := range map[string]int{
		"leave": s.Leave, "atOnce": s.AtOnce, "changed": s.Changed, "workloadsLost": s.WorkloadsLost, "budgetsBreached": s.BudgetsBreached, "emptied": s.Emptied,
	} {
		want[name] = strconv.Itoa(number)
	}
	if diff := cmp.Diff(want, figures); diff != "" {
		t.Errorf("figures: %s", diff)
	}

	marked := 0
	for _, pod := range plan.Pods {
		if pod.Leaves || pod.Change != cliv1alpha1.ChangeNone {
			marked++
		}
	}
	expect(t, "pods in the timeline", value[int](t, tab, `[...document.querySelectorAll('.mark')].reduce((n, m) => n + Number(m.dataset.all), 0)`), marked)
	expect(t, "rows of pods", value[int](t, tab, `document.querySelectorAll('#pods tbody tr').length`), len(plan.Pods))
	expect(t, "rows of nodes", value[int](t, tab, `document.querySelectorAll('#nodes tbody tr').length`), len(plan.Nodes))
	expect(t, "rows of workloads", value[int](t, tab, `document.querySelectorAll('#workloads tbody tr').length`), len(plan.Workloads))
	expect(t, "rows of budgets", value[int](t, tab, `document.querySelectorAll('#budgets tbody tr').length`), len(plan.Budgets))

	var data cliv1alpha1.TaintPlan
	if err := json.Unmarshal([]byte(value[string](t, tab, `document.getElementById('plan').textContent`)), &data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan, data); diff != "" {
		t.Errorf("the data of the page: %s", diff)
	}
}

func TestTheTimelineWorksByKeyboard(t *testing.T) {
	tab := open(t, browser(t), write(t, arguments...), look)
	focused := func() string {
		t.Helper()
		label := value[string](t, tab, `document.activeElement.getAttribute('aria-label') || document.activeElement.tagName`)
		before, _, _ := strings.Cut(label, " (")
		return before
	}
	tabToMarks(t, tab)
	expect(t, "Tab reaches the first mark", focused(), "Node gpu-b1, now")
	expect(t, "the focus is visible", value[string](t, tab, `getComputedStyle(document.activeElement.querySelector('.ring')).strokeWidth`), "3px")
	expect(t, "what it is is shown", value[bool](t, tab, `!document.getElementById('tip').hidden && document.getElementById('tip').textContent.includes('ml/trainer')`), true)

	press(t, tab, kb.ArrowDown)
	expect(t, "down", focused(), "Node worker-a1, now")
	press(t, tab, kb.ArrowRight)
	expect(t, "right", focused(), "Node worker-a1, in 2m")
	press(t, tab, kb.ArrowRight, kb.ArrowRight)
	expect(t, "right, to the next row", focused(), "Node worker-a2, now")
	press(t, tab, kb.ArrowLeft)
	expect(t, "left", focused(), "Node worker-a1, in 10m")
	press(t, tab, kb.ArrowUp)
	expect(t, "up", focused(), "Node gpu-b1, now")
	press(t, tab, kb.ArrowUp)
	expect(t, "up, at the top", focused(), "Node gpu-b1, now")
	press(t, tab, kb.End)
	expect(t, "the last mark", focused(), "Node worker-b2, now")
	press(t, tab, kb.Home, kb.ArrowDown, kb.ArrowRight)
	expect(t, "marks that Tab stops at", value[int](t, tab, `document.querySelectorAll('.mark[tabindex="0"]').length`), 1)

	press(t, tab, kb.Enter)
	expect(t, "Enter opens the details", value[bool](t, tab, `document.getElementById('details').open`), true)
	expect(t, "their title", value[string](t, tab, `document.getElementById('details-title').textContent`), "Node worker-a1, in 2m (2026-11-22T09:02:00Z): 2 pods leave")
	expect(t, "their pods", value[string](t, tab, `[...document.querySelectorAll('#details h3')].map(h => h.textContent).join()`), "shop/checkout-7b9d4c5f6-bbbbb,shop/checkout-7b9d4c5f6-ccccc")
	expect(t, "the toleration", value[bool](t, tab, `document.getElementById('details-pods').textContent.includes('maintenance=*:NoExecute for 120s')`), true)
	press(t, tab, kb.Escape)
	expect(t, "Escape closes", value[bool](t, tab, `document.getElementById('details').open`), false)
	expect(t, "and is where it was", focused(), "Node worker-a1, in 2m")
	quiet(t, tab)
}

// A mark that the focus comes to is scrolled into view, and the browser reports that a frame later.
func TestWhatAMarkIsStaysShownWhenTheFocusScrollsToIt(t *testing.T) {
	low := look
	low.Height = 200
	tab := open(t, browser(t), write(t, arguments...), low)
	shown := func(what string) {
		t.Helper()
		const besideIt = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
			const tip = document.getElementById('tip'), at = tip.getBoundingClientRect(), mark = document.activeElement.getBoundingClientRect();
			done(!tip.hidden && tip.textContent === document.activeElement.getAttribute('aria-label')
				&& Math.min(Math.abs(at.bottom - mark.top), Math.abs(at.top - mark.bottom)) <= 9);
		})))`
		got, err := chromedp.Run(tab.Context, chromedp.Evaluate[bool](besideIt, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, what, got, true)
	}
	tabToMarks(t, tab)
	expect(t, "the page has scrolled", value[bool](t, tab, `scrollY > 0`), true)
	shown("what the first mark is, next to it")
	press(t, tab, kb.End)
	shown("what the last mark is, next to it")
	press(t, tab, kb.Escape)
	expect(t, "it is hidden once Escape has been pressed", value[bool](t, tab, `document.getElementById('tip').hidden`), true)
}

func TestTheTableOfPodsIsSortedAndFiltered(t *testing.T) {
	tab := open(t, browser(t), write(t, arguments...), look)
	shown := func() int {
		t.Helper()
		return value[int](t, tab, `[...document.querySelectorAll('#pods tbody tr')].filter(r => r.getClientRects().length > 0).length`)
	}
	first := func() string {
		t.Helper()
		return value[string](t, tab, `document.querySelector('#pods tbody tr:not([hidden]) th').textContent`)
	}
	status := func() string {
		t.Helper()
		return value[string](t, tab, `document.getElementById('status').textContent`)
	}

	if err := chromedp.Do(tab.Context, chromedp.Focus(chromedp.CSS("#filter-text")), chromedp.KeyEvent("shop worker-a1")); err != nil {
		t.Fatal(err)
	}
	expect(t, "shown", shown(), 4)
	expect(t, "said", status(), "Pods that match: 4 of 27.")
	press(t, tab, kb.Escape)
	expect(t, "shown after Escape", shown(), 27)

	if err := chromedp.Do(tab.Context, chromedp.Focus(chromedp.CSS("#pods th[data-key=name] button"))); err != nil {
		t.Fatal(err)
	}
	press(t, tab, kb.Enter)
	expect(t, "the first by name", first(), "kube-system/coredns-f7d9c8b5d-bbbbb")
	expect(t, "said", status(), "Sorted by Pod, ascending.")
	press(t, tab, kb.Enter)
	expect(t, "the last by name", first(), "shop/search-6d5f8c7b4-ccccc")
	expect(t, "the column says so", value[string](t, tab, `document.querySelector('#pods th[data-key=name]').getAttribute('aria-sort')`), "descending")

	if err := chromedp.Do(tab.Context, chromedp.Click(chromedp.CSS("#pods th[data-key=priority] button"))); err != nil {
		t.Fatal(err)
	}
	press(t, tab, kb.Enter)
	expect(t, "the highest priority", value[string](t, tab, `document.querySelector('#pods tbody td:nth-child(7)').firstChild.textContent.trim()`), "2000001000")
	quiet(t, tab)
}

func TestThePageIsDarkWhereDarkIsPreferred(t *testing.T) {
	browser, file := browser(t), write(t, arguments...)
	const brightness = `getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)`
	light := open(t, browser, file, page.View{Width: 1120, Height: 900, Scheme: "light"})
	dark := open(t, browser, file, page.View{Width: 1120, Height: 900, Scheme: "dark"})
	if l, d := value[int](t, light, brightness), value[int](t, dark, brightness); l < 700 || d > 150 {
		t.Errorf("the sums of the background's colors are %d in light and %d in dark", l, d)
	}
	const fill = `getComputedStyle(document.querySelector('.mark.leaves use')).fill`
	if value[string](t, light, fill) == value[string](t, dark, fill) {
		t.Error("the marks have the same color in light and dark")
	}
}

func TestAPrintedPageShowsEverythingAndNothingToClick(t *testing.T) {
	tab := open(t, browser(t), write(t, arguments...), page.View{Width: 1120, Height: 900, Scheme: "dark"})
	if err := chromedp.Do(tab.Context, chromedp.Focus(chromedp.CSS("#filter-text")), chromedp.KeyEvent("nothing has this name")); err != nil {
		t.Fatal(err)
	}
	if err := tab.Print(); err != nil {
		t.Fatal(err)
	}
	expect(t, "rows that are printed", value[int](t, tab, `[...document.querySelectorAll('#pods tbody tr')].filter(r => r.getClientRects().length > 0).length`), 27)
	expect(t, "interactive parts", value[int](t, tab, `[...document.querySelectorAll('.interactive')].filter(e => e.getClientRects().length > 0).length`), 0)
	expect(t, "the paper", value[string](t, tab, `getComputedStyle(document.body).backgroundColor`), "rgb(255, 255, 255)")
	pdf, err := chromedp.Run(tab.Context, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(pdf), "%PDF-") {
		t.Error("no PDF was printed")
	}
}

func TestThePageFitsANarrowScreen(t *testing.T) {
	tab := open(t, browser(t), write(t, arguments...), page.View{Width: 320, Height: 640, Scheme: "light"})
	expect(t, "the width of the page", value[int](t, tab, `document.documentElement.scrollWidth`), 320)
	expect(t, "cells of pods that are cut off", value[int](t, tab, `[...document.querySelectorAll('#pods td, #pods tbody th')].filter(c => c.getBoundingClientRect().right > 320 || c.scrollWidth > c.clientWidth).length`), 0)
}

func TestThePageIsWholeWithoutJavaScript(t *testing.T) {
	view := look
	view.NoScript = true
	tab := open(t, browser(t), write(t, arguments...), view)
	expect(t, "rows of pods", value[int](t, tab, `[...document.querySelectorAll('#pods tbody tr')].filter(r => r.getClientRects().length > 0).length`), 27)
	expect(t, "marks that say what they are", value[int](t, tab, `document.querySelectorAll('.mark > title').length`), 8)
	expect(t, "parts that would do nothing", value[int](t, tab, `[...document.querySelectorAll('.interactive, button')].filter(e => e.getClientRects().length > 0).length`), 0)
	quiet(t, tab)
}

func TestThePageOfASimulationIsWholeWithoutAScript(t *testing.T) {
	browser := browser(t)
	file := writePage(t, "simulate", "-f", "../../examples/cluster.yaml", "--where-to", "../../examples/simulations/zone.yaml")
	for _, view := range []page.View{
		{Width: 1280, Height: 900, Scheme: "light", NoScript: true}, {Width: 390, Height: 844, Scheme: "dark"}, {Width: 320, Height: 640, Scheme: "light"},
	} {
		tab := open(t, browser, file, view)
		expect(t, "scripts", value[int](t, tab, `document.scripts.length`), 0)
		expect(t, "rows of nodes and workloads", value[int](t, tab, `document.querySelectorAll('.row').length`), 10)
		expect(t, "bars without size or words", value[int](t, tab, `[...document.querySelectorAll('.bar')].filter(b => b.getBoundingClientRect().width < 2 || !b.querySelector('title').textContent).length`), 0)
		expect(t, "the width of the page", value[int](t, tab, `document.documentElement.scrollWidth`), int(view.Width))
		expect(t, "tables that are cut off", value[int](t, tab, `[...document.querySelectorAll('#story, #no-room')].filter(t => t.scrollWidth > t.parentElement.clientWidth).length`), 0)
		quiet(t, tab)
	}
}

func TestThePodsOfAPlanWithWhereToFitAScreen(t *testing.T) {
	tab := open(t, browser(t), write(t, append(arguments, "--where-to")...), page.View{Width: 1280, Height: 900, Scheme: "light"})
	expect(t, "what is cut off", value[int](t, tab, `document.querySelector('#pods').scrollWidth - document.querySelector('#pods').parentElement.clientWidth`), 0)
}

func TestALargeClusterOpens(t *testing.T) {
	const nodes, pods = 5000, 150_000
	cluster := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(cluster, largeCluster(nodes, pods), 0o600); err != nil {
		t.Fatal(err)
	}
	tab := open(t, browser(t), write(t, "-f", cluster, "--all", "m:NoExecute"), look)
	expect(t, "the heading", value[string](t, tab, `document.querySelector('h1').textContent`), "150000 of 150000 pods on 5000 nodes leave, 100000 at once, 50000 more within 60m.")
	expect(t, "pods in the marks of zones", value[int](t, tab, `[...document.querySelectorAll('.row[aria-label^="Zone"] .mark')].reduce((n, m) => n + Number(m.dataset.all), 0)`), pods)
	if elements := value[int](t, tab, `document.querySelectorAll('*').length`); elements > 60_000 {
		t.Errorf("the page has %d elements", elements)
	}
	quiet(t, tab)
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
