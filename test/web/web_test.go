// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/taintkeeper/taintkeeper/test/rig/suite"
	"github.com/taintkeeper/taintkeeper/test/web"
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

// brightness is the sum of the colors of the page's background.
const brightness = `getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0)`

// value returns the value of a JavaScript expression in the page.
func value[T any](t *testing.T, tab *web.Tab, expression string) T {
	t.Helper()
	got, err := chromedp.Run(tab.Context, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("evaluate %s: %v", expression, err)
	}
	return got
}

// press presses keys, one after the other.
func press(t *testing.T, tab *web.Tab, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if key == "/" {
			// A key that the page handles itself enters no text; with chromedp's own key events, it would.
			down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: "/", Code: "Slash"}
			if _, err := chromedp.Call(tab.Context, input.DispatchKeyEvent, down); err != nil {
				t.Fatal(err)
			}
			continue
		}
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

// drawn is a JavaScript expression for how many rows of a table are drawn.
func drawn(table string) string {
	return fmt.Sprintf(`document.querySelectorAll('#%s tbody tr').length`, table)
}
