// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestStepsThatTheExploredWorldsDoNotKnow(t *testing.T) {
	const mark, remove, notReady = "we patch pods/status 1 200", "we delete pods 1 200", "we patch pods/status 1 200 Ready"
	const renew = "we patch serviceaccounts - 200"
	for name, test := range map[string]struct {
		calls []string
		want  string // part of the only complaint; empty if there is none
		shows string // what deletes of ours answer
	}{
		"a mark, and the delete":       {calls: []string{mark, remove}},
		"the Eviction API":             {calls: []string{"we create pods/eviction 1 429", "we create pods/eviction 1 201"}},
		"a held pod is kept":           {calls: []string{"we patch pods 1 200"}},
		"a deleted pod is not ready":   {calls: []string{mark, remove, notReady}},
		"the built-in's node health":   {calls: []string{renew, "someone get pods - 200", "it patch pods/status 1 200 Ready"}},
		"the answer to a mark is lost": {calls: []string{"we patch pods/status 1 504", remove}},
		"the log lacks the mark": {
			calls: []string{remove}, shows: `{"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}}`,
		},
		"a delete is refused, and tried again":     {calls: []string{mark, "we delete pods 1 500", remove}},
		"reads":                                    {calls: []string{"we get pods - 200", "we list pods - 200"}},
		"somebody deletes":                         {calls: []string{"someone delete pods - 200"}},
		"a right is missing":                       {calls: []string{"we delete pods - 403"}},
		"calls end in a queue":                     {calls: []string{"we patch pods/status ? 429", "we delete pods ? 504"}},
		"an eviction by name, refused":             {calls: []string{"we create pods/eviction - 429"}, want: "no UID"},
		"a delete by name of what is gone":         {calls: []string{"we delete pods - 404"}, want: "no UID"},
		"the built-in marks, and deletes by name":  {calls: []string{"it patch pods/status 1 200", "it delete pods - 200"}},
		"the built-in is refused":                  {calls: []string{renew, "someone get pods - 200", "it patch pods/status 1 403"}},
		"a delete without a mark":                  {calls: []string{remove}, want: "has not marked"},
		"a delete of what is only not ready":       {calls: []string{notReady, remove}, want: "has not marked"},
		"a delete after a mark that was refused":   {calls: []string{"we patch pods/status 1 409", remove}, want: "has not marked"},
		"a delete after the mark of another":       {calls: []string{"we patch pods/status 2 200", remove}, want: "has not marked"},
		"a delete by name":                         {calls: []string{mark, "we delete pods - 200"}, want: "no UID"},
		"an eviction by name":                      {calls: []string{"we create pods/eviction - 201"}, want: "no UID"},
		"a second delete":                          {calls: []string{mark, remove, remove}, want: "had removed"},
		"an eviction of what was deleted":          {calls: []string{mark, remove, "we create pods/eviction 1 201"}, want: "had removed"},
		"a mark of what was deleted":               {calls: []string{mark, remove, mark}, want: "had removed"},
		"another call":                             {calls: []string{"we update pods/status 1 200"}, want: "no such call"},
		"the built-in marks while the clock runs":  {calls: []string{renew, "someone get pods - 200", "it patch pods/status 1 200"}, want: "clock is fresh"},
		"the built-in deletes what it had no part": {calls: []string{"it delete pods - 200"}, want: "has not marked"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls []Event
			for i, text := range test.calls {
				calls = append(calls, call(t, 2*i, text, cmp.Or(test.shows, "{}")))
			}
			got, err := Unknown(calls, func(Event) bool { return true })
			switch {
			case err != nil:
				t.Fatal(err)
			case test.want == "" && len(got) > 0, test.want != "" && (len(got) != 1 || !strings.Contains(got[0].Why, test.want)):
				t.Errorf("%+v, want %q", got, test.want)
			}
		})
	}
}

// call makes a call from "who verb resource UID code", some seconds after noon. A UID of ? is of a body that nobody
// read. A status gets the condition DisruptionTarget, or Ready if the text ends in " Ready". What a delete of ours
// answers is given.
func call(t *testing.T, at int, text, shows string) Event {
	t.Helper()
	const us, builtIn, someone = "system:serviceaccount:kube-system:taintkeeper", BuiltInAsServiceAccount, "kubernetes-admin"
	var who, uid string
	noon := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	e := Event{Namespace: "n", Name: "web-0", Received: noon.Add(time.Duration(at) * time.Second)}
	if _, err := fmt.Sscan(text, &who, &e.Verb, &e.Resource, &uid, &e.Code); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	e.User = map[string]string{"we": us, "it": builtIn, "someone": someone}[who]
	e.UID, e.Answered = types.UID(strings.Trim(uid, "-?")), e.Received.Add(time.Millisecond)
	e.Unread = uid == "?"
	if e.Resource == "pods/status" {
		e.Condition = string(corev1.DisruptionTarget)
	}
	if strings.HasSuffix(text, " Ready") {
		e.Condition = string(corev1.PodReady)
	}
	if e.Resource == "serviceaccounts" {
		e.Name = EvictionClockName
		e.Response = json.RawMessage(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, EvictionClockAnnotation, e.Received.Format(time.RFC3339)))
	}
	if e.Resource == "pods" && who == "we" {
		e.Response = json.RawMessage(shows)
	}
	return e
}
