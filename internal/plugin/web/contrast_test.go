// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// WCAG 2.2, success criteria 1.4.3 and 1.4.11: text needs a contrast of 4.5, and shapes of 3.
func TestTheContrastIsEnoughInLightAndDark(t *testing.T) {
	before, after, ok := strings.Cut(style, "@media screen and (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("the style has no dark mode")
	}
	light := palette(before)
	dark := maps.Clone(light)
	maps.Copy(dark, palette(after))
	for mode, colors := range map[string]map[string]string{"light": light, "dark": dark} {
		for _, ground := range []string{"ground", "raised", "band"} {
			for _, name := range []string{"text", "soft", "accent", "bad", "warn", "same", "well"} {
				if got := contrast(t, colors[name], colors[ground]); got < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f, want 4.5", mode, name, ground, got)
				}
			}
		}
		if mode == "dark" && colors["ground"] == light["ground"] {
			t.Error("the dark mode is light")
		}
	}
}

// palette returns the colors that a style names.
func palette(style string) map[string]string {
	colors := map[string]string{}
	for _, match := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]{6});`).FindAllStringSubmatch(style, -1) {
		colors[match[1]] = match[2]
	}
	return colors
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	value, err := strconv.ParseUint(color, 16, 32)
	if err != nil {
		t.Fatalf("color %q: %v", color, err)
	}
	sum := 0.0
	for shift, weight := range map[int]float64{16: 0.2126, 8: 0.7152, 0: 0.0722} {
		channel := float64(value>>shift&0xff) / 255
		if channel <= 0.04045 {
			sum += weight * channel / 12.92
		} else {
			sum += weight * math.Pow((channel+0.055)/1.055, 2.4)
		}
	}
	return sum
}
