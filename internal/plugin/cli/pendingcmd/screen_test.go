// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package pendingcmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
	"github.com/taintkeeper/taintkeeper/internal/plugin/plan"
)

var noon = time.Date(2026, time.November, 22, 12, 0, 0, 250e6, time.UTC)

// shown is a screen at noon, and its clock.
type shown struct {
	*screen

	clock *clocktesting.FakePassiveClock
	list  *cliv1alpha1.PendingList
	there map[types.UID]bool
}

func newShown() *shown {
	clock := clocktesting.NewFakePassiveClock(noon)
	return &shown{
		screen: &screen{clock: clock, marks: map[types.UID]mark{}, width: 80, height: 24},
		clock:  clock, list: &cliv1alpha1.PendingList{}, there: map[types.UID]bool{},
	}
}

// pending tells the screen which pods are pending. Others are gone, unless there says that they exist.
func (s *shown) pending(pods ...cliv1alpha1.PendingPod) {
	list := &cliv1alpha1.PendingList{At: metav1.NewMicroTime(s.clock.Now()), Pods: pods}
	changes := plan.ChangesSince(s.list, list, func(uid types.UID) bool { return s.there[uid] })
	s.list = list
	s.Update(update{list: list, changes: changes})
}

// pass lets time pass, and sends the ticks of that time.
func (s *shown) pass(d time.Duration) {
	for range d / time.Second {
		s.clock.SetTime(s.clock.Now().Add(time.Second))
		s.Update(tick{})
	}
}

// lines returns what a terminal without colors would show, without empty lines and the line of keys.
func (s *shown) lines() []string {
	lines := strings.Split(ansi.Strip(s.View().Content), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" || line == "q quits" })
}

func (s *shown) shows(t *testing.T, want ...string) {
	t.Helper()
	if got := s.lines(); !slices.Equal(got, want) {
		t.Errorf("the screen shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func pendingPod(name string, in time.Duration) cliv1alpha1.PendingPod {
	return cliv1alpha1.PendingPod{
		Namespace: "a", Name: name, UID: types.UID(name), Node: "n", Taint: "k:NoExecute",
		Due: metav1.NewMicroTime(noon.Add(in)), Owner: &cliv1alpha1.Owner{Kind: "Job", Name: "j"},
	}
}

func TestAPodThatIsHeldIsNotLate(t *testing.T) {
	s := newShown()
	held := pendingPod("p", -90*time.Second)
	held.Answer = &cliv1alpha1.PolicyAnswer{Says: cliv1alpha1.PolicyHold, Policy: "stop", Reason: "Paused"}
	s.width = 100
	s.pending(held, pendingPod("q", time.Minute))
	s.shows(t,
		"2 pods must leave: 1 due and still there (1 held), the next in 1m0s.",
		"Node n, taint k:NoExecute:",
		"DUE         AT          POD   HELD BY",
		"1m30s ago   11:58:30Z   a/p   stop: Paused",
		"1m0s        12:01:00Z   a/q",
	)
}

func TestABoardCountsDownEachSecond(t *testing.T) {
	s := newShown()
	s.shows(t, "Reading nodes and pods.")
	s.pending()
	s.shows(t, "No pod needs to leave.")
	s.pending(pendingPod("p", 3*time.Second+500*time.Millisecond), pendingPod("q", time.Hour))
	s.shows(t,
		"2 pods must leave, the next in 4s.",
		"Node n, taint k:NoExecute:",
		"LEAVES   AT          POD",
		"4s       12:00:03Z   a/p",
		"1h0m0s   13:00:00Z   a/q",
	)
	s.pass(3 * time.Second)
	s.shows(t,
		"2 pods must leave, the next in 1s.",
		"Node n, taint k:NoExecute:",
		"LEAVES   AT          POD",
		"1s       12:00:03Z   a/p",
		"59m57s   13:00:00Z   a/q",
	)
	s.pass(2 * time.Second)
	s.shows(t,
		"2 pods must leave: 1 due and still there, the next in 59m55s.",
		"Node n, taint k:NoExecute:",
		"LEAVES    AT          POD",
		"1s late   12:00:03Z   a/p",
		"59m55s    13:00:00Z   a/q",
	)
}

func TestAPodThatIsGoneOrCancelledStaysInSightForAWhile(t *testing.T) {
	s := newShown()
	s.pending(pendingPod("p", time.Minute), pendingPod("q", time.Hour), pendingPod("r", 2*time.Hour))
	s.pass(10 * time.Second)
	s.there["q"] = true
	s.pending(pendingPod("r", 2*time.Hour))
	s.pass(lingers - time.Second)
	s.shows(t,
		"1 pod must leave, in 1h59m46s.",
		"Node n, taint k:NoExecute:",
		"LEAVES      AT          POD",
		"gone        12:01:00Z   a/p",
		"cancelled   13:00:00Z   a/q",
		"1h59m46s    14:00:00Z   a/r",
	)
	s.pass(time.Second)
	s.shows(t,
		"1 pod must leave, in 1h59m45s.",
		"Node n, taint k:NoExecute:",
		"LEAVES     AT          POD",
		"1h59m45s   14:00:00Z   a/r",
	)
}

func TestAPodThatIsCancelledAndLeavesAgainIsShownOnce(t *testing.T) {
	s := newShown()
	s.there["p"] = true
	s.pending(pendingPod("p", time.Minute))
	s.pending()
	s.pending(pendingPod("p", time.Hour))
	s.shows(t,
		"1 pod must leave, in 1h0m0s.",
		"Node n, taint k:NoExecute:",
		"LEAVES   AT          POD",
		"1h0m0s   13:00:00Z   a/p",
	)
}

func TestWhatIsNewAndWhatIsLateStandsOut(t *testing.T) {
	s := newShown()
	s.pending(pendingPod("late", -time.Second), pendingPod("new", time.Hour))
	colored := func(name string) string {
		for line := range strings.Lines(s.View().Content) {
			if strings.HasSuffix(strings.TrimSpace(ansi.Strip(line)), "a/"+name) && strings.Contains(line, "\x1b[") {
				return line[:strings.Index(line, "m")+1]
			}
		}
		return ""
	}
	fresh, late := colored("new"), colored("late")
	if fresh == "" || late == "" || fresh == late {
		t.Errorf("the new one is marked %q and the late one %q", fresh, late)
	}
	s.pass(lingers)
	if colored("new") != "" || colored("late") == "" {
		t.Error("the mark of the new one stays, or that of the late one goes")
	}
}

func TestABoardFitsTheTerminal(t *testing.T) {
	s := newShown()
	var pods []cliv1alpha1.PendingPod
	for range 30 {
		pods = append(pods, pendingPod("a-pod-with-a-name-that-is-rather-long", time.Hour))
	}
	s.pending(pods...)
	s.Update(tea.WindowSizeMsg{Width: 40, Height: 15})
	s.Update(trouble("The watch of pods is broken, and the reason is long."))
	view := strings.Split(ansi.Strip(s.View().Content), "\n")
	if len(view) > 15 {
		t.Errorf("it has %d lines on a terminal of 15", len(view))
	}
	for _, line := range view {
		if ansi.StringWidth(line) > 40 {
			t.Errorf("a line is too long: %q", line)
		}
	}
	if !slices.Contains(view, "and 25 more") {
		t.Errorf("it does not say how many are left out:\n%s", strings.Join(view, "\n"))
	}
}

func TestTroubleIsShownUntilThereIsNews(t *testing.T) {
	s := newShown()
	s.pending()
	s.Update(trouble("The watch of pods is broken."))
	s.shows(t, "No pod needs to leave.", "Note: The watch of pods is broken.")
	s.pass(time.Minute)
	s.shows(t, "No pod needs to leave.", "Note: The watch of pods is broken.")
	s.pending()
	s.shows(t, "No pod needs to leave.")
}

func TestThatTaintkeeperDoesNotEvictIsShownAsAWholeWhileItDoesNot(t *testing.T) {
	s := newShown()
	s.Update(tea.WindowSizeMsg{Width: 30, Height: 20})
	s.Update(update{list: &cliv1alpha1.PendingList{}, idle: "Taintkeeper is not running. Due pods leave only if the built-in controller evicts them."})
	s.pass(time.Minute)
	s.shows(t, "No pod needs to leave.", "Note: Taintkeeper is not", "running. Due pods leave only", "if the built-in controller", "evicts them.")
	s.pending()
	s.shows(t, "No pod needs to leave.")
}

func TestQEscapeAndControlCQuitAndOtherKeysDoNot(t *testing.T) {
	quits := func(key tea.KeyPressMsg) bool {
		_, command := newShown().Update(key)
		if command == nil {
			return false
		}
		_, is := command().(tea.QuitMsg)
		return is
	}
	for name, key := range map[string]tea.KeyPressMsg{
		"q": {Code: 'q', Text: "q"}, "escape": {Code: tea.KeyEscape}, "control-c": {Code: 'c', Mod: tea.ModCtrl},
	} {
		if !quits(key) {
			t.Errorf("%s does not quit", name)
		}
	}
	for name, key := range map[string]tea.KeyPressMsg{"c": {Code: 'c', Text: "c"}, "down": {Code: tea.KeyDown}} {
		if quits(key) {
			t.Errorf("%s quits", name)
		}
	}
}

func TestABoardTakesHeadersAndColumnsFromTheFlags(t *testing.T) {
	s := newShown()
	s.output.NoHeaders, s.output.Format, s.width = true, output.Wide, 0
	s.pending(pendingPod("p", 50*time.Hour))
	s.shows(t,
		"1 pod must leave, in 2d2h.",
		"2d2h   2026-11-24T14:00:00Z   a/p   n   k:NoExecute   Job/j   none   0",
	)
}
