// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package board_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/board"
	"github.com/taintkeeper/taintkeeper/test/web"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

// browser is shared by all tests.
var browser *web.Browser

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, func(ctx context.Context, shared *suite.Suite) error {
		started, stop, err := web.Start(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		shared.Finally(func() error { stop(); return nil })
		browser = started
		return nil
	}))
}

// look is the view with which the tests open a page unless they say otherwise.
var look = web.View{Width: 1120, Height: 900, Scheme: "light"}

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
func play(t *testing.T, objects board.Objects, view web.View) (*board.Scene, *web.Tab) {
	t.Helper()
	scene := board.Open(t.Context(), objects)
	t.Cleanup(scene.Close)
	return scene, open(t, scene.Address, view)
}

// whole is true once the page shows all of the small cluster: each kind of object is listed by itself, and the page is
// sent what is known about each.
var whole = fmt.Sprintf(`%s === 7 && %s === 9 && %s === 1 && %s === 1`,
	board.Rows("pending"), board.Rows("nodes"), board.Rows("rules"), board.Rows("differences"))

// value returns the value of a JavaScript expression in the page.
func value[T any](t *testing.T, tab *web.Tab, expression string) T {
	t.Helper()
	got, err := chromedp.Run(tab.Context, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("evaluate %s: %v", expression, err)
	}
	return got
}

// until waits until an expression is true.
func until(t *testing.T, tab *web.Tab, expression string) {
	t.Helper()
	if err := tab.Until(expression); err != nil {
		t.Fatalf("%v; the page says:\n%s", err, value[string](t, tab, `document.body.innerText.slice(0, 2000)`))
	}
}

// press presses keys, one after the other.
func press(t *testing.T, tab *web.Tab, keys ...string) {
	t.Helper()
	if len(keys) > 0 && keys[0] == "/" {
		// A key that the page handles itself enters no text; with chromedp's own key events, it would.
		down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: "/", Code: "Slash"}
		if _, err := chromedp.Call(tab.Context, input.DispatchKeyEvent, down); err != nil {
			t.Fatal(err)
		}
		keys = keys[1:]
	}
	for _, key := range keys {
		if err := chromedp.Do(tab.Context, chromedp.KeyEvent(key)); err != nil {
			t.Fatal(err)
		}
	}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
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

// shown is a JavaScript expression for how many rows of a table are shown.
func shown(sheet string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('table[data-sheet=%s] tbody tr')].filter((tr) => !tr.hidden).length`, sheet)
}

func TestThePageShowsTheClusterAndAsksForNothingElse(t *testing.T) {
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			now := time.Now()
			objects := board.Small(now)
			scene := board.Open(t.Context(), objects)
			t.Cleanup(scene.Close)
			tab := open(t, scene.Address, web.View{Width: 1120, Height: 900, Scheme: scheme})
			until(t, tab, whole)
			for _, pod := range board.Evictions(objects, now) {
				scene.SetPod(pod)
			}
			until(t, tab, board.Rows("evictions")+` === 2`)
			expect(t, "zones", value[int](t, tab, board.Rows("zones")), 3)
			expect(t, "nodes", value[int](t, tab, board.Rows("nodes")), 9)
			expect(t, "rules", value[int](t, tab, board.Rows("rules")), 1)
			expect(t, "differences", value[int](t, tab, board.Rows("differences")), 1)
			for sheet, want := range map[string][]string{
				"pending":     {"checkout-7b9d4c5f6-4xk2p", "tolerated for 120 s", "Deployment/checkout", "maintenance=planned:NoExecute"},
				"zones":       {"eu/eu-2", "PartialDisruption", "no node is tainted NoExecute", "1 node waits for the taint"},
				"nodes":       {"worker-b2", "unknown", "is held back"},
				"evictions":   {"web-2", "Taintkeeper", "on time"},
				"differences": {"worker-c2", "late", "evicted 41 s late"},
				"rules":       {"kernel-deadlock", "KernelDeadlock=True", "of 10%"},
			} {
				text := value[string](t, tab, board.RowOf(sheet, want[0]))
				for _, part := range want {
					if !strings.Contains(text, part) {
						t.Errorf("the row of %s among %s says %q, without %q", want[0], sheet, text, part)
					}
				}
			}
			expect(t, "the first to leave", value[string](t, tab, `document.querySelector('table[data-sheet=pending] tbody th').textContent`), "payments/ledger-0")
			expect(t, "the first node of a zone is one with a taint", value[string](t, tab, `document.querySelector('[data-zone="eu/eu-2"] tbody th').textContent`), "worker-b1")
			const brightness = `getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)`
			expect(t, "the page is light", value[int](t, tab, brightness) > 384, scheme == "light")
			quiet(t, tab, scene.Address)
		})
	}
}

func TestACountdownRunsByTheAPIServersClock(t *testing.T) {
	_, tab := play(t, board.Small(time.Now()), look)
	until(t, tab, board.Rows("pending")+` === 7`)
	const first = `document.querySelector('table[data-sheet=pending] b[data-due]').textContent`
	before := value[string](t, tab, first)
	until(t, tab, fmt.Sprintf(`%s !== %q`, first, before))
	until(t, tab, `document.querySelector('h1').textContent.includes('due and still there')`)
}

func TestThePageHasLandmarksNamesAndAPoliteVoice(t *testing.T) {
	_, tab := play(t, board.Small(time.Now()), look)
	until(t, tab, board.Rows("nodes")+` === 9`)
	for _, landmark := range []string{"header", "nav[aria-label]", "search", "main", "footer", "h1", "[role=status][aria-live=polite]", "[role=alert]"} {
		expect(t, landmark, value[int](t, tab, fmt.Sprintf(`document.querySelectorAll(%q).length`, landmark)), 1)
	}
	expect(t, "sections without a name", value[int](t, tab, `[...document.querySelectorAll('section')].filter((s) => !document.getElementById(s.getAttribute('aria-labelledby'))).length`), 0)
	expect(t, "tables without a name", value[int](t, tab, `[...document.querySelectorAll('table')].filter((t) => !t.getAttribute('aria-labelledby') && !t.getAttribute('aria-label')).length`), 0)
	expect(t, "rows without a role", value[int](t, tab, `document.querySelectorAll('table tr:not([role=row]), table th:not([role]), table td:not([role=cell])').length`), 0)
	until(t, tab, `document.getElementById('status').textContent === '7 pods to leave, 2 nodes tainted NoExecute.'`)
}

func TestThePageWorksByKeyboard(t *testing.T) {
	scene, tab := play(t, board.Small(time.Now()), look)
	until(t, tab, whole)
	const focused = `document.activeElement.id || document.activeElement.textContent`

	press(t, tab, "/")
	expect(t, "the filter has the focus", value[string](t, tab, focused), "filter-text")
	press(t, tab, "w", "o", "r", "k", "e", "r", "-", "b", "1")
	expect(t, "the filter", value[string](t, tab, `document.getElementById('filter-text').value`), "worker-b1")
	expect(t, "nodes that match", value[int](t, tab, shown("nodes")), 1)
	expect(t, "pods that match", value[int](t, tab, shown("pending")), 2)
	expect(t, "the count of what the filter shows", value[string](t, tab, `document.getElementById('filter-count').textContent`), "1 of 9 nodes, 2 of 7 pods")
	press(t, tab, kb.Escape)
	expect(t, "nodes after Escape", value[int](t, tab, shown("nodes")), 9)

	press(t, tab, kb.Tab)
	expect(t, "Tab goes on to the first node", value[string](t, tab, focused), "worker-a1")
	press(t, tab, kb.Enter)
	expect(t, "Enter leads to the row of the node", value[string](t, tab, focused), "node.worker-a1")
	press(t, tab, kb.Tab)
	expect(t, "Tab leads to its pods", value[string](t, tab, focused), "5 pods")

	node := board.Node("worker-a1", "eu-1", board.NoExecute("z", "", time.Now()), board.NoExecute("y", "", time.Now()))
	scene.SetNode(&node)
	until(t, tab, board.RowOf("nodes", "worker-a1")+`.includes('z:NoExecute')`)
	expect(t, "the focus after an update", value[string](t, tab, focused), "5 pods")
	expect(t, "the row of the focus", value[string](t, tab, `document.activeElement.closest('tr').id`), "node.worker-a1")
	press(t, tab, kb.Enter)
	expect(t, "Enter shows its pods", value[int](t, tab, shown("pending")), 5)
	expect(t, "the focus is at the pods", value[string](t, tab, focused), "pending")
	quiet(t, tab, scene.Address)
}

func TestTheFocusStaysInARowThatMoves(t *testing.T) {
	scene, tab := play(t, board.Small(time.Now()), look)
	until(t, tab, board.Rows("nodes")+` === 9`)
	value[bool](t, tab, `document.querySelector('[id="node.worker-a3"]').focus(), true`)
	node := board.Node("worker-a3", "eu-1", board.NoExecute("a", "", time.Now()))
	scene.SetNode(&node)
	until(t, tab, board.RowOf("nodes", "worker-a3")+`.includes('a:NoExecute')`)
	expect(t, "the place of the row", value[int](t, tab, `[...document.querySelectorAll('[data-zone="eu/eu-1"] tbody tr')].findIndex((tr) => tr.id === 'node.worker-a3')`), 1)
	expect(t, "the focus", value[string](t, tab, `document.activeElement.id`), "node.worker-a3")
}

func TestAPageThatComesBackKeepsItsRowsAndTheFocus(t *testing.T) {
	scene, tab := play(t, board.Small(time.Now()), look)
	until(t, tab, board.Rows("nodes")+` === 9`)
	value[bool](t, tab, `document.querySelector('[id="node.worker-a3"]').focus(), true`)
	// The page recovers after a second, so an observer records the alert: looking for it could be too late.
	value[bool](t, tab, `(() => {
		const stale = document.getElementById('stale');
		new MutationObserver(() => { if (!stale.hidden) window.wasStale_ = true; }).observe(stale, { attributes: true });
		return true;
	})()`)
	scene.Disconnect()
	until(t, tab, `window.wasStale_ === true`)
	node := board.Node("worker-a2", "eu-1", board.NoExecute("a", "", time.Now()))
	scene.SetNode(&node)
	until(t, tab, board.RowOf("nodes", "worker-a2")+`.includes('a:NoExecute')`)
	expect(t, "nodes", value[int](t, tab, board.Rows("nodes")), 9)
	expect(t, "the focus", value[string](t, tab, `document.activeElement.id`), "node.worker-a3")
	expect(t, "the alert is hidden", value[bool](t, tab, `document.getElementById('stale').hidden`), true)
}

func TestWhatAMessageCarriesIsNotRun(t *testing.T) {
	const hostile = `<img src=//evil.example/x onerror=document.title='run'>`
	objects := board.Small(time.Now())
	objects.Events[1].Message = hostile
	objects.Nodes[0].Labels[corev1.LabelTopologyZone] = hostile
	objects.Cluster = hostile
	scene, tab := play(t, objects, look)
	until(t, tab, board.Rows("differences")+` === 1`)
	expect(t, "images", value[int](t, tab, `document.images.length`), 0)
	expect(t, "the sentence", value[string](t, tab, `document.querySelector('table[data-sheet=differences] td:last-child').textContent`), hostile)
	quiet(t, tab, scene.Address)
}

func TestThePageFitsANarrowScreen(t *testing.T) {
	_, tab := play(t, board.Small(time.Now()), web.View{Width: 320, Height: 640, Scheme: "light"})
	until(t, tab, board.Rows("pending")+` === 7`)
	expect(t, "the width of the page", value[int](t, tab, `document.documentElement.scrollWidth`), 320)
}

func TestAPageThatLosesTheBoardSaysSoAndShowsWhatItHad(t *testing.T) {
	scene, tab := play(t, board.Small(time.Now()), look)
	until(t, tab, board.Rows("pending")+` === 7`)
	scene.Close()
	until(t, tab, `!document.getElementById('stale').hidden && document.getElementById('stale').textContent.includes('the board does not answer')`)
	expect(t, "pods that are shown", value[int](t, tab, shown("pending")), 7)
}

func TestSeveralPagesShowTheSameCluster(t *testing.T) {
	scene := board.Open(t.Context(), board.Small(time.Now()))
	t.Cleanup(scene.Close)
	var tabs []*web.Tab
	for range 5 {
		tabs = append(tabs, open(t, scene.Address, look))
	}
	node := board.Node("worker-a2", "eu-1", board.NoExecute("a", "", time.Now()))
	for i, tab := range tabs {
		until(t, tab, board.Rows("nodes")+` === 9`)
		if i == 0 {
			scene.SetNode(&node)
		}
	}
	for _, tab := range tabs {
		until(t, tab, board.RowOf("nodes", "worker-a2")+`.includes('a:NoExecute')`)
	}
}

// A large cluster has 5,000 nodes and 150,000 pods, of which 15,000 must leave.
func TestALargeClusterIsScrolledWhileItChanges(t *testing.T) {
	const nodes, pods = 5000, 150_000
	now := time.Now()
	scene, tab := play(t, board.Large(nodes, pods, now), look)
	until(t, tab, fmt.Sprintf(`%s === %d && document.querySelector('[data-figure=pending]').textContent === '15,000'`, board.Rows("nodes"), nodes))
	expect(t, "pods that are listed", value[int](t, tab, board.Rows("pending")), 500)

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
			node := board.Node(board.LargeName(round*50+i), fmt.Sprintf("eu-%d", 1+(round*50+i)%3), board.NoExecute("round", fmt.Sprint(round), now))
			scene.SetNode(&node)
		}
		until(t, tab, fmt.Sprintf(`document.getElementById('node.%s').textContent.includes('round=%d')`, board.LargeName(round*50+49), round))
	}
	frames := value[[]float64](t, tab, `frames_`)
	slices.Sort(frames)
	at := func(share float64) float64 { return frames[int(share*float64(len(frames)-1))] }
	t.Logf("%d frames: half within %.0f ms, 95%% within %.0f ms, 99%% within %.0f ms, the longest %.0f ms", len(frames), at(0.5), at(0.95), at(0.99), at(1))
	press(t, tab, "/", "n", "o", "d", "e", "-", "4", "9", "9", "9")
	expect(t, "nodes that match", value[int](t, tab, shown("nodes")), 1)
	quiet(t, tab, scene.Address)
}
