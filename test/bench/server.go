// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// serverCPU returns the CPU time that the API server has used. Unlike the time that an eviction takes, what it
// costs the API server does not depend on what else the machine does.
func (b *bench) serverCPU(ctx context.Context) (time.Duration, error) {
	request := b.admin.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain")
	metrics, err := request.Do(ctx).Raw()
	if err != nil {
		return 0, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	return parseServerCPU(string(metrics))
}

func parseServerCPU(metrics string) (time.Duration, error) {
	const name = "process_cpu_seconds_total "
	for line := range strings.Lines(metrics) {
		value, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		used, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return 0, fmt.Errorf("parse the API server's metric %s: %w", name, err)
		}
		return time.Duration(used * float64(time.Second)), nil
	}
	return 0, errors.New("the API server has no metric " + name)
}
