// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
)

const root = "../../../"

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(root + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rulesOf returns the rules among the examples of a page.
func rulesOf(t *testing.T, page string) []*v1alpha1.NodeTaintRule {
	t.Helper()
	scheme, err := v1alpha1.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var rules []*v1alpha1.NodeTaintRule
	for _, block := range strings.Split(read(t, page), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "kind: NodeTaintRule\n") {
			continue
		}
		for document := range strings.SplitSeq(block, "---\n") {
			object, _, err := decoder.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", page, err, document)
			}
			rules = append(rules, object.(*v1alpha1.NodeTaintRule))
		}
	}
	return rules
}

func TestTheRulesOfThePagesAreAccepted(t *testing.T) {
	for page, least := range map[string]int{"docs/node-taint-rules.md": 1, "docs/node-problem-detector.md": 5} {
		rules := rulesOf(t, page)
		if len(rules) < least {
			t.Errorf("%s has %d rules", page, len(rules))
		}
		for _, rule := range rules {
			if verdict := judge(rule, rules); !verdict.accepted() {
				t.Errorf("%s: rule %s is not accepted: %s", page, rule.Name, verdict.message)
			}
		}
	}
}

func TestThePageOfNodeProblemDetectorHasTheWholeExample(t *testing.T) {
	if example := read(t, "examples/node-problem-detector.yaml"); !strings.Contains(
		read(t, "docs/node-problem-detector.md"), "```yaml\n"+example+"```\n") {
		t.Error("the page has other rules than the file: copy the file into the page")
	}
}
