// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

func TestWhenTheEvictionClockIsFreshForCertain(t *testing.T) {
	noon := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	write := func(seconds float64, annotations string) Event {
		return Event{
			Verb: "patch", Resource: "serviceaccounts", Name: EvictionClockName, Code: 200,
			Received: at(seconds), Answered: at(seconds + 0.01), Response: json.RawMessage(`{"metadata":{"annotations":{` + annotations + `}}}`),
		}
	}
	renewal := func(seconds, value float64) Event {
		return write(seconds, fmt.Sprintf("%q:%q", EvictionClockAnnotation, at(value).Format(time.RFC3339)))
	}
	refused := renewal(0.5, 0)
	refused.Code = 403
	other := renewal(0.5, 0)
	other.Name = "default"
	for name, test := range map[string]struct {
		writes             []Event
		received, answered float64
		want               bool
	}{
		"it was never renewed":                            {nil, 10, 10, false},
		"it was renewed a moment ago":                     {[]Event{renewal(0.5, 0)}, 2, 2.1, true},
		"it is being renewed for the first time":          {[]Event{renewal(0.5, 0)}, 0.505, 0.7, false},
		"the policy need not have seen the first renewal": {[]Event{renewal(0.5, 0)}, 1, 1.1, false},
		"it was renewed 30 seconds ago":                   {[]Event{renewal(0.5, 0)}, 30.4, 30.9, true},
		"it was renewed 31 seconds ago":                   {[]Event{renewal(0.5, 0)}, 30.9, 31, false},
		"a renewal carries a time long past":              {[]Event{renewal(0.5, -31)}, 2, 2.1, false},
		"a renewal carries a time ahead":                  {[]Event{renewal(0.5, 300)}, 20, 20.1, true},
		"a renewal that carries a time ahead is old":      {[]Event{renewal(0.5, 300)}, 40, 40.1, false},
		"it was renewed again in time":                    {[]Event{renewal(0.5, 0), renewal(25, 25)}, 31, 31.1, true},
		"it is renewed again while it is stale":           {[]Event{renewal(0.5, 0), renewal(40, 40)}, 40.02, 40.1, false},
		"it was taken away":                               {[]Event{renewal(0.5, 0), write(5, "")}, 7, 7.1, false},
		"it is being taken away":                          {[]Event{renewal(0.5, 0), write(5, "")}, 4.9, 5.05, false},
		"it will be taken away":                           {[]Event{renewal(0.5, 0), write(5, "")}, 4.8, 4.9, true},
		"a renewal was refused":                           {[]Event{refused}, 3, 3.1, false},
		"what was renewed is not the clock":               {[]Event{other}, 3, 3.1, false},
	} {
		t.Run(name, func(t *testing.T) {
			clock, err := EvictionClockOf(test.writes)
			if err != nil {
				t.Fatal(err)
			}
			if got := clock.Fresh(at(test.received), at(test.answered)); got != test.want {
				t.Errorf("fresh: %t, want %t", got, test.want)
			}
		})
	}
}

func TestAnEvictionClockThatCannotBeReadIsAnError(t *testing.T) {
	for name, response := range map[string]string{
		"the audit policy keeps no answers": ``,
		"it is not a time":                  `{"metadata":{"annotations":{"` + EvictionClockAnnotation + `":"noon"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := EvictionClockOf([]Event{{
				Verb: "patch", Resource: "serviceaccounts", Name: EvictionClockName, Code: 200, Response: json.RawMessage(response),
			}})
			if err == nil {
				t.Error("it says nothing")
			}
		})
	}
}
