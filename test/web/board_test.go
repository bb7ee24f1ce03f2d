// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/web"
)

func open(t *testing.T, address string, view web.View) *web.Tab {
	t.Helper()
	tab, err := browser.OpenAddress(address, view)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return tab
}

// play opens a scene, and its page.
func play(t *testing.T, objects web.Objects, view web.View) (*web.Scene, *web.Tab) {
	t.Helper()
	scene := web.Open(t.Context(), objects)
	t.Cleanup(scene.Close)
	return scene, open(t, scene.Address, view)
}

// whole is true once the page shows all of the small cluster: each kind of object is listed by itself, and the page is
// sent what is known about each.
var whole = fmt.Sprintf(`%s === 7 && %s === 9 && %s === 1 && %s === 1`,
	web.Rows("pods"), web.Rows("nodes"), web.Rows("rules"), web.Rows("differences"))

// until waits until an expression is true.
func until(t *testing.T, tab *web.Tab, expression string) {
	t.Helper()
	if err := tab.Until(expression); err != nil {
		t.Fatalf("%v; the page says:\n%s", err, value[string](t, tab, `document.body.innerText.slice(0, 2000)`))
	}
}

// quiet fails if the page has requested anything but itself and its events, or has reported problems.
func quiet(t *testing.T, tab *web.Tab, address string) {
	t.Helper()
	for _, request := range tab.Requests() {
		if request != address && request != address+"events" {
			t.Errorf("the page requests %s", request)
		}
	}
	if problems := tab.Problems(); len(problems) > 0 {
		t.Errorf("the page has problems: %v", problems)
	}
}

func TestTheBoardShowsTheClusterAndAsksForNothingElse(t *testing.T) {
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			now := time.Now()
			objects := web.Small(now)
			scene := web.Open(t.Context(), objects)
			t.Cleanup(scene.Close)
			tab := open(t, scene.Address, web.View{Width: 1120, Height: 900, Scheme: scheme})
			until(t, tab, whole)
			for _, pod := range web.Evictions(objects, now) {
				scene.SetPod(pod)
			}
			until(t, tab, fmt.Sprintf(`%s === 2 && %s === 5`, web.Rows("evictions"), web.Rows("pods")))
			expect(t, "zones", value[int](t, tab, web.Rows("zones")), 3)
			expect(t, "nodes", value[int](t, tab, web.Rows("nodes")), 9)
			expect(t, "rules", value[int](t, tab, web.Rows("rules")), 1)
			expect(t, "differences", value[int](t, tab, web.Rows("differences")), 1)
			for sheet, want := range map[string][]string{
				"pods":        {"checkout-7b9d4c5f6-4xk2p", "everything:NoExecute for 120s", "Deployment/checkout", "maintenance=planned:NoExecute"},
				"workloads":   {"shop/checkout", "2"},
				"zones":       {"eu/eu-2", "PartialDisruption", "no node is tainted NoExecute", "1 node waits for the taint"},
				"nodes":       {"worker-b2", "unknown", "is held back"},
				"evictions":   {"web-2", "Taintkeeper", "on time"},
				"differences": {"worker-c2", "late", "evicted 41 s late"},
				"rules":       {"kernel-deadlock", "KernelDeadlock=True", "of 10%"},
			} {
				text := value[string](t, tab, web.RowOf(sheet, want[0]))
				for _, part := range want {
					if !strings.Contains(text, part) {
						t.Errorf("the row of %s among %s says %q, without %q", want[0], sheet, text, part)
					}
				}
			}
			expect(t, "the first to leave", value[string](t, tab, `document.querySelector('#pods tbody th').textContent`), "payments/ledger-0")
			expect(t, "the first node is one with a taint", value[string](t, tab, `document.querySelector('#nodes tbody th').textContent`), "worker-a1")
			until(t, tab, `document.title === '5 to leave · Board: production'`)
			expect(t, "pods in the timeline", value[int](t, tab, marked), 5)
			expect(t, "the page is light", value[int](t, tab, brightness) > 384, scheme == "light")
			quiet(t, tab, scene.Address)
		})
	}
}

func TestACountdownRunsByTheAPIServersClock(t *testing.T) {
	_, tab := play(t, web.Small(time.Now()), look)
	until(t, tab, web.Rows("pods")+` === 7`)
	const first = `document.querySelector('#pods b[data-runs]').textContent`
	before := value[string](t, tab, first)
	until(t, tab, fmt.Sprintf(`%s !== %q`, first, before))
	until(t, tab, `document.querySelector('h1').textContent.includes('due and still there')`)
}

func TestThePageHasLandmarksNamesAndAPoliteVoice(t *testing.T) {
	_, tab := play(t, web.Small(time.Now()), look)
	until(t, tab, web.Rows("nodes")+` === 9`)
	for _, landmark := range []string{"header", "nav[aria-label]", "search", "main", "footer", "h1", "[role=status][aria-live=polite]", "[role=alert]"} {
		expect(t, landmark, value[int](t, tab, fmt.Sprintf(`document.querySelectorAll(%q).length`, landmark)), 1)
	}
	expect(t, "sections without a name", value[int](t, tab, `[...document.querySelectorAll('section')].filter((s) => !document.getElementById(s.getAttribute('aria-labelledby'))).length`), 0)
	expect(t, "tables without a name", value[int](t, tab, `[...document.querySelectorAll('table')].filter((t) => !t.getAttribute('aria-labelledby') && !t.getAttribute('aria-label')).length`), 0)
	expect(t, "rows without a role", value[int](t, tab, `document.querySelectorAll('table tr:not([role=row]), table th:not([role]), table td:not([role=cell])').length`), 0)
	until(t, tab, `document.getElementById('status').textContent === '7 pods to leave, 2 nodes tainted NoExecute.'`)
}

func TestTheBoardWorksByKeyboard(t *testing.T) {
	scene, tab := play(t, web.Small(time.Now()), look)
	until(t, tab, whole)
	const focused = `document.activeElement.id || document.activeElement.textContent`

	press(t, tab, "/")
	expect(t, "the filter has the focus", value[string](t, tab, focused), "filter-text")
	press(t, tab, "w", "o", "r", "k", "e", "r", "-", "b", "1")
	expect(t, "the filter", value[string](t, tab, `document.getElementById('filter-text').value`), "worker-b1")
	expect(t, "nodes that match", value[int](t, tab, web.Rows("nodes")), 1)
	expect(t, "pods that match", value[int](t, tab, web.Rows("pods")), 2)
	expect(t, "the count of what the filter shows", value[string](t, tab, `document.getElementById('filter-count').textContent`), "2 pods, 1 node")
	press(t, tab, kb.Escape)
	expect(t, "nodes after Escape", value[int](t, tab, web.Rows("nodes")), 9)

	value[bool](t, tab, `document.querySelector('[id="nodes.worker-a1"] button').focus(), true`)
	node := web.Node("worker-a1", "eu-1", web.NoExecute("z", "", time.Now()), web.NoExecute("y", "", time.Now()))
	scene.SetNode(&node)
	until(t, tab, web.RowOf("nodes", "worker-a1")+`.includes('z:NoExecute')`)
	expect(t, "the focus after an update", value[string](t, tab, `document.activeElement.closest('tr').id`), "nodes.worker-a1")
	press(t, tab, kb.Enter)
	expect(t, "Enter lists its pods", value[int](t, tab, web.Rows("pods")), 5)
	expect(t, "the focus is at the pods", value[string](t, tab, focused), "pods")
	press(t, tab, kb.Escape)
	expect(t, "pods after Escape", value[int](t, tab, web.Rows("pods")), 7)
	quiet(t, tab, scene.Address)
}

func TestTheFocusStaysInARowThatMoves(t *testing.T) {
	scene, tab := play(t, web.Small(time.Now()), look)
	until(t, tab, web.Rows("nodes")+` === 9`)
	value[bool](t, tab, `document.querySelector('[id="nodes.worker-a3"] button').focus(), true`)
	node := web.Node("worker-a3", "eu-1", web.NoExecute("a", "", time.Now()))
	scene.SetNode(&node)
	until(t, tab, web.RowOf("nodes", "worker-a3")+`.includes('a:NoExecute')`)
	expect(t, "the place of the row", value[int](t, tab, `[...document.querySelectorAll('#nodes tbody tr')].findIndex((tr) => tr.id === 'nodes.worker-a3')`), 1)
	expect(t, "the focus", value[string](t, tab, `document.activeElement.closest('tr')?.id`), "nodes.worker-a3")
}

func TestAPageThatComesBackKeepsItsRowsAndTheFocus(t *testing.T) {
	scene, tab := play(t, web.Small(time.Now()), look)
	until(t, tab, web.Rows("nodes")+` === 9`)
	value[bool](t, tab, `document.querySelector('[id="nodes.worker-a3"] button').focus(), true`)
	// The page recovers after a second, so an observer records the alert: looking for it could be too late.
	value[bool](t, tab, `(() => {
		const stale = document.getElementById('stale');
		new MutationObserver(() => { if (!stale.hidden) window.wasStale_ = true; }).observe(stale, { attributes: true });
		return true;
	})()`)
	scene.Disconnect()
	until(t, tab, `window.wasStale_ === true`)
	node := web.Node("worker-a2", "eu-1", web.NoExecute("a", "", time.Now()))
	scene.SetNode(&node)
	until(t, tab, web.RowOf("nodes", "worker-a2")+`.includes('a:NoExecute')`)
	expect(t, "nodes", value[int](t, tab, web.Rows("nodes")), 9)
	expect(t, "the focus", value[string](t, tab, `document.activeElement.closest('tr')?.id`), "nodes.worker-a3")
	expect(t, "the alert is hidden", value[bool](t, tab, `document.getElementById('stale').hidden`), true)
}

func TestWhatAMessageCarriesIsNotRun(t *testing.T) {
	const hostile = `<img src=//evil.example/x onerror=document.title='run'>`
	objects := web.Small(time.Now())
	objects.Shadow.Differences[0].Sentence = hostile
	objects.Nodes[0].Labels[corev1.LabelTopologyZone] = hostile
	objects.Cluster = hostile
	scene, tab := play(t, objects, look)
	until(t, tab, web.Rows("differences")+` === 1`)
	expect(t, "images", value[int](t, tab, `document.images.length`), 0)
	expect(t, "the sentence", value[string](t, tab, `document.querySelector('#differences td:last-child').textContent`), "Pod shop/search-6d5f8c7b4-ccccc: "+hostile+".")
	quiet(t, tab, scene.Address)
}

func TestTheBoardFitsANarrowScreen(t *testing.T) {
	_, tab := play(t, web.Small(time.Now()), web.View{Width: 320, Height: 640, Scheme: "light"})
	until(t, tab, web.Rows("pods")+` === 7`)
	expect(t, "the width of the page", value[int](t, tab, `document.documentElement.scrollWidth`), 320)
}

func TestAPageThatLosesTheBoardSaysSoAndShowsWhatItHad(t *testing.T) {
	scene, tab := play(t, web.Small(time.Now()), look)
	until(t, tab, web.Rows("pods")+` === 7`)
	scene.Close()
	until(t, tab, `!document.getElementById('stale').hidden && document.getElementById('stale').textContent.includes('the board does not answer')`)
	expect(t, "pods that are shown", value[int](t, tab, web.Rows("pods")), 7)
}

func TestSeveralPagesShowTheSameCluster(t *testing.T) {
	scene := web.Open(t.Context(), web.Small(time.Now()))
	t.Cleanup(scene.Close)
	var tabs []*web.Tab
	for range 5 {
		tabs = append(tabs, open(t, scene.Address, look))
	}
	node := web.Node("worker-a2", "eu-1", web.NoExecute("a", "", time.Now()))
	for i, tab := range tabs {
		until(t, tab, web.Rows("nodes")+` === 9`)
		if i == 0 {
			scene.SetNode(&node)
		}
	}
	for _, tab := range tabs {
		until(t, tab, web.RowOf("nodes", "worker-a2")+`.includes('a:NoExecute')`)
	}
}

// A large cluster has 5,000 nodes and 150,000 pods, of which 15,000 must leave.
func TestALargeClusterIsScrolledWhileItChanges(t *testing.T) {
	const nodes, pods = 5000, 150_000
	now := time.Now()
	scene, tab := play(t, web.Large(nodes, pods, now), look)
	until(t, tab, fmt.Sprintf(`%s === %d && %s === 15_000`, web.Rows("nodes"), nodes, web.Rows("pods")))
	expect(t, "pods that are drawn", value[int](t, tab, drawn("pods")), 20)
	expect(t, "the title", value[string](t, tab, `document.title`), "15,000 to leave · Board: large")

	// The durations of frames are recorded, but not judged, while the page is scrolled from top to bottom and 50 nodes change with each
	// update.
	value[bool](t, tab, `(() => {
		window.frames_ = [];
		let last = performance.now();
		const frame = (now) => {
			frames_.push(now - last);
			last = now;
			scrollBy(0, 120);
			requestAnimationFrame(frame);
		};
		requestAnimationFrame(frame);
		return true;
	})()`)
	for round := range 20 {
		for i := range 50 {
			node := web.Node(web.LargeName(round*50+i), fmt.Sprintf("eu-%d", 1+(round*50+i)%3), web.NoExecute("round", fmt.Sprint(round), now))
			scene.SetNode(&node)
		}
		// Every tenth node had a taint before.
		until(t, tab, fmt.Sprintf(`%s.replaceAll(',', '') === '%d'`, figure("nodes have a NoExecute taint"), 500+45*(round+1)))
	}
	frames := value[[]float64](t, tab, `frames_`)
	slices.Sort(frames)
	at := func(share float64) float64 { return frames[int(share*float64(len(frames)-1))] }
	t.Logf("%d frames: half within %.0f ms, 95%% within %.0f ms, 99%% within %.0f ms, the longest %.0f ms", len(frames), at(0.5), at(0.95), at(0.99), at(1))
	press(t, tab, "/", "n", "o", "d", "e", "-", "4", "9", "9", "9")
	expect(t, "nodes that match", value[int](t, tab, web.Rows("nodes")), 1)
	quiet(t, tab, scene.Address)
}
