// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Command screenshot takes the pictures docs/board-light.png and docs/board-dark.png of the board:
// go run ./test/board/screenshot.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"

	"github.com/taintkeeper/taintkeeper/test/board"
	"github.com/taintkeeper/taintkeeper/test/web"
)

func main() {
	out := flag.String("out", "docs", "the folder for the pictures")
	flag.Parse()
	if err := shoot(*out); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func shoot(out string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	browser, end, err := web.Start(ctx)
	if err != nil {
		return err
	}
	defer end()
	for _, scheme := range []string{"light", "dark"} {
		now := time.Now()
		objects := board.Small(now)
		scene := board.Open(ctx, objects)
		picture, err := take(browser, scene, board.Evictions(objects, now), scheme)
		scene.Close()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "board-"+scheme+".png"), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// take takes a picture of a scene that has just begun, once some pods are evicted.
func take(browser *web.Browser, scene *board.Scene, evicted []*corev1.Pod, scheme string) ([]byte, error) {
	tab, err := browser.OpenAddress(scene.Address, web.View{Width: 1120, Height: 990, Scheme: scheme})
	if err != nil {
		return nil, err
	}
	defer tab.Close()
	if err := tab.Until(board.Rows("pending") + ` === 7`); err != nil {
		return nil, err
	}
	for _, pod := range evicted {
		scene.SetPod(pod)
	}
	if err := tab.Until(board.Rows("evictions") + ` === 2`); err != nil {
		return nil, err
	}
	return chromedp.Run(tab.Context, chromedp.CaptureScreenshot())
}
