// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/taintkeeper/taintkeeper/test/parity/arena"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

// An admission webhook for the pods of one node is in trouble. What happens to these, and to a pod of another node that
// has nothing to do with it?

// hooked is the number of pods whose deletes call the webhook.
const hooked = 300

// hookedAndOther is a history of the webhook's pods, whose node is tainted at 2.1 s, and of one pod of another node that
// must leave at due. It ends at until.
func hookedAndOther(due, until time.Duration) *history {
	h := crowd(hooked, step{2200 * ms, setTaint{"other", noExecute("b", 2*sec)}}, step{until, untaint{"other", "none"}})
	h.Nodes = append(h.Nodes, nodeSpec{Name: "other"})
	h.Pods = append(h.Pods, podSpec{
		UID: "healthy", Name: "healthy", Node: "other", Phase: corev1.PodRunning, Scheduled: new(-10 * sec),
		Tolerations: tolerating("b", int64((due-2200*ms)/sec)),
	})
	return h
}

// process is one process of a controller with a client.
type process func(ctx context.Context, client kubernetes.Interface) error

// behindWebhook is a contestant whose deletes of the webhook's pods take the given time and fail, as long as answer
// returns an error. A call that the client gives up ends at once, as a real one does.
func behindWebhook(p process, takes time.Duration, answer func() error) contestant {
	return func(ctx context.Context, client *fake.Clientset) error {
		return p(ctx, &bubble.Slow{Clientset: client, Before: func(ctx context.Context, r bubble.Request) error {
			if r.Verb != "delete" || !strings.HasPrefix(r.Name, "p") {
				return nil
			}
			err := answer()
			if err == nil {
				return nil
			}
			return cmp.Or(bubble.Takes(ctx, takes), err)
		}})
	}
}

// rateLimited is upstream's controller with kube-controller-manager's client: 20 calls per second, 30 at once. The reads
// of pods, a third of its calls, are free here.
func rateLimited(ctx context.Context, client kubernetes.Interface) error {
	const perSecond, burst = 20, 30
	limiter, slow := rate.NewLimiter(perSecond, burst), client.(*bubble.Slow)
	return upstreamWith(ctx, &bubble.Slow{Clientset: slow.Clientset, Before: func(call context.Context, r bubble.Request) error {
		if r.Verb == "get" {
			return slow.Before(call, r)
		}
		return cmp.Or(limiter.Wait(ctx), slow.Before(call, r))
	}})
}

func TestAWebhookThatHangsDoesNotHoldUpAPodOfAnotherNode(t *testing.T) {
	const due, bound = 32200 * ms, 5 * sec
	for _, hangs := range []time.Duration{10 * sec, 30 * sec} {
		failing := func() error {
			return apierrors.NewInternalError(errors.New("failed calling webhook: context deadline exceeded"))
		}
		for who, c := range map[string]process{"ours": oursWith, "upstream without a rate limit": upstreamWith, "upstream with its rate limit": rateLimited} {
			t.Run(fmt.Sprintf("%s, %s", who, hangs), func(t *testing.T) {
				playAndLook(t, hookedAndOther(due, 90*sec), behindWebhook(c, hangs, failing), func(w *world) {
					deletes := w.deletes["healthy"]
					if len(deletes) != 1 {
						t.Fatalf("the healthy pod was deleted at %s", when(deletes))
					}
					late := deletes[0] - due
					t.Logf("%s: the healthy pod leaves %s late while %d deletes hang for %s", who, late, hooked, hangs)
					if who == "ours" && (late < 0 || late > bound) {
						t.Errorf("the healthy pod left at %s, due at %s", when(deletes), arena.Clock(due))
					}
				})
			})
		}
	}
}

func TestWhatAWebhookRefusesIsDeletedByOursWhenItStopsAndForgottenByUpstream(t *testing.T) {
	const due, heals, backoff = 32200 * ms, 200 * sec, 5 * time.Minute
	refusing := func() error {
		if arena.Now() >= heals {
			return nil
		}
		return apierrors.NewForbidden(podsResource, "", errors.New("the webhook says no"))
	}
	for _, takes := range []time.Duration{0, 10 * sec} {
		for who, c := range map[string]process{"ours": oursWith, "upstream": upstreamWith} {
			t.Run(fmt.Sprintf("%s, refused after %s", who, takes), func(t *testing.T) {
				playAndLook(t, hookedAndOther(due, heals+backoff+takes+time.Minute), behindWebhook(c, takes, refusing), func(w *world) {
					if deletes := w.deletes["healthy"]; len(deletes) != 1 || deletes[0]-due > 5*sec {
						t.Errorf("the healthy pod was deleted at %s, due at %s", when(deletes), arena.Clock(due))
					}
					last := time.Duration(0)
					for _, deletes := range w.deletes {
						last = max(last, deletes[0])
					}
					calls := w.calls["patch pods"] + w.calls["get pods"] + w.calls["get nodes"]
					t.Logf("%s: %d of %d pods deleted, the last at %s; besides the deletes %d calls", who, len(w.deletes)-1, hooked, arena.Clock(last), calls)
					if all := len(w.deletes) == hooked+1; all != (who == "ours") {
						t.Errorf("%s deleted %d of %d pods that were refused until %s", who, len(w.deletes)-1, hooked, arena.Clock(heals))
					}
				})
			})
		}
	}
}
