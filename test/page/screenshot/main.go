// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command screenshot takes the pictures docs/plan-light.png and docs/plan-dark.png of a plan for examples/cluster.yaml:
// make screenshots.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/chromedp/chromedp"

	"github.com/taintkeeper/taintkeeper/test/page"
)

func main() {
	cluster := flag.String("cluster", "examples/cluster.yaml", "the objects of the cluster")
	out := flag.String("out", "docs", "the folder for the pictures")
	flag.Parse()
	if err := shoot(*cluster, *out); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func shoot(cluster, out string) error {
	written, err := page.Plan("-f", cluster, "worker-a1", "worker-a2", "worker-b2", "maintenance=planned:NoExecute",
		"-o", "html")
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "taintkeeper-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "plan.html")
	if err := os.WriteFile(file, written, 0o600); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	browser, end, err := page.Start(ctx)
	if err != nil {
		return err
	}
	defer end()
	for _, scheme := range []string{"light", "dark"} {
		tab, err := browser.Open(file, page.View{Width: 1120, Height: 1000, Scheme: scheme})
		if err != nil {
			return err
		}
		picture, err := chromedp.Run(tab.Context, chromedp.CaptureScreenshot())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "plan-"+scheme+".png"), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}
