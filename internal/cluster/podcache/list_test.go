// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// pagingServer is an API server that cannot stream lists. Like one before 1.31 it answers a list at resource version 0
// from its watch cache, all at once, and a list of the newest version in pages.
type pagingServer struct {
	pods    []corev1.Pod
	expires int // how many requests for the second page are too late

	mu      sync.Mutex
	pages   []int // how many pods were in each answer
	watches []url.Values
	events  chan []byte
}

func (s *pagingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case query.Get("fieldSelector") != onlyBound:
		refuse(w, apierrors.NewBadRequest("every pod is asked for"))
	case query.Get("sendInitialEvents") == "true":
		refuse(w, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil))
	case query.Get("watch") == "true":
		s.watch(w, r)
	default:
		s.list(w, query)
	}
}

func (s *pagingServer) list(w http.ResponseWriter, query url.Values) {
	first, _ := strconv.Atoi(query.Get("continue"))
	end := len(s.pods)
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && query.Get("resourceVersion") != "0" {
		end = min(first+limit, end)
	}
	list := corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "100"},
		Items:    s.pods[first:end],
	}
	if end < len(s.pods) {
		list.Continue = strconv.Itoa(end)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first > 0 && s.expires > 0 {
		s.expires--
		refuse(w, apierrors.NewResourceExpired("the provided continue parameter is too old"))
		return
	}
	s.pages = append(s.pages, end-first)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

func (s *pagingServer) watch(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.watches = append(s.watches, r.URL.Query())
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case event := <-s.events:
			_, _ = w.Write(event)
		case <-r.Context().Done():
			return
		}
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(err.ErrStatus.Code))
	_ = json.NewEncoder(w).Encode(err.ErrStatus)
}

// synced returns a cache of the server's pods once its first list is complete. The cache runs until the test ends.
func (s *pagingServer) synced(t *testing.T) *Cache {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	await.Must(t, err)
	c := New(client, &timeline.Clock{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
	select {
	case <-c.Done():
	case <-time.After(time.Minute):
		t.Fatal("not synced within a minute")
	}
	return c
}

func numberedPods(n int) []corev1.Pod {
	var pods []corev1.Pod
	for i := range n {
		pods = append(pods, *newPod(fmt.Sprintf("p%04d", i), withVersion(strconv.Itoa(i+1))))
	}
	return pods
}

func TestAListThatIsNotStreamedIsReadPageByPage(t *testing.T) {
	server := &pagingServer{pods: numberedPods(1234), events: make(chan []byte)}
	c := server.synced(t)
	if got := c.Len(); got != 1234 {
		t.Errorf("%d records, want 1234", got)
	}
	if want := []int{500, 500, 234}; !slices.Equal(server.pages, want) {
		t.Errorf("pages of %v pods, want %v", server.pages, want)
	}
	changes := make(chan Change, 1)
	c.Subscribe(func(change Change) {
		if !change.Initial {
			changes <- change
		}
	})
	gone := server.pods[3]
	gone.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	event, err := json.Marshal(map[string]any{"type": "DELETED", "object": gone})
	await.Must(t, err)
	server.events <- event
	if change := <-changes; change.After != nil || change.Before.Name != "p0003" {
		t.Errorf("told %v, want to be told that the pod is gone", change)
	}
	if got := server.watches[0].Get("resourceVersion"); len(server.watches) != 1 || got != "100" {
		t.Errorf("%d watches, the first from version %s, want one from that of the list", len(server.watches), got)
	}
}

func TestAListWhosePagesExpireBeginsAgain(t *testing.T) {
	for _, expires := range []int{1, 2} {
		t.Run(fmt.Sprint(expires, " times"), func(t *testing.T) {
			server := &pagingServer{pods: numberedPods(700), expires: expires, events: make(chan []byte)}
			c := server.synced(t)
			if got := c.Len(); got != 700 {
				t.Errorf("%d records, want 700", got)
			}
			if want := append(slices.Repeat([]int{500}, expires+1), 200); !slices.Equal(server.pages, want) {
				t.Errorf("pages of %v pods, want %v", server.pages, want)
			}
		})
	}
}
