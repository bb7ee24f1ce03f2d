// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package web opens pages in headless Chromium, for tests and for the pictures in docs: those of plans, simulations and
// the board, of a real control plane or of scenes played by client-go's fakes.
package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// ErrNoBrowser says what to install.
var ErrNoBrowser = errors.New("no Chromium found: install it (Debian: apt-get install chromium), or name a Chromium or Chrome in $CHROMIUM")

// find returns the path of a Chromium or Chrome.
func find() (string, error) {
	if named := os.Getenv("CHROMIUM"); named != "" {
		return named, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoBrowser
}

// Browser is a headless Chromium.
type Browser struct{ ctx context.Context }

// Start starts one. It ends with the context, or when stop is called.
func Start(ctx context.Context) (browser *Browser, stop func(), err error) {
	path, err := find()
	if err != nil {
		return nil, nil, err
	}
	// It opens only our own pages, and in many containers its sandbox cannot be set up.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("force-color-profile", "srgb"))
	allocator, endAllocator := chromedp.NewExecAllocator(ctx, options...)
	browserCtx, endBrowser := chromedp.NewContext(allocator)
	stop = func() { endBrowser(); endAllocator() }
	if err := chromedp.Do(browserCtx); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start %s: %w", path, err)
	}
	return &Browser{browserCtx}, stop, nil
}

// Tab is an open page, with all that it asked for and complained about.
type Tab struct {
	// Context is the tab for chromedp, and Close closes it.
	Context context.Context
	Close   func()

	mu                 sync.Mutex
	requests, problems []string
}

// Requests returns the URLs that the page has asked for, its own among them.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// Problems returns what the console and the browser's log have shown, and all uncaught exceptions.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.problems)
}

// View is how a page is looked at.
type View struct {
	Width, Height int64
	// Scheme is light or dark.
	Scheme string
	// NoScript is a browser without JavaScript.
	NoScript bool
}

// Open opens a file in a new tab. The tab ends with the browser.
func (b *Browser) Open(file string, view View) (*Tab, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	return b.OpenAddress((&url.URL{Scheme: "file", Path: path}).String(), view)
}

// OpenAddress opens an address in a new tab. The tab ends with the browser.
func (b *Browser) OpenAddress(address string, view View) (*Tab, error) {
	ctx, closeTab := chromedp.NewContext(b.ctx)
	tab := &Tab{Context: ctx, Close: closeTab}
	if err := tab.prepare(view); err != nil {
		closeTab()
		return nil, fmt.Errorf("open a tab: %w", err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		closeTab()
		return nil, fmt.Errorf("open %s: %w", address, err)
	}
	return tab, nil
}

// prepare listens, and sets how the page is looked at.
func (t *Tab) prepare(view View) error {
	if err := chromedp.Listen(t.Context, t.note); err != nil {
		return err
	}
	if _, err := chromedp.Call(t.Context, network.Enable, network.EnableParams{}); err != nil {
		return err
	}
	script := emulation.SetScriptExecutionDisabledParams{Value: view.NoScript}
	if _, err := chromedp.Call(t.Context, emulation.SetScriptExecutionDisabled, script); err != nil {
		return err
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: view.Scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if _, err := chromedp.Call(t.Context, emulation.SetEmulatedMedia, media); err != nil {
		return err
	}
	return chromedp.Do(t.Context, chromedp.EmulateViewport(view.Width, view.Height))
}

// Until waits until an expression is true in the page. It is evaluated before each frame.
func (t *Tab) Until(expression string) error {
	waiting := fmt.Sprintf("new Promise((done) => { const look = () => { if (%s) done(true); else requestAnimationFrame(look); }; look(); })", expression)
	ctx, cancel := context.WithTimeout(t.Context, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](waiting, chromedp.EvalAwaitPromise)); err != nil {
		return fmt.Errorf("wait for %s: %w", expression, err)
	}
	return nil
}

// When returns the instant at which an expression became true in the page, by the clock of this machine. It is
// evaluated at each change of the page.
func (t *Tab) When(expression string) (time.Time, error) {
	waiting := fmt.Sprintf(`new Promise((done) => {
		const look = () => { if (%s) done(performance.timeOrigin + performance.now()); };
		new MutationObserver(look).observe(document.body, {
			subtree: true, childList: true, characterData: true, attributes: true,
		});
		look();
	})`, expression)
	ctx, cancel := context.WithTimeout(t.Context, patience)
	defer cancel()
	ms, err := chromedp.Run(ctx, chromedp.Evaluate[float64](waiting, chromedp.EvalAwaitPromise))
	if err != nil {
		return time.Time{}, fmt.Errorf("wait for %s: %w", expression, err)
	}
	return time.UnixMicro(int64(ms * 1000)), nil
}

// patience is how long a page may take to become what is waited for.
const patience = 2 * time.Minute

// Print makes the page look as it does when printed.
func (t *Tab) Print() error {
	_, err := chromedp.Call(t.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	return err
}

// note takes down what the page asks for and what it complains about.
func (t *Tab) note(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, event.Request.URL)
	case *log.EventEntryAdded:
		t.problems = append(t.problems, event.Entry.Text)
	case *runtime.EventConsoleAPICalled:
		for _, argument := range event.Args {
			t.problems = append(t.problems, string(argument.Value))
		}
	case *runtime.EventExceptionThrown:
		t.problems = append(t.problems, event.ExceptionDetails.Text)
	}
}

// Rows is a JavaScript expression for the number of rows of a table that match the filter, drawn or not.
func Rows(table string) string {
	return fmt.Sprintf(`Number(document.getElementById(%q)?.dataset.rows ?? 0)`, table)
}

// RowOf is a JavaScript expression for the text of the row whose first cell contains a name; empty if there is none.
func RowOf(table, name string) string {
	return fmt.Sprintf(`([...document.querySelectorAll('#%s tbody tr')]`+
		`.find((tr) => tr.cells[0].textContent.includes(%q))?.textContent ?? '')`, table, name)
}
