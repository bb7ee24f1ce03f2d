// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cli"
)

// full is where nothing can be written.
type full struct{ err error }

// Write implements io.Writer.
func (f full) Write([]byte) (int, error) { return 0, f.err }

func runInto(t *testing.T, out full, args ...string) (code int, stderr string) {
	t.Helper()
	var errOut bytes.Buffer
	root := cli.New(cli.Env{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: &errOut}, Clock: clock.RealClock{},
	})
	root.SetArgs(args)
	code = cli.Fail(&errOut, root.ExecuteContext(t.Context()))
	return code, errOut.String()
}

func TestWhatCannotBeWrittenIsAnErrorInEveryCommand(t *testing.T) {
	for _, args := range [][]string{{"taints"}, {"pending"}, {"check"}, {"snapshot"}, {"explain", "cart-0"}, {"plan", "worker-a1", "m:NoExecute"}} {
		args = append(args, "-f", "../../../examples/cluster.yaml")
		if code, stderr := runInto(t, full{errors.New("no space left")}, args...); code != cli.ExitFailed || stderr != "error: print: no space left\n" {
			t.Errorf("%q ends with exit code %d and\n%s\nwant %d, and that there is no space", args, code, stderr, cli.ExitFailed)
		}
		if code, stderr := runInto(t, full{syscall.EPIPE}, args...); code != cli.ExitFailed || stderr != "" {
			t.Errorf("where nobody reads any more, %q ends with exit code %d and\n%s\nwant %d, and quiet", args, code, stderr, cli.ExitFailed)
		}
	}
}

// answers is an API server that has one node, and answers for some resources as it is told.
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

func TestAnAPIServerThatAnswersOtherwiseIsSaidWithWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		nodes func(http.ResponseWriter)
		want  string
	}{
		"forbidden":             {status(403, "Forbidden"), `^error: list nodes: out of luck: ask for the right to list them, which the ClusterRole taintkeeper-viewer has, or name files with -f\n$`},
		"unauthorized":          {status(401, "Unauthorized"), `^error: list nodes: the API server \S+ does not know you: out of luck: log in again\n$`},
		"not found":             {status(404, "NotFound"), `^error: list nodes: the API server \S+ does not have them: out of luck: check the context `},
		"gone":                  {status(410, "Expired"), `^error: list nodes: the API server \S+ fails: out of luck: try again\n$`},
		"too many requests":     {status(429, "TooManyRequests"), `^error: list nodes: the API server \S+ fails: out of luck: try again\n$`},
		"internal server error": {status(500, "InternalError"), `^error: list nodes: the API server \S+ fails: out of luck: try again\n$`},
		"no API server":         {page, `^error: list nodes: \S+ does not answer as an API server does: .*: check the context `},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, "taints", "-s", answers(t, map[string]func(http.ResponseWriter){"nodes": test.nodes}))
			if got.code != cli.ExitFailed || got.out != "" || !regexp.MustCompile(test.want).MatchString(got.err) {
				t.Errorf("exit code %d, stdout %q, and stderr\n%s\nwant %d, nothing, and %s", got.code, got.out, got.err, cli.ExitFailed, test.want)
			}
		})
	}
}

func TestWhatAnAPIServerDoesNotHaveIsSaidAndThePlanIsMadeWithoutIt(t *testing.T) {
	got := run(t, "plan", "n-1", "m:NoExecute", "-s", answers(t, nil))
	const want = "Note: The API server does not have poddisruptionbudgets, so no PodDisruptionBudget is taken into account.\n"
	if got.code != cli.ExitOK || !bytes.Contains([]byte(got.out), []byte(want)) {
		t.Errorf("exit code %d, and\n%s%s\nwant %d, and %s", got.code, got.out, got.err, cli.ExitOK, want)
	}
}

func TestPoliciesOfTheClusterAreChecked(t *testing.T) {
	list := func(text string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { fmt.Fprint(w, text) }
	}
	server := answers(t, map[string]func(http.ResponseWriter){
		"evictionpolicies": list(`{"kind": "EvictionPolicyList", "apiVersion": "taintkeeper.dev/v1alpha1", "items": [
			{"metadata": {"name": "databases"}, "spec": {"action": "Hold", "ifDown": "Hold"}}]}`),
		"validatingadmissionpolicies": list(
			`{"kind": "ValidatingAdmissionPolicyList", "apiVersion": "admissionregistration.k8s.io/v1", "items": []}`),
	})
	got := run(t, "check", "--no-headers", "--rules", "policy-holds-without-end,policy-if-down", "-s", server)
	const want = `^warning +policy-holds-without-end +EvictionPolicy/databases .*\nwarning +policy-if-down +EvictionPolicy/databases .*\n$`
	if got.code != cli.ExitOK || !regexp.MustCompile(want).MatchString(got.out) {
		t.Errorf("exit code %d, and\n%s%s\nwant %d, and %s", got.code, got.out, got.err, cli.ExitOK, want)
	}
}

func TestPoliciesThatMayNotBeListedAreSaidAndTheRestIsChecked(t *testing.T) {
	got := run(t, "check", "-s", answers(t, map[string]func(http.ResponseWriter){"evictionpolicies": status(403, "Forbidden")}))
	const want = "Note: You may not list evictionpolicies, so no EvictionPolicy is taken into account.\n"
	if got.code != cli.ExitOK || !bytes.Contains([]byte(got.out), []byte(want)) {
		t.Errorf("exit code %d, and\n%s%s\nwant %d, and %s", got.code, got.out, got.err, cli.ExitOK, want)
	}
}

func TestAPauseWhereThereAreNoPoliciesSaysWhatToInstall(t *testing.T) {
	got := run(t, "pause", "network is down", "-s", answers(t, nil))
	const want = `^error: create an EvictionPolicy: the API server \S+ does not have the resource: install Taintkeeper's chart, or apply config/crd.yaml\n$`
	if got.code != cli.ExitFailed || got.out != "" || !regexp.MustCompile(want).MatchString(got.err) {
		t.Errorf("exit code %d, stdout %q, and stderr\n%s\nwant %d, nothing, and %s", got.code, got.out, got.err, cli.ExitFailed, want)
	}
}

func TestAnAPIServerWithoutTheTracesOfControllersIsChecked(t *testing.T) {
	if got := run(t, "check", "-s", answers(t, nil)); got.code != cli.ExitOK {
		t.Errorf("exit code %d, and\n%s%s", got.code, got.out, got.err)
	}
}
