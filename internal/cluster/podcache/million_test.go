// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podcache

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/framer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/internal/cluster/apicall"
	"github.com/taintkeeper/taintkeeper/internal/cluster/podwire"
	"github.com/taintkeeper/taintkeeper/internal/cluster/timeline"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/bubble"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(serveEnvironment); mode != "" {
		serveGenerated(mode)
	}
	bubble.Main(m)
}

// A million pods, more than any cluster is expected to have, and how much memory they may take.
const (
	millionPods      = 1_000_000
	memoryForMillion = 1 << 30
	changesPerSecond = 5_000
	changesFor       = 30 * time.Second
)

// BenchmarkMillion reads a million pods from an API server, in a process of its own, that makes them up on the fly, and
// then follows 5,000 changes a second, over TLS and HTTP/2. The peak is the memory of this whole process. CPU use, for
// which the target is a tenth of a core, is not asserted, because no time is. Run it with -benchtime 1x on Linux.
func BenchmarkMillion(b *testing.B) {
	for _, mode := range []string{"streamed", "paged"} {
		b.Run(mode, func(b *testing.B) {
			for b.Loop() {
				benchmarkMillion(b, mode)
			}
		})
	}
}

func benchmarkMillion(b *testing.B, mode string) {
	b.Helper()
	client, err := podwire.NewForConfig(apicall.Gathered(apicall.Config(&rest.Config{
		Host:            generatingServer(b, mode),
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}), Gather), &podwire.Labels{})
	await.Must(b, err)
	debug.FreeOSMemory()
	await.Must(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // resets the peak
	ctx, cancel := context.WithCancel(b.Context())
	stopped := make(chan struct{})
	c := New(client, &timeline.Clock{})
	began, used := time.Now(), processorTime(b)
	go func() {
		defer close(stopped)
		_ = c.Run(ctx)
	}()
	<-c.Done()
	b.ReportMetric(time.Since(began).Seconds(), "s/list")
	b.ReportMetric((processorTime(b) - used).Seconds(), "cpu-s/list")
	if c.Len() != millionPods {
		b.Errorf("%d records, want %d", c.Len(), millionPods)
	}

	changes, used := 0, processorTime(b)
	c.Subscribe(func(Change) { changes++ })
	time.Sleep(changesFor) //nolint:forbidigo // it is what is measured
	share := (processorTime(b) - used).Seconds() / changesFor.Seconds()
	peak := peakMemory(b)
	cancel()
	<-stopped
	b.ReportMetric(share, "cores")
	b.ReportMetric(float64(changes)/changesFor.Seconds(), "told/s")
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	if peak > memoryForMillion {
		b.Errorf("a peak of %d MiB, the budget is %d", peak>>20, memoryForMillion>>20)
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	await.Must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peakMemory returns the most memory that the process has used since the peak was reset.
func peakMemory(b *testing.B) int64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	await.Must(b, err)
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	await.Must(b, err)
	return kilobytes << 10
}

// serveEnvironment turns this test binary into an API server.
const serveEnvironment = "PODCACHE_BENCH_SERVE"

// generatingServer runs an API server in a process of its own, and returns its URL.
func generatingServer(b *testing.B, mode string) string {
	b.Helper()
	self, err := os.Executable()
	await.Must(b, err)
	command := exec.CommandContext(b.Context(), self)
	command.Env = append(os.Environ(), serveEnvironment+"="+mode)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	await.Must(b, err)
	await.Must(b, command.Start())
	b.Cleanup(func() { _ = command.Wait() }) // it was killed when the context ended
	address, err := bufio.NewReader(out).ReadString('\n')
	await.Must(b, err)
	return strings.TrimSpace(address)
}

// serveGenerated is the main function of that process.
func serveGenerated(mode string) {
	handler := &generator{encoder: newPodEncoder(), streams: mode == "streamed"}
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	fmt.Println(server.URL)
	select {}
}

// generator serves a million pods to one client at a time.
type generator struct {
	encoder *podEncoder
	streams bool
}

// ServeHTTP implements http.Handler.
func (g *generator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	list := query.Get("sendInitialEvents") == "true"
	if list && !g.streams {
		http.Error(w, "lists are not streamed", http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", kruntime.ContentTypeProtobuf)
	if query.Get("watch") == "" {
		g.page(w, query)
		return
	}
	frames := framer.NewLengthDelimitedFrameWriter(w)
	for i := 0; list && i < millionPods; i++ {
		g.event(frames, watch.Added, g.encoder.pod(i))
	}
	if list {
		g.event(frames, watch.Bookmark, endOfList())
	}
	g.change(r.Context(), w, frames)
}

func (g *generator) page(w http.ResponseWriter, query url.Values) {
	first, _ := strconv.Atoi(query.Get("continue"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	list := corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}}
	for i := first; i < first+limit && i < millionPods; i++ {
		list.Items = append(list.Items, *g.encoder.pod(i))
	}
	if first+limit < millionPods {
		list.Continue = strconv.Itoa(first + limit)
	}
	_, _ = w.Write(enveloped("PodList", &list))
}

// change sends single changes at a steady rate for as long as the watch is read.
func (g *generator) change(ctx context.Context, w http.ResponseWriter, frames io.Writer) {
	flush := http.NewResponseController(w).Flush
	_ = flush()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	sent, began := 0, time.Now()
	for ctx.Err() == nil {
		<-tick.C
		for due := int(time.Since(began).Seconds() * changesPerSecond); sent < due; sent++ {
			pod := g.encoder.pod(sent * 7919 % millionPods)
			pod.ResourceVersion = strconv.Itoa(millionPods + sent)
			if sent%2 == 0 {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
			}
			g.event(frames, watch.Modified, pod)
			_ = flush()
		}
	}
}

type marshaler interface{ Marshal() ([]byte, error) }

func (g *generator) event(frames io.Writer, kind watch.EventType, pod *corev1.Pod) {
	event := metav1.WatchEvent{Type: string(kind), Object: kruntime.RawExtension{Raw: enveloped("Pod", pod)}}
	_, _ = frames.Write(encode(&event))
}

func enveloped(kind string, object marshaler) []byte {
	wire := encode(&kruntime.Unknown{TypeMeta: kruntime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: encode(object)})
	return append([]byte{'k', '8', 's', 0}, wire...)
}

func encode(object marshaler) []byte {
	wire, err := object.Marshal()
	if err != nil {
		panic(err)
	}
	return wire
}
