// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) { bubble.Main(m) }

var (
	errGone = apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("evictionpolicies").GroupResource(), "")
	errDown = apierrors.NewServiceUnavailable("starting")
)

// server has EvictionPolicies, as far as lists and watches show them.
type server struct {
	client.WithWatch // any other call panics

	mu      sync.Mutex
	refusal error         // to every call
	slow    error         // to lists of all objects
	opens   time.Duration // how long it takes to open a watch
	names   []string
	open    *watch.FakeWatcher
	lists   int
	old     int // lists that a cache may answer
}

// becomes changes what the server has and cuts the open watch.
func (s *server) becomes(refusal error, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal, s.names = refusal, names
	if s.open != nil {
		s.open.Stop()
		s.open = nil
	}
}

// listed returns how often the objects were listed.
func (s *server) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

func (s *server) refuseLists(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = err
}

func (s *server) opensIn() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opens
}

// openSlowly sets how long it takes to open a watch.
func (s *server) openSlowly(opens time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens = opens
}

// IsWatchListSemanticsUnSupported tells client-go that this server cannot send a list through a watch.
func (s *server) IsWatchListSemanticsUnSupported() bool { return true }

// List implements client.Reader.
func (s *server) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.refusal != nil {
		return s.refusal
	}
	if is := (&client.ListOptions{}).ApplyOptions(options); is.Raw != nil && is.Raw.ResourceVersion != "" {
		s.old++
	}
	if !slices.Contains(options, client.ListOption(client.Limit(1))) && s.slow != nil {
		return s.slow
	}
	list := into.(*v1alpha1.EvictionPolicyList)
	list.ResourceVersion = "7"
	for _, name := range s.names {
		list.Items = append(list.Items, *named(name))
	}
	return nil
}

// Watch implements client.WithWatch.
func (s *server) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	<-time.After(s.opensIn())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != nil {
		return nil, s.refusal
	}
	s.open = watch.NewFakeWithChanSize(10, false)
	return s.open, nil
}

func named(name string) *v1alpha1.EvictionPolicy {
	return &v1alpha1.EvictionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "8"}}
}

// told is what a watch has told and logged, in order.
type told struct {
	mu  sync.Mutex
	all []string
}

func (t *told) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == 0 || t.all[len(t.all)-1] != line {
		t.all = append(t.all, line)
	}
}

func (t *told) want(test *testing.T, want ...string) {
	test.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Equal(t.all, want) {
		test.Errorf("it told %q, want %q", t.all, want)
	}
	t.all = nil
}

const (
	logGone   = "The resource EvictionPolicy is not installed, so nothing is held"
	logBack   = "The resource EvictionPolicy is installed now"
	logFails  = "Cannot list and watch the resource EvictionPolicy, will retry"
	logBroken = "The watch of the resource EvictionPolicy does not work; trying to list it again"
)

// play runs a watch of a server in virtual time.
func play(t *testing.T, from *server, test func(told *told, w *Watch[*v1alpha1.EvictionPolicy])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		told := &told{}
		log := funcr.New(func(_, line string) {
			if _, text, ok := strings.Cut(line, `"msg"="`); ok {
				text, _, _ = strings.Cut(text, `"`)
				told.add(text)
			}
		}, funcr.Options{})
		w := New(from, Resource[*v1alpha1.EvictionPolicy]{
			Kind: "EvictionPolicy", Object: &v1alpha1.EvictionPolicy{},
			List:    func() client.ObjectList { return &v1alpha1.EvictionPolicyList{} },
			Without: "so nothing is held",
		}, log, func(all []*v1alpha1.EvictionPolicy, known bool) {
			var names []string
			for _, is := range all {
				names = append(names, is.Name)
			}
			slices.Sort(names)
			told.add(fmt.Sprintf("%v known: %t", names, known))
		})
		bubble.Run(t, "the watch", w.Run)
		bubble.Pass(time.Minute)
		test(told, w)
	})
}

func TestWhatIsGoneHoldsNothingAndWhatComesBackIsKnownWithinTwoSeconds(t *testing.T) {
	from := &server{names: []string{"old"}}
	play(t, from, func(told *told, _ *Watch[*v1alpha1.EvictionPolicy]) {
		told.want(t, "[old] known: true")
		from.becomes(errGone)
		bubble.Pass(2 * lookAgain)
		told.want(t, logGone, "[] known: true")
		from.becomes(nil, "new")
		bubble.Pass(2 * time.Second)
		told.want(t, logBack, "[] known: false", "[new] known: true")
	})
}

func TestWhatComesBackIsNotKnownBeforeItsFirstListIsComplete(t *testing.T) {
	for name, test := range map[string]struct {
		back func(*server)
		logs []string
	}{
		"the list fails": {
			func(s *server) { s.refuseLists(errDown); s.becomes(nil, "new") },
			[]string{logBack, "[] known: false", logFails},
		},
		"the API server does not tell": {
			func(s *server) { s.becomes(errDown, "new") }, []string{"[] known: false", logFails},
		},
	} {
		t.Run(name, func(t *testing.T) {
			from := &server{refusal: errGone}
			play(t, from, func(told *told, w *Watch[*v1alpha1.EvictionPolicy]) {
				told.want(t, logGone, "[] known: true")
				test.back(from)
				bubble.Pass(time.Hour)
				told.want(t, test.logs...)
				if w.Listed() {
					t.Error("it reports all objects as known")
				}
				from.refuseLists(nil)
				from.becomes(nil, "new")
				bubble.Pass(lookAgain)
				told.want(t, "[new] known: true")
			})
		})
	}
}

func TestNothingIsKnownWithoutAWatchUntilAListOfTheNewestStateIsComplete(t *testing.T) {
	from := &server{names: []string{"old"}}
	play(t, from, func(told *told, w *Watch[*v1alpha1.EvictionPolicy]) {
		told.want(t, "[old] known: true")
		from.becomes(errDown)
		bubble.Pass(closedFor - time.Millisecond)
		told.want(t, logFails)
		bubble.Pass(time.Hour)
		told.want(t, logBroken, "[old] known: false")
		if w.Known() {
			t.Error("the objects are known without a watch")
		}
		from.becomes(nil, "new")
		bubble.Pass(lookAgain)
		told.want(t, "[new] known: true")
		if from.old > 0 {
			t.Errorf("%d lists may be of before the watch broke", from.old)
		}
	})
}

func TestAWatchThatOpensWhenTheObjectsAreUnknownIsNotKept(t *testing.T) {
	from := &server{names: []string{"old"}}
	play(t, from, func(told *told, _ *Watch[*v1alpha1.EvictionPolicy]) {
		told.want(t, "[old] known: true")
		from.openSlowly(closedFor + time.Second)
		from.becomes(nil, "new")
		bubble.Pass(closedFor + 2*lookAgain)
		told.want(t, logBroken, "[old] known: false", "[new] known: true")
	})
}

func TestAWatchThatEndsAndIsOpenedAgainChangesNothing(t *testing.T) {
	from := &server{names: []string{"one"}}
	play(t, from, func(told *told, _ *Watch[*v1alpha1.EvictionPolicy]) {
		told.want(t, "[one] known: true")
		lists := from.listed()
		for range 10 {
			from.becomes(nil, "one")
			bubble.Pass(time.Minute)
		}
		told.want(t)
		if again := from.listed() - lists; again > 10 { // one each to compare versions
			t.Errorf("%d lists for 10 watches that ended", again)
		}
	})
}

func TestAWatchThatBringsNothingIsReplaced(t *testing.T) {
	from := &server{names: []string{"one"}}
	play(t, from, func(told *told, _ *Watch[*v1alpha1.EvictionPolicy]) {
		told.want(t, "[one] known: true")
		for range 10 { // bookmarks
			from.open.Action(watch.Bookmark, named(""))
			bubble.Pass(silentFor - time.Second)
		}
		told.want(t)
		bubble.Pass(time.Second)
		told.want(t, logBroken, "[one] known: false", "[one] known: true")
	})
}

func TestAChangeIsToldAtOnceAndAnotherStatusIsNot(t *testing.T) {
	from := &server{names: []string{"one"}}
	play(t, from, func(told *told, w *Watch[*v1alpha1.EvictionPolicy]) {
		told.want(t, "[one] known: true")
		from.open.Add(named("two"))
		bubble.Pass(0)
		told.want(t, "[one two] known: true")
		status := named("two")
		status.Status.Due = 3
		from.open.Modify(status)
		bubble.Pass(0)
		told.want(t)
		if is, ok := w.Get("two"); !ok || is.Status.Due != 3 {
			t.Errorf("it has %+v", is)
		}
		from.open.Delete(named("one"))
		bubble.Pass(0)
		told.want(t, "[two] known: true")
	})
}

func TestAResourceThatIsNotInstalledCostsOneCallASecond(t *testing.T) {
	from := &server{refusal: errGone}
	play(t, from, func(*told, *Watch[*v1alpha1.EvictionPolicy]) {
		before := from.listed()
		bubble.Pass(time.Minute)
		if calls := from.listed() - before; calls < 59 || calls > 61 {
			t.Errorf("%d calls in a minute", calls)
		}
	})
}
