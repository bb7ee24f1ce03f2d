// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
)

// helper is set in a process that starts a machine and waits to be killed.
const helper = "TAINTKEEPER_KUBELETS_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helper) == "" {
		os.Exit(m.Run())
	}
	ctx := context.Background() //nolint:forbidigo // there is no test
	if _, err := startStatic(ctx); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

func requireMachines(t *testing.T) {
	t.Helper()
	if missing := Missing(t.Context()); missing != "" {
		t.Skip(missing)
	}
}

// startStatic starts a machine without a control plane, and a static pod on it, and returns when its container runs.
func startStatic(ctx context.Context) (*Rig, error) {
	cluster := localcluster.DefaultBinaries()
	if !filepath.IsAbs(cluster) {
		cluster = filepath.Join("..", "..", "..", cluster)
	}
	binaries, err := filepath.Abs(cluster)
	if err != nil {
		return nil, err
	}
	r, err := Start(ctx, Config{Binaries: binaries, APIServer: "127.0.0.1:1", LeaseSeconds: 40, Kubeconfig: unused})
	if err != nil {
		return nil, err
	}
	m, err := r.AddMachine(ctx, NodeConfig{Name: "n"})
	if err != nil {
		return nil, errors.Join(err, r.Stop(ctx))
	}
	pod := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"default","uid":"u"},"spec":{
		"containers":[{"name":"main","image":%q,"imagePullPolicy":"Never","args":["run"],
			"env":[{"name":"POD_UID","value":"u"}],"volumeMounts":[{"name":"seen","mountPath":"/seen"}]}],
		"volumes":[{"name":"seen","hostPath":{"path":%q}}]}}`, Image, SeenFolder)
	if err := os.WriteFile(m.StaticPod("p"), []byte(pod), 0o600); err != nil {
		return nil, errors.Join(err, r.Stop(ctx))
	}
	err = await.Poll(ctx, func(context.Context) error {
		if seen, err := r.SeenBy("u"); err != nil || len(seen) == 0 {
			return errors.Join(err, m.failure("kubelet", "the container has not started"))
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, r.Stop(ctx))
	}
	return r, nil
}

// unused makes a client configuration for a control plane that does not exist.
func unused(user string, _ ...string) ([]byte, error) {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],
		"users":[{"name":%q,"user":{"token":"t"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":%q}}],"current-context":"c"}`,
		user, user), nil
}

// inventory is what a machine could leave: mounts, network interfaces, namespaces with a name, cgroups, folders and
// processes.
func inventory(ctx context.Context, t *testing.T) (all []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	await.Must(t, err)
	for line := range strings.Lines(string(mounts)) {
		all = append(all, strings.Fields(line)[4])
	}
	links, err := exec.CommandContext(ctx, "ip", "-o", "link").Output()
	await.Must(t, err)
	for line := range strings.Lines(string(links)) {
		all = append(all, strings.Fields(line)[1])
	}
	cgroups, err := hierarchies()
	await.Must(t, err)
	temporary := filepath.Dir(t.TempDir()) // it is in a folder of the test
	patterns := []string{
		"/run/netns/*", "/run/containerd/*", "/var/lib/kubelet/*", "/var/lib/cni/*", "/var/log/pods/*", "/var/log/containers/*",
		filepath.Join(filepath.Dir(temporary), folderPrefix+"*"),
	}
	for _, hierarchy := range cgroups {
		patterns = append(patterns, filepath.Join(hierarchy, cgroupPrefix+"*"))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		await.Must(t, err)
		all = append(all, found...)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/environ")
	await.Must(t, err)
	for _, path := range commands {
		if text, _ := os.ReadFile(path); strings.Contains(string(text), rigVariable) {
			all = append(all, "a process of a rig")
		}
	}
	slices.Sort(all)
	return all
}

func awaitInventory(t *testing.T, want []string) {
	t.Helper()
	await.Eventually(t, "nothing is left", func(ctx context.Context) error {
		if got := inventory(ctx, t); !slices.Equal(got, want) {
			return fmt.Errorf("there is %q, and before was %q", got, want)
		}
		return nil
	})
}

func TestARigThatStopsLeavesNothingBehind(t *testing.T) {
	requireMachines(t)
	before := inventory(t.Context(), t)
	r, err := startStatic(t.Context())
	await.Must(t, err)
	if during := inventory(t.Context(), t); slices.Equal(during, before) {
		t.Error("there is nothing while it runs, either")
	}
	began := time.Now()
	await.Must(t, r.Stop(t.Context()))
	t.Logf("stopped after %s", time.Since(began))
	awaitInventory(t, before)
}

func TestWhatARigLeavesThatIsKilledIsRemovedByTheNextOne(t *testing.T) {
	requireMachines(t)
	before := inventory(t.Context(), t)
	self, err := os.Executable()
	await.Must(t, err)
	killed := exec.CommandContext(t.Context(), self)
	killed.Env = append(os.Environ(), helper+"=1")
	out, err := killed.StdoutPipe()
	await.Must(t, err)
	await.Must(t, killed.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "started\n" {
		t.Errorf("%q, %v", line, err)
	}
	await.Must(t, killed.Process.Kill())
	_ = killed.Wait() // it was killed
	await.Must(t, removeLeftovers(t.Context()))
	awaitInventory(t, before)
}

func TestWhatIsSentOverALinkThatIsCutArrivesOnceItIsHealed(t *testing.T) {
	server, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	await.Must(t, err)
	defer server.Close()
	arrived := make(chan string, 1)
	go func() {
		for {
			connection, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				text, _ := io.ReadAll(connection)
				arrived <- string(text)
				_ = connection.Close()
			}()
		}
	}()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := newLink(t.Context(), socket, server.Addr().String())
	await.Must(t, err)
	l.cut()
	client, err := net.Dial("unix", socket)
	await.Must(t, err)
	_, err = client.Write([]byte("hello"))
	await.Must(t, errors.Join(err, client.(*net.UnixConn).CloseWrite()))
	select {
	case text := <-arrived:
		t.Errorf("%q arrives while the link is cut", text)
	case <-time.After(100 * time.Millisecond):
	}
	l.heal()
	if text := await.Receive(t, arrived); text != "hello" {
		t.Errorf("%q arrives", text)
	}
	await.Must(t, l.close())
}

func TestWhatContainersWrite(t *testing.T) {
	got, err := parse("1500 uid main SIGTERM\n")
	want := Sight{time.Unix(0, 1500), "uid", "main", "SIGTERM"}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"1500 main SIGTERM\n", "now uid main SIGTERM\n"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestOnlyProcessesOfRigsThatNoLongerExistAreAbandoned(t *testing.T) {
	for environment, want := range map[string]bool{
		"A=b\x00C=d": false,
		fmt.Sprintf("A=b\x00%s=%d\x00", rigVariable, os.Getpid()): false,
		rigVariable + "=4194304\x00":                              true, // the ids of processes are smaller
	} {
		if got := isAbandoned([]byte(environment)); got != want {
			t.Errorf("%q is abandoned: %t, want %t", environment, got, want)
		}
	}
}
