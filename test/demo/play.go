// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

const (
	// framePeriod is how often the state of both sides is drawn.
	framePeriod = 100 * time.Millisecond
	indent      = "  "
)

// playDemo plays all acts on two control planes, and fails when Taintkeeper was wrong in one.
func playDemo(ctx context.Context, told screen, binary string) (err error) {
	began := time.Now()
	sides, err := startSides(ctx, binary)
	defer func() { err = errors.Join(err, stopSides(sides)) }()
	if err != nil {
		return err
	}
	d := &demo{screen: told, sides: sides}
	d.introduce()
	var right [2]int
	for i, a := range acts {
		found, err := d.play(ctx, i+1, a)
		if err != nil {
			return fmt.Errorf("act %d: %w", i+1, err)
		}
		for s := range found {
			if found[s].Right {
				right[s]++
			}
		}
	}
	return d.conclude(right, time.Since(began))
}

// demo is two sides that play the same, and where that is shown.
type demo struct {
	screen

	sides [2]*side
}

func (d *demo) introduce() {
	d.title(fmt.Sprintf("The same %d acts, at the same time, on two control planes of Kubernetes %s.", len(acts), d.sides[0].Version))
	d.say("")
	d.say("%sBoth are real and on this machine, without kubelets. On one of them, Taintkeeper runs next to", indent)
	d.say("%skube-controller-manager, whose flags are the same on both. At most 20 calls a second each, which is its default.", indent)
}

// play plays an act on both sides, and shows meanwhile how they stand.
func (d *demo) play(ctx context.Context, number int, a act) (found [2]Finding, err error) {
	d.say("")
	d.title(fmt.Sprintf("%d. %s%s", number, strings.ToUpper(a.Name[:1]), a.Name[1:]))
	for _, line := range a.about {
		d.say("%s%s", indent, line)
	}
	d.say("")
	group, playing := errgroup.WithContext(ctx)
	cues := &cues{say: d.say}
	for i, s := range d.sides {
		s.cues, s.status, s.play = cues, a.status, nil
		group.Go(func() (err error) {
			found[i], err = Run(playing, s, a.namespace, a.Scenario)
			return err
		})
	}
	drawing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for await.Pause(drawing, framePeriod) == nil {
			d.draw(d.lines(d.sides[0].now(), d.sides[1].now()))
		}
	}()
	err = group.Wait()
	stop()
	<-done
	if err == nil {
		d.finish(d.lines(found[0].String(), found[1].String()))
	}
	return found, err
}

// lines are one for each side.
func (d *demo) lines(texts ...string) (all []string) {
	for i, text := range texts {
		all = append(all, fmt.Sprintf("%s%-18s %s", indent, d.sides[i].name, text))
	}
	return all
}

// conclude says how it went, and what to do next.
func (d *demo) conclude(right [2]int, took time.Duration) error {
	d.say("")
	d.title(fmt.Sprintf("Kubernetes alone was right in %d of %d acts, with Taintkeeper in %d. It took %d s.",
		right[0], len(acts), right[1], int(took.Seconds())))
	d.say("")
	for _, next := range []struct{ command, does string }{
		{"bin/kubectl-taintkeeper check", "looks for such trouble in your own cluster; it only reads"},
		{"bin/kubectl-taintkeeper plan NODE power=off:NoExecute", "says what a taint would do, before you set it"},
		{"make playground", "keeps a control plane, with workloads and a live page"},
		{"make try", "installs the chart in a control plane, in shadow mode first"},
	} {
		d.say("%s%-55s # %s", indent, next.command, next.does)
	}
	if right[1] < len(acts) {
		return errors.New("with Taintkeeper, something was wrong: the output above says what")
	}
	return nil
}
