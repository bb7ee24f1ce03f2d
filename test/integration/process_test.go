// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	rig "github.com/taintkeeper/taintkeeper/test/rig/scene"
	"github.com/taintkeeper/taintkeeper/test/rig/suite"
)

const testVersion = "v0.0.0-integration"

// binary builds what users run, once.
var binary = sync.OnceValues(func() (string, error) {
	return suite.Build(context.TODO(), cluster.Dir(), "taintkeeper", "-ldflags", "-X main.version="+testVersion) //nolint:forbidigo // for all tests
})

// output collects what a process writes. Safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is the binary while it runs.
type process struct {
	command         *exec.Cmd
	stdout, stderr  *output
	ended           chan struct{}
	metrics, health string // addresses
}

// launch starts the binary. When the test fails, it shows what the process said.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := binary()
	await.Must(t, err)
	p := &process{stdout: &output{}, stderr: &output{}, ended: make(chan struct{})}
	p.command = exec.Command(path, args...)
	p.command.Env = []string{"HOME=" + t.TempDir()} // no kubeconfig of the user's
	p.command.Stdout, p.command.Stderr = p.stdout, p.stderr
	await.Must(t, p.command.Start())
	go func() {
		defer close(p.ended)
		_ = p.command.Wait() // ProcessState has the result
	}()
	t.Cleanup(func() {
		p.signal(t, os.Kill)
		<-p.ended
		if t.Failed() {
			t.Logf("%v wrote:\n%s%s", p.command.Args, p.stdout, p.stderr)
		}
	})
	return p
}

// serve starts the binary as a controller for as long as the test lasts, and returns once it is ready.
func serve(t *testing.T, config *rest.Config, args ...string) *process {
	t.Helper()
	free := rig.FreeAddresses(t, 2)
	metrics, health := free[0], free[1]
	p := launch(t, append([]string{
		"--kubeconfig=" + kubeconfig(t, config), "--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
	}, args...)...)
	p.metrics, p.health = metrics, health
	await.Eventually(t, "the process is ready", func(ctx context.Context) error {
		if p.hasEnded() {
			return errors.New("it has ended")
		}
		_, err := get(ctx, "http://"+health+"/readyz")
		return err
	})
	return p
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// signal sends a signal, unless the process has ended.
func (p *process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	timer := time.NewTimer(await.Limit)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		t.Fatal("the process does not end")
	}
	return p.command.ProcessState.ExitCode()
}

// terminate ends the process as Kubernetes does, and checks that it ends in good order.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
}

// Gather implements prometheus.Gatherer by a scrape of the process.
func (p *process) Gather() ([]*dto.MetricFamily, error) {
	text, err := get(context.TODO(), "http://"+p.metrics+"/metrics") //nolint:forbidigo // the interface has no context
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(strings.NewReader(text))
	families := make([]*dto.MetricFamily, 0, len(byName))
	for _, family := range byName {
		families = append(families, family)
	}
	return families, err
}

var _ prometheus.Gatherer = (*process)(nil)

// get returns the body of an answer with status 200.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return string(body), err
}

func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	path, err := cluster.Kubeconfig(fmt.Sprintf("process-%d", scenes.Add(1)), config)
	await.Must(t, err)
	return path
}

// says waits until the process has written the given text on stderr.
func (p *process) says(t *testing.T, what string) {
	t.Helper()
	await.Eventually(t, fmt.Sprintf("the process says %q", what), func(context.Context) error {
		if !strings.Contains(p.stderr.String(), what) {
			return errors.New("it does not")
		}
		return nil
	})
}
