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

// rulesIn returns the rules in YAML documents.
func rulesIn(t *testing.T, documents string) []*v1alpha1.NodeTaintRule {
	t.Helper()
	scheme, err := v1alpha1.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var rules []*v1alpha1.NodeTaintRule
	for document := range strings.SplitSeq(documents, "---\n") {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		rules = append(rules, object.(*v1alpha1.NodeTaintRule))
	}
	return rules
}

func TestThePageShowsTheFirstRulesOfTheFile(t *testing.T) {
	_, shown, _ := strings.Cut(read(t, "docs/node-taint-rules.md"), "```yaml\n")
	shown, _, _ = strings.Cut(shown, "```")
	if file := read(t, "examples/node-problem-detector.yaml"); !strings.HasPrefix(file, shown+"---\n") {
		t.Error("the page shows other rules than the file: copy the first two from the file")
	}
}

func TestTheRulesOfTheFileAreAccepted(t *testing.T) {
	rules := rulesIn(t, read(t, "examples/node-problem-detector.yaml"))
	if len(rules) != 5 {
		t.Errorf("the file has %d rules", len(rules))
	}
	for _, rule := range rules {
		if verdict := judge(rule, rules); !verdict.accepted() {
			t.Errorf("rule %s is not accepted: %s", rule.Name, verdict.message)
		}
	}
}
