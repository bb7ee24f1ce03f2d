// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package pendingcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/plugin/output"
)

// lingers is how long a change stays marked, and a pod that is gone stays visible.
const lingers = 5 * time.Second

// screen shows pending pods with running countdowns on a terminal.
type screen struct {
	clock         clock.PassiveClock
	output        output.Printer
	width, height int

	known  bool // whether an update has arrived
	pods   []cliv1alpha1.PendingPod
	marks  map[types.UID]mark
	passed []cliv1alpha1.PendingChange // gone or cancelled, and still visible
	note   string
	idle   string // as of state.Cluster
}

// mark says why a pod is highlighted, and until when.
type mark struct {
	event cliv1alpha1.PendingEvent
	until time.Time
}

// Messages to a screen, apart from keys and sizes.
type (
	tick    struct{}
	trouble string
)

func newScreen(o *options) *screen {
	return &screen{
		clock: o.source.Env.Clock, output: o.output, marks: map[types.UID]mark{},
	}
}

// newProgram returns the program that shows a screen on the terminal.
func (o *options) newProgram(ctx context.Context) *tea.Program {
	terminal, _ := output.FileOf(o.source.Env.Out)
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(terminal), tea.WithoutSignalHandler()}
	if output.IsTerminal(o.source.Env.In) {
		options = append(options, tea.WithInput(o.source.Env.In))
	}
	return tea.NewProgram(newScreen(o), options...)
}

// runScreen shows a screen until the user quits.
func runScreen(ctx context.Context, program *tea.Program, f *follower) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- f.run(ctx, func(update update) { program.Send(update) })
		program.Quit()
	}()
	_, err := program.Run()
	stopped := ctx.Err() != nil
	cancel()
	if followed := <-done; followed != nil {
		return followed
	}
	if err != nil && !stopped && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show pending pods: %w", err)
	}
	return nil
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd { return nextTick() }

func nextTick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tick{} }) }

// Update implements tea.Model.
func (s *screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.KeyPressMsg:
		if slices.Contains([]string{"q", "esc", "ctrl+c"}, message.String()) {
			return s, tea.Quit
		}
	case tea.WindowSizeMsg:
		s.width, s.height = message.Width, message.Height
	case update:
		s.take(message)
	case trouble:
		s.note = string(message)
	case tick:
		s.forget()
		return s, nextTick()
	}
	return s, nil
}

// take shows an update.
func (s *screen) take(update update) {
	s.known, s.pods, s.idle = true, update.list.Pods, update.idle
	if !update.broken {
		s.note = ""
	}
	until := s.clock.Now().Add(lingers)
	for _, change := range update.changes {
		s.marks[change.Pod.UID] = mark{change.Change, until}
		switch change.Change {
		case cliv1alpha1.PendingGone, cliv1alpha1.PendingCancelled:
			s.passed = append(s.passed, change)
		}
	}
	s.forget()
}

// forget removes marks and gone pods that were shown for long enough.
func (s *screen) forget() {
	now := s.clock.Now()
	for uid, mark := range s.marks {
		if !now.Before(mark.until) {
			delete(s.marks, uid)
		}
	}
	s.passed = slices.DeleteFunc(s.passed, func(change cliv1alpha1.PendingChange) bool {
		return s.marks[change.Pod.UID].event != change.Change
	})
}

// Styles of a screen. Colors are the terminal's own sixteen, which match the user's theme.
var (
	styleBold = lipgloss.NewStyle().Bold(true)
	styleLate = lipgloss.NewStyle().Foreground(lipgloss.Red)
	styleNew  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	styleGone = lipgloss.NewStyle().Faint(true)
)

// View implements tea.Model.
func (s *screen) View() tea.View {
	lines := []string{styleBold.Render(s.title()), ""}
	lines = append(lines, s.table()...)
	for _, line := range s.notes() {
		lines = append(lines, styleLate.Render(line))
	}
	lines = append(lines, "", styleGone.Render("q quits"))
	if s.width > 0 {
		for i := range lines {
			lines[i] = ansi.Truncate(lines[i], s.width, "…")
		}
	}
	view := tea.NewView(strings.Join(lines, "\n"))
	view.AltScreen = true
	return view
}

// notes are the lines below the table. The note that Taintkeeper does not evict is shown completely, because its last
// part says what that means.
func (s *screen) notes() (lines []string) {
	if s.idle != "" {
		idle := ansi.Wordwrap("Note: "+output.Printable(s.idle), s.width, "")
		lines = append(lines, strings.Split("\n"+idle, "\n")...)
	}
	if s.note != "" {
		lines = append(lines, "", "Note: "+output.Printable(s.note))
	}
	return lines
}

func (s *screen) title() string {
	if !s.known {
		return "Reading nodes and pods."
	}
	return headline(s.pods, s.clock.Now())
}

// line is one line of the table before it is aligned.
type line struct {
	pod    *cliv1alpha1.PendingPod
	leaves string
	style  lipgloss.Style
}

func (s *screen) rows() []line {
	now := s.clock.Now()
	var rows []line
	for i := range s.passed {
		change := &s.passed[i]
		rows = append(rows, line{&change.Pod, strings.ToLower(string(change.Change)), styleGone})
	}
	for i := range s.pods {
		pod := &s.pods[i]
		row := line{pod, countdown(now, pod.Due.Time), lipgloss.NewStyle()}
		switch marked, ok := s.marks[pod.UID]; {
		case !pod.Due.After(now) && pod.Answer.Stays():
			row.leaves = inSeconds(now.Sub(pod.Due.Time).Truncate(time.Second)) + " ago"
		case !pod.Due.After(now):
			row.style = styleLate
		case ok && marked.event != cliv1alpha1.PendingDueNow:
			row.style = styleNew
		}
		rows = append(rows, row)
	}
	return rows
}

// besides is the number of lines on a screen other than rows and notes: title, common values, column names, number of
// rows left out, keys, and space.
const besides = 8

// table returns as many rows as fit on the screen.
func (s *screen) table() []string {
	rows := s.rows()
	if len(rows) == 0 {
		return nil
	}
	most := len(rows)
	if s.height > 0 {
		most = min(most, max(s.height-besides-len(s.notes()), 1))
	}
	lines := s.aligned(rows[:most])
	for i := range most {
		line := &lines[len(lines)-most+i]
		*line = rows[i].style.Render(*line)
	}
	if left := len(rows) - most; left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", left))
	}
	return lines
}

// aligned returns rows below column names, without styles.
func (s *screen) aligned(rows []line) []string {
	columns := columnsFor(s.pods)
	cells := make([]output.PodRow, 0, len(rows))
	for _, row := range rows {
		cells = append(cells, rowOf(&s.output, row.pod, s.clock.Now(), row.leaves, columns))
	}
	return s.output.PodLines(columns, cells)
}

// countdown says to the second how long it is until an instant, or how long ago it was. It rounds up, so no pod is due
// before its countdown ends.
func countdown(now, due time.Time) string {
	if late := now.Sub(due); late >= 0 {
		return inSeconds(late.Truncate(time.Second)) + " late"
	}
	left := due.Sub(now)
	return inSeconds(max((left + time.Second - 1).Truncate(time.Second), 0))
}

// inSeconds writes a span as 3d4h, 1h2m3s, 2m3s or 3s.
func inSeconds(span time.Duration) string {
	const day = 24 * time.Hour
	if span < day {
		return span.String()
	}
	return fmt.Sprintf("%dd%dh", span/day, span%day/time.Hour)
}
