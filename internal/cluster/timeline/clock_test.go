// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pass lets virtual time pass. Package bubble has a clock of this package.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // this is the one helper: package bubble imports this package
	synctest.Wait()
}

func TestTheAPIServersClockIsKnownToTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		if seen := c.See(); !seen.Behind.IsZero() {
			t.Errorf("before an answer the clock that is behind shows %v", seen.Behind)
		}
		date := time.Now().Truncate(time.Second)
		c.Heard(date, time.Now())
		if offset := c.Offset(); offset != 0 || !c.See().Earliest.Equal(date) || !c.Latest().Equal(date.Add(time.Second)) {
			t.Errorf("after an answer: between %v and %v, and %v ahead", c.See().Earliest, c.Latest(), offset)
		}
		c.Heard(date.Add(-time.Minute), time.Now())
		if offset := c.Offset(); offset != -59*time.Second {
			t.Errorf("a clock that is behind by 59 to 60 s is behind by %v", offset)
		}
		c.Heard(date.Add(time.Minute), time.Now().Add(-2*time.Second))
		if offset, at := c.Offset(), c.Latest(); offset != time.Minute || !at.Equal(date.Add(63*time.Second)) {
			t.Errorf("a clock that told its time 2 s after it was asked is ahead by %v, and shows %v at the latest", offset, at)
		}
	})
}

func TestAnAnswerThatWasHeldUpMakesTheAPIServersClockNoLessCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		ahead := time.Now().Add(time.Hour) // the API server's clock, on the second
		for range 10 {                     // ten answers in a second narrow it down to a tenth
			c.Heard(ahead.Truncate(time.Second), time.Now())
			pass(100 * time.Millisecond)
			ahead = ahead.Add(100 * time.Millisecond)
		}
		c.Heard(ahead.Truncate(time.Second), time.Now().Add(-5*time.Second))
		if from, to := c.See().Earliest, c.Latest(); from.After(ahead) || to.Before(ahead) || to.Sub(from) > 150*time.Millisecond {
			t.Errorf("after ten prompt answers and one of 5 s the clock is between %v and %v of what it shows", from.Sub(ahead), to.Sub(ahead))
		}
	})
}

func TestTheAPIServersClockIsLessCertainTheLongerItWasNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		date := time.Now()
		c.Heard(date, time.Now())
		pass(1000 * time.Second)
		if from, to := c.See().Earliest, c.Latest(); !from.Equal(date.Add(999*time.Second)) || !to.Equal(date.Add(1002*time.Second)) {
			t.Errorf("1,000 s after an answer its clock is between %v and %v", from.Sub(date), to.Sub(date))
		}
	})
}

// The answers of every client count: a watch has one Date in five minutes, and a Lease is renewed every two seconds.
func TestTheAnswersOfAllConnectionsAreCombined(t *testing.T) {
	date := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date.Format(http.TimeFormat))
	}))
	defer server.Close()
	var c Clock
	for range 2 {
		transport, err := rest.TransportFor(c.Listen(&rest.Config{Host: server.URL}))
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		date = date.Add(time.Second)
	}
	// Two successive Dates were received within less than a second, so the server's second turned in between.
	if from, to := c.See().Earliest, c.Latest(); from.Before(date.Add(-time.Second)) || to.Sub(from) > 900*time.Millisecond {
		t.Errorf("the clock is between %v and %v", from, to)
	}
}

func TestWhatWasSeenIsDatedByTheClockThatIsBehind(t *testing.T) {
	const ago = 100 * time.Second // how long before it is seen the recorded event happened
	for name, test := range map[string]struct {
		server, wall time.Duration // ahead of the truth
		late         time.Duration // how long after it happened it begins to count, at most
	}{
		"both are right":                    {0, 0, time.Second},
		"ours is five minutes ahead":        {0, 5 * time.Minute, time.Second},
		"ours is five minutes behind":       {0, -5 * time.Minute, ago},
		"the server's is 30 s ahead":        {30 * time.Second, 0, time.Second},
		"the server's is 30 s behind":       {-30 * time.Second, 0, 31 * time.Second},
		"ours is half a second behind":      {0, -500 * time.Millisecond, 1500 * time.Millisecond},
		"the server's and ours are 1 h off": {-time.Hour, time.Hour, ago},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := Clock{Wall: func() time.Time { return time.Now().Add(test.wall) }}
				happened := time.Now()
				pass(ago)
				c.Heard(time.Now().Add(test.server).Truncate(time.Second), time.Now())
				late := c.See().Start(happened.Truncate(time.Second)).Sub(happened)
				if late < 0 || late > test.late {
					t.Errorf("it counts from %v after it happened, want up to %v", late, test.late)
				}
			})
		})
	}
}

func TestWithoutADateNothingIsDated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Clock{Wall: func() time.Time { return time.Now().Add(time.Hour) }}
		recorded := time.Now()
		pass(10 * time.Second)
		if seen := c.See(); !seen.Start(recorded).Equal(seen.At) {
			t.Errorf("one clock, which is an hour ahead, was believed: it counts from %v before it was seen", seen.At.Sub(seen.Start(recorded)))
		}
	})
}

func TestTheTimeAddedToWriteIsNeverBeforeTheSight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const behind = 5 * time.Minute
		c := Clock{Wall: func() time.Time { return time.Now().Add(-behind) }}
		for range 50 {
			c.Heard(time.Now().Truncate(time.Second), time.Now())
			pass(737 * time.Millisecond)
			now := time.Now() // the server's clock
			if second := c.See().Second().Time; second.Add(time.Second).Before(now) || second.After(now.Add(2*time.Second)) {
				t.Fatalf("the server's clock shows %v, and %v is to be written", now, second)
			}
		}
	})
}

// Linux slews its monotonic clock, too, by up to a tenth: this machine's was 5 s behind and is corrected within a
// minute.
func TestAClockThatIsSlewedForwardHoldsTheTimelineBack(t *testing.T) {
	for _, every := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 10 * time.Second} {
		var p pace
		held := time.Duration(0)
		for at := time.Duration(0); at < 300*time.Second; at += every + 7*time.Millisecond {
			fast := min(max(at-100*time.Second, 0)/12, 5*time.Second) // 8.3 % from 100 to 160 s
			ours := epoch.Add(at + fast)
			held += p.answered(epoch.Add(at).Truncate(time.Second), ours, ours.Add(5*time.Millisecond))
		}
		if early := 5*time.Second - held; early < -10*time.Millisecond || early > 1500*time.Millisecond {
			t.Errorf("with an answer every %v a countdown would end %v early", every, early)
		}
	}
}

// Two API servers with different clocks do not count as one clock that is slewed, however little they differ and
// however often they answer.
func TestTwoServersOnOneConnectionHoldAlmostNothingBack(t *testing.T) {
	for _, apart := range []time.Duration{300 * time.Millisecond, 800 * time.Millisecond, 1500 * time.Millisecond, 1900 * time.Millisecond, 3 * time.Second, time.Hour} {
		for _, every := range []struct{ first, second time.Duration }{{993 * time.Millisecond, 993 * time.Millisecond}, {time.Second, 2 * time.Second}, {2 * time.Second, 30 * time.Second}, {10 * time.Second, 20 * time.Second}} {
			var p pace
			held, next := time.Duration(0), [2]time.Duration{}
			for at := time.Duration(0); at < time.Hour; at += 100 * time.Millisecond {
				for i, each := range []time.Duration{every.first, every.second} {
					if at < next[i] {
						continue
					}
					next[i] += each + 37*time.Millisecond
					ours := epoch.Add(at)
					date := ours.Add(-time.Duration(i) * apart)
					held += p.answered(date.Truncate(time.Second), ours.Add(-3*time.Millisecond), ours)
				}
			}
			if held > 2*time.Second {
				t.Errorf("two servers %v apart that answer every %v and %v hold the timeline back by %v in an hour", apart, every.first, every.second, held)
			}
		}
	}
}

// Each connection leads to one of them.
func TestTwoServersOnTwoConnectionsHoldNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		began := c.Now()
		connections := [2]pace{}
		for range 3600 {
			for i := range connections {
				date := time.Now().Add(-time.Duration(i) * 1500 * time.Millisecond)
				c.heard(date.Truncate(time.Second), time.Now(), &connections[i])
			}
			pass(time.Second + 7*time.Millisecond)
		}
		if late := 3600*1007*time.Millisecond - c.Since(began); late != 0 {
			t.Errorf("held back by %v in an hour", late)
		}
	})
}

// What is written counts for all who read it, whichever API server they ask.
func TestOfTwoServersTheOneThatIsAheadCountsInWhatIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		for range 10 {
			c.Heard(time.Now().Truncate(time.Second), time.Now())
			pass(500 * time.Millisecond)
			c.Heard(time.Now().Add(-5*time.Minute).Truncate(time.Second), time.Now())
			if behind := time.Since(c.See().Second().Time); behind > time.Second {
				t.Errorf("a timeAdded would be %v behind", behind)
			}
			pass(500 * time.Millisecond)
		}
		pass(2 * time.Minute)
		if ahead := c.Latest().Sub(time.Now().Add(-5 * time.Minute)); ahead > 2*time.Second {
			t.Errorf("two minutes after the other answered last the clock is taken to be %v ahead", ahead)
		}
	})
}

func TestASetWallClockDoesNotMoveTheTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Duration(0)
		c := Clock{Wall: func() time.Time { return time.Now().Add(ahead) }}
		began := c.Now()
		pass(time.Minute)
		ahead = time.Hour
		if now := c.Now(); now.Sub(began) != time.Minute {
			t.Errorf("after a minute in which the wall clock was set %v have passed", now.Sub(began))
		}
		if shown := c.Shown(began); !shown.Equal(began.Add(time.Hour)) {
			t.Errorf("an instant a minute ago is shown as %v", shown)
		}
	})
}

func TestATimelineThatIsHeldBackNeitherGoesBackNorStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		var p pace
		c.heard(time.Now().Truncate(time.Second), time.Now(), &p)
		pass(120 * time.Second)
		c.heard(time.Now().Add(-2*time.Second), time.Now(), &p) // ours was too fast, by 1 s
		began, before := time.Now(), c.Now()
		first := before
		for range 200 {
			pass(100 * time.Millisecond)
			now := c.Now()
			if passed := now.Sub(before); passed < 87*time.Millisecond || passed > 100*time.Millisecond {
				t.Fatalf("in 100 ms it has gone on by %v", passed)
			}
			before = now
		}
		if held := time.Since(began) - before.Sub(first); held != time.Second {
			t.Errorf("it was held back by %v, want 1 s", held)
		}
	})
}

func TestAnInstantOfTheTimelineHasNoMonotonicReading(t *testing.T) {
	var c Clock
	if now := c.Now(); now != now.Round(0) {
		t.Errorf("%v: compared with an instant that has none it would be compared by the wall clock", now)
	}
}
