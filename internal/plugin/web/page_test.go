// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
)

// written returns a page that says one text wherever it can.
func written(t *testing.T, text string) *html.Node {
	t.Helper()
	var out bytes.Buffer
	err := Write(&out, Page{
		Kind: Plan, Title: text, Answer: text, Losses: []string{text}, Facts: []Fact{{Name: "Cluster", Value: text}},
		Workloads: NewTable([]string{"Workload"}, []string{text}, func(name string) []string { return []string{name} }),
		Footer:    text, Data: &cliv1alpha1.TaintPlan{Notes: []string{text}},
	})
	if err != nil {
		t.Fatal(err)
	}
	document, err := html.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// elements returns the elements of a kind.
func elements(document *html.Node, tag string) (all []*html.Node) {
	for node := range document.Descendants() {
		if node.Type == html.ElementNode && (tag == "" || node.Data == tag) {
			all = append(all, node)
		}
	}
	return all
}

func attribute(node *html.Node, name string) string {
	for _, attribute := range node.Attr {
		if attribute.Key == name {
			return attribute.Val
		}
	}
	return ""
}

func TestTextsOfAnyKindStayText(t *testing.T) {
	for _, text := range []string{
		`</script><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onfocus='alert(1)`, `<!--<script>`, `{{.Data}}`,
		"a\u2028b", `\u003c/script>`, `</title></style></noscript><script>alert(1)</script>`,
	} {
		document := written(t, text)
		for _, node := range elements(document, "") {
			for _, attribute := range node.Attr {
				if strings.HasPrefix(attribute.Key, "on") || attribute.Key == "style" {
					t.Errorf("%q made an attribute %s", text, attribute.Key)
				}
			}
		}
		scripts := elements(document, "script")
		if len(scripts) != 2 || len(elements(document, "img")) > 0 || scripts[1].FirstChild.Data != script {
			t.Fatalf("%q made an element", text)
		}
		var data cliv1alpha1.TaintPlan
		if err := json.Unmarshal([]byte(scripts[0].FirstChild.Data), &data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{text}, data.Notes); diff != "" {
			t.Errorf("the data (-want +got):\n%s", diff)
		}
	}
}

func TestThePolicyAllowsThePagesOwnScriptAndNothingElse(t *testing.T) {
	document := written(t, "x")
	policy := attribute(elements(document, "meta")[1], "content")
	for _, want := range []string{
		"default-src 'none'; ", "connect-src 'none'", hash(script), hash(style), "require-trusted-types-for 'script'", "base-uri 'none'", "form-action 'none'",
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy is %q, without %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("the policy allows too much: %s", policy)
	}
}

// Data that becomes markup could run scripts or load pictures.
func TestThePageLoadsNothingAndTheScriptMakesNoMarkup(t *testing.T) {
	if outside := regexp.MustCompile(`https?://|@import|url\(`).FindAllString(strings.ReplaceAll(markup+style+script, "http://www.w3.org/2000/svg", ""), -1); len(outside) > 0 {
		t.Errorf("the page names something outside: %v", outside)
	}
	for _, never := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
		if strings.Contains(script, never) {
			t.Errorf("the script uses %s", never)
		}
	}
}

// What caused the trouble comes first, and the longest list last.
func TestTheBoardBeginsWithZones(t *testing.T) {
	var ids []string
	_, drawBoard, _ := strings.Cut(script, "const drawBoard")
	for _, found := range regexp.MustCompile(`\{ id: '(\w+)', title`).FindAllStringSubmatch(drawBoard, -1) {
		ids = append(ids, found[1])
	}
	if diff := cmp.Diff([]string{"zones", "workloads", "nodes", "stuck", "pods", "rules", "evictions", "differences"}, ids); diff != "" {
		t.Errorf("the sections (-want +got):\n%s", diff)
	}
}

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
