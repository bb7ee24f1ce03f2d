// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics is what a process serves at /metrics, by name.
type metrics map[string]*dto.MetricFamily

func scrape(ctx context.Context, client *http.Client, address string) (metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("scrape %s: %w", address, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("scrape: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape %s: it answers %s", address, response.Status)
	}
	return parseMetrics(response.Body)
}

func parseMetrics(from io.Reader) (metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(from)
	if err != nil {
		return nil, fmt.Errorf("parse metrics: %w", err)
	}
	return families, nil
}

// only returns a metric without labels.
func (m metrics) only(name string) (*dto.Metric, error) {
	if all := m[name].GetMetric(); len(all) > 0 {
		return all[0], nil
	}
	return nil, fmt.Errorf("there is no metric %s", name)
}

// aboutEvictions returns the metrics whose name speaks of evictions.
func (m metrics) aboutEvictions() []*dto.MetricFamily {
	var found []*dto.MetricFamily
	for name, family := range m {
		if strings.Contains(name, "evict") {
			found = append(found, family)
		}
	}
	return found
}

func hasLabel(family *dto.MetricFamily, name string) bool {
	return slices.ContainsFunc(family.GetMetric(), func(metric *dto.Metric) bool {
		return slices.ContainsFunc(metric.GetLabel(), func(label *dto.LabelPair) bool { return label.GetName() == name })
	})
}
