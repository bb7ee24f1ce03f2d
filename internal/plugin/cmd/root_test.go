// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
	"github.com/taintkeeper/taintkeeper/test/web"
)

// full is a writer that always fails.
type full struct{ err error }

// Write implements io.Writer.
func (f full) Write([]byte) (int, error) { return 0, f.err }

func runInto(t *testing.T, out full, args ...string) (code int, stderr string) {
	t.Helper()
	var errOut bytes.Buffer
	root := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: &errOut}, Clock: clock.RealClock{},
	})
	root.SetArgs(args)
	code = cmd.Fail(&errOut, root.ExecuteContext(t.Context()))
	return code, errOut.String()
}

func TestWhatCannotBeWrittenIsAnErrorInEveryCommand(t *testing.T) {
	for _, args := range [][]string{{"taints"}, {"leaving"}, {"check"}, {"snapshot"}, {"why", "cart-0"}, {"plan", "worker-a1", "m:NoExecute"}} {
		args = append(args, "-f", "../../../examples/cluster.yaml")
		if code, stderr := runInto(t, full{errors.New("no space left")}, args...); code != cmd.ExitFailed || stderr != "error: print: no space left\n" {
			t.Errorf("%q ends with exit code %d and\n%s\nwant %d, and that there is no space", args, code, stderr, cmd.ExitFailed)
		}
		if code, stderr := runInto(t, full{syscall.EPIPE}, args...); code != cmd.ExitFailed || stderr != "" {
			t.Errorf("where nobody reads anymore, %q ends with exit code %d and\n%s\nwant %d, and quiet", args, code, stderr, cmd.ExitFailed)
		}
	}
}

// answers is an API server with one node, which returns the given answers for some resources.
func answers(t *testing.T, with map[string]func(http.ResponseWriter)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := path.Base(r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		switch answer := with[resource]; {
		case answer != nil:
			answer(w)
		case resource == "nodes":
			fmt.Fprint(w, `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n-1"}}]}`)
		case resource == "pods":
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "items": []}`)
		default:
			status(http.StatusNotFound, "NotFound")(w)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func status(code int, reason string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "out of luck", "reason": %q, "code": %d}`, reason, code)
	}
}

func page(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<html>Log in, please.</html>")
}

func TestUnexpectedAnswersOfTheAPIServerAreErrorsThatSayWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		nodes func(http.ResponseWriter)
		want  string
	}{
		"forbidden":             {status(403, "Forbidden"), `^error: list nodes: out of luck: ask for permission to list them, which the ClusterRole taintkeeper-viewer\[\.NAMESPACE\] has\n$`},
		"unauthorized":          {status(401, "Unauthorized"), `^error: list nodes: the API server \S+ rejected your credentials: out of luck: log in again\n$`},
		"not found":             {status(404, "NotFound"), `^error: list nodes: the API server \S+ does not have them: out of luck: check the context `},
		"gone":                  {status(410, "Expired"), `^error: list nodes: the API server \S+ failed: out of luck: try again\n$`},
		"too many requests":     {status(429, "TooManyRequests"), `^error: list nodes: the API server \S+ failed: out of luck: try again\n$`},
		"internal server error": {status(500, "InternalError"), `^error: list nodes: the API server \S+ failed: out of luck: try again\n$`},
		"no API server":         {page, `^error: list nodes: \S+ does not answer like an API server: .*: check the context `},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, "taints", "-s", answers(t, map[string]func(http.ResponseWriter){"nodes": test.nodes}))
			if got.code != cmd.ExitFailed || got.out != "" || !regexp.MustCompile(test.want).MatchString(got.err) {
				t.Errorf("exit code %d, stdout %q, and stderr\n%s\nwant %d, nothing, and %s", got.code, got.out, got.err, cmd.ExitFailed, test.want)
			}
		})
	}
}

func TestWhatAnAPIServerLacksIsNotedAndTheRestIsAnswered(t *testing.T) {
	list := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { fmt.Fprint(w, text) }
	}
	for name, test := range map[string]struct {
		args    string
		answers map[string]func(http.ResponseWriter)
		want    string
	}{
		"a plan without budgets": {
			"plan n-1 m:NoExecute", nil,
			`Note: The API server does not have poddisruptionbudgets, so PodDisruptionBudgets are not taken into account\.\n`,
		},
		"a check without traces of controllers": {"check", nil, ""},
		"a check without the right to list policies": {
			"check", map[string]func(http.ResponseWriter){"evictionpolicies": status(403, "Forbidden")},
			`Note: You may not list evictionpolicies, so EvictionPolicies are not taken into account\.\n`,
		},
		"a check of policies without admission policies": {
			"check --no-headers --rules policy-holds-without-end,policy-if-down", map[string]func(http.ResponseWriter){
				"evictionpolicies": list(`{"kind": "EvictionPolicyList", "apiVersion": "taintkeeper.dev/v1alpha1", "items": [
					{"metadata": {"name": "databases"}, "spec": {"action": "Hold", "ifDown": "Hold"}}]}`),
				"validatingadmissionpolicies": list(
					`{"kind": "ValidatingAdmissionPolicyList", "apiVersion": "admissionregistration.k8s.io/v1", "items": []}`),
			},
			`^warning +policy-holds-without-end +EvictionPolicy/databases .*\nwarning +policy-if-down +EvictionPolicy/databases .*\n$`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, append(strings.Fields(test.args), "-s", answers(t, test.answers))...)
			if got.code != cmd.ExitOK || !regexp.MustCompile(test.want).MatchString(got.out) {
				t.Errorf("exit code %d, and\n%s%s\nwant %d, and %s", got.code, got.out, got.err, cmd.ExitOK, test.want)
			}
		})
	}
}

// kubeconfig writes a file whose context admin@prod selects an API server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "admin@prod",
		"clusters": [{"name": "prod", "cluster": {"server": %q}}],
		"contexts": [{"name": "admin@prod", "context": {"cluster": "prod", "user": "admin"}}],
		"users": [{"name": "admin", "user": {}}]}`, server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAPlanNamesItsCluster(t *testing.T) {
	server := answers(t, nil)
	for format, want := range map[string]string{
		"":     "This plan is for cluster prod (context admin@prod, " + server + ").\n",
		"html": "<dt>Cluster</dt><dd>prod (context admin@prod, " + server + ")</dd>",
		"json": `"context": "admin@prod",
    "cluster": "prod",
    "server": "` + server + `",`,
	} {
		args := []string{"plan", "n-1", "m:NoExecute", "--kubeconfig", kubeconfig(t, server)}
		if format != "" {
			args = append(args, "-o", format)
		}
		if got := run(t, args...); got.code != cmd.ExitOK || !strings.Contains(got.out, want) {
			t.Errorf("-o %q: exit code %d, and\n%s%s\nwant %d, and %s", format, got.code, got.out, got.err, cmd.ExitOK, want)
		}
	}
	got := run(t, "plan", "n-1", "m:NoExecute", "-s", server)
	if want := "This plan is for cluster " + server + ".\n"; !strings.Contains(got.out, want) {
		t.Errorf("without a kubeconfig:\n%s%s\nwant %s", got.out, got.err, want)
	}
}

func TestAnEmptyNamespaceDoesNotHidePodsThatMustLeaveInOthers(t *testing.T) {
	server := answers(t, map[string]func(http.ResponseWriter){
		"nodes": func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"kind": "NodeList", "apiVersion": "v1", "items": [
				{"metadata": {"name": "n-1"}, "spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}]}`)
		},
		"pods": func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "items": [
				{"metadata": {"namespace": "shop", "name": "p", "uid": "p"}, "spec": {"nodeName": "n-1"}}]}`)
		},
	})
	got := run(t, "leaving", "--kubeconfig", kubeconfig(t, server))
	const want = "No pods in namespace default need to leave; 1 in other namespaces (-A).\n"
	if got.code != cmd.ExitOK || got.out != "" || !strings.Contains(got.err, want) {
		t.Errorf("exit code %d, and\n%s%s\nwant %d, and %s", got.code, got.out, got.err, cmd.ExitOK, want)
	}
}

func TestResumeSaysOnceThatPodsMayLeave(t *testing.T) {
	server := answers(t, map[string]func(http.ResponseWriter){
		"evictionpolicies": func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"kind": "EvictionPolicyList", "apiVersion": "taintkeeper.dev/v1alpha1", "items": [{
				"metadata": {"name": "pause-1", "labels": {"app.kubernetes.io/managed-by": "kubectl-taintkeeper"}},
				"spec": {"action": "Hold", "paused": "network is down"}}]}`)
		},
		"pause-1": func(w http.ResponseWriter) {
			w.Header().Add("Warning", `299 - "Validation failed for ValidatingAdmissionPolicy 'taintkeeper-holding' with binding 'taintkeeper-holding': this policy holds 3 pods"`)
			w.Header().Add("Warning", `299 - "another warning"`)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Success"}`)
		},
	})
	got := run(t, "resume", "-s", server)
	if got.code != cmd.ExitOK || strings.Contains(got.err, "holding") || !strings.Contains(got.err, "Warning: another warning\n") {
		t.Errorf("exit code %d, and\n%s%s\nwant %d, and the other warning alone", got.code, got.out, got.err, cmd.ExitOK)
	}
}

// get requests an address. The caller closes the body.
func get(t *testing.T, address string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func TestABoardIsServedUntilItIsInterruptedAndEndsItsPages(t *testing.T) {
	apiServer := answers(t, map[string]func(http.ResponseWriter){"version": status(http.StatusForbidden, "Forbidden")})
	address, end, err := web.Serve(t.Context(), "--server="+apiServer)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("the address is %s", address)
	}
	response := get(t, address+"events")
	defer response.Body.Close()
	events := bufio.NewReader(response.Body)
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatalf("the page has not been sent the node: %v", err)
		}
		if strings.Contains(line, `"nodes/n-1":`) {
			break
		}
	}
	if err := end(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	_, _ = io.Copy(io.Discard, events) // it ends
}

func TestAnErrorSaysThatAPortIsInUse(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	got := run(t, "board", "--server=http://127.0.0.1:1", "--port="+port)
	want := "error: serve on port " + port + ": it is in use: choose another --port, or remove --port to use a free one\n"
	if got.err != want || got.code != cmd.ExitFailed || got.out != "" {
		t.Errorf("it prints %q and %q with code %s, want %q", got.out, got.err, strconv.Itoa(got.code), want)
	}
}
