// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command screenshot draws the pictures of docs/ (make screenshots): a terminal, a plan, a simulation and the board.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/taintkeeper/taintkeeper/test/web"
)

// pictures are what is shown, by the beginning of their files' names.
var pictures = []struct {
	name      string
	height    int64
	arguments []string
}{
	{"plan", 1000, []string{"plan", "worker-a1", "worker-a2", "worker-b2", "maintenance=planned:NoExecute"}},
	{"simulate", 1080, []string{"simulate", "--where-to", "examples/simulations/zone.yaml"}},
}

func main() {
	cluster := flag.String("cluster", "examples/cluster.yaml", "the objects of the cluster")
	out := flag.String("out", "docs", "the folder for the pictures")
	flag.Parse()
	if err := errors.Join(drawTerminal(*cluster, *out), shoot(*cluster, *out)); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func shoot(cluster, out string) error {
	folder, err := os.MkdirTemp("", "taintkeeper-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	browser, end, err := web.Start(ctx)
	if err != nil {
		return err
	}
	defer end()
	for _, picture := range pictures {
		written, err := web.Print(append(picture.arguments, "-f", cluster, "-o", "html")...)
		if err != nil {
			return err
		}
		file := filepath.Join(folder, picture.name+".html")
		if err := os.WriteFile(file, written, 0o600); err != nil {
			return err
		}
		for _, scheme := range []string{"light", "dark"} {
			view := web.View{Width: 1120, Height: picture.height, Scheme: scheme}
			if err := take(browser, file, view, filepath.Join(out, picture.name+"-"+scheme+".png")); err != nil {
				return err
			}
		}
	}
	return shootBoard(ctx, browser, out)
}

// shootBoard takes the pictures of a scene that has just begun, once some pods are evicted.
func shootBoard(ctx context.Context, browser *web.Browser, out string) error {
	for _, scheme := range []string{"light", "dark"} {
		now := time.Now()
		objects := web.Small(now)
		scene := web.Open(ctx, objects)
		evict := func(tab *web.Tab) error { //nolint:contextcheck // the browser has it
			if err := tab.Until(web.Rows("pods") + ` === 7`); err != nil {
				return err
			}
			for _, pod := range web.Evictions(objects, now) {
				scene.SetPod(pod)
			}
			return tab.Until(web.Rows("evictions") + ` === 2`)
		}
		view := web.View{Width: 1120, Height: 1250, Scheme: scheme}
		tab, err := browser.OpenAddress(scene.Address, view) //nolint:contextcheck // the browser has it
		if err == nil {
			err = errors.Join(evict(tab), capture(tab, filepath.Join(out, "board-"+scheme+".png")))
			tab.Close()
		}
		scene.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// take takes a picture of a page.
func take(browser *web.Browser, file string, view web.View, out string) error {
	tab, err := browser.Open(file, view)
	if err != nil {
		return err
	}
	defer tab.Close()
	return capture(tab, out)
}

// capture writes a picture of what a tab shows.
func capture(tab *web.Tab, out string) error {
	picture, err := chromedp.Run(tab.Context, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(out, picture, 0o644)
}
