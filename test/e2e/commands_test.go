// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/taintkeeper/taintkeeper/api/v1alpha1"
	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/localcluster"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
	"github.com/taintkeeper/taintkeeper/test/rig/scene"
)

// TestCommands plays what users ask kubectl taintkeeper next to the built-in, some of them with the rights of a role
// alone. Commands look at the whole cluster, so each story is alone.
func TestCommands(t *testing.T) {
	for i := range commands {
		commands[i].Alone, commands[i].Long = true, true
	}
	play(t, besideBuiltIn, commands...)
}

var commands = []Scenario{
	{
		Name:  "the role of the viewer suffices for every command that reads",
		Given: []Step{Simulated("n"), On("n", "web"), Follow(heldEvenIfDown), hasRoles("viewer", "list leases", "taintkeeper-viewer")},
		Promised: []Check{
			answers("viewer", everyCommandThatReads...), boardIsCurrent("viewer"), refusedNothing("viewer"),
			answers("viewer", asked("taint {}-n m:NoExecute --yes",
				`cannot patch resource "nodes"`, "ask for permission to patch nodes").exits(exitFailed)),
		},
	},
	{
		Name:     "so does the role view, to which that of the viewer is added",
		Given:    []Step{Simulated("n"), On("n", "web"), Follow(heldEvenIfDown), hasRoles("person", "list leases", "view")},
		Promised: []Check{answers("person", everyCommandThatReads...), boardIsCurrent("person"), refusedNothing("person")},
	},
	{
		Name: "the roles of the viewer and the operator suffice to pause, resume and taint",
		Given: []Step{
			Simulated("n"), Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, Paused: new("zone b")}),
			hasRoles("oncall", "list leases", "taintkeeper-viewer", "taintkeeper-operator"),
		},
		Promised: []Check{
			answers("oncall",
				asked("pause network", "pause created"),
				asked("pause network is down", "pause configured"),
				asked("pause backup -n {}", "pause-2 created"),
				asked("taint {}-n m=:NoSchedule --yes", "{}-n"),
				asked("untaint {}-n m:NoSchedule --yes", "{}-n"),
				asked("resume pause-2", "pause-2 deleted"),
				asked("resume --all", "{} resumed"),
			),
			refusedNothing("oncall"),
		},
	},
	{
		Name:  "a user of one namespace gets answers about that namespace, and is told what is missing",
		Given: []Step{Simulated("n"), On("n", "web"), hasRoleHere("developer", "view")},
		Promised: []Check{answers("developer",
			asked("why web", "You may not get nodes, so the taints of the pod's node are not known."),
			asked("leaving", "You may not list nodes, so this lists only the pods that were evicted and still exist."),
			asked("leaving --since 30m", "0 pods were evicted in the last 30m"),
			asked("check --fail-on=never", "You may list pods only in namespace {}, so the answer is about that namespace."),
			asked("status", "You may not list leases").exits(exitFailed),
			asked("plan {}-n m:NoExecute", "ask for permission to list them, which the ClusterRole").exits(exitFailed),
		)},
	},
	{
		Name:  "budgets that could not be read do not count as budgets that are kept",
		Given: []Step{Simulated("n"), role("planner", "", "*", "get", "list"), hasRoles("planner", "list pods", "{}-planner")},
		Promised: []Check{answers("planner",
			asked("plan {}-n m:NoExecute --fail-on=lost-workload", "You may not list"),
			asked("plan {}-n m:NoExecute --fail-on=budget",
				"--fail-on=budget cannot be checked because you may not list poddisruptionbudgets: ask for permission").exits(exitFailed),
		)},
	},
	{
		Name:  "status says how a leader does, and that it has ended",
		Given: []Step{Alone("held"), Follow(v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold}), clockRenewed},
		When: []Step{
			Then(answers("", asked("status -o json", `"health": "Healthy"`, `"mode": "Enforce"`, `"version": "`+version+`"`,
				`"lease": "kube-system/taintkeeper"`, `"since": "20`, `"state": "Fresh"`))),
			stopKeeper, // it hands the evictions back, and releases its Lease
		},
		Promised: []Check{answers("",
			asked("status -o json", `"health": "NotRunning"`).exits(exitDown),
			asked("leaving -A",
				"Taintkeeper is not running (no replica holds Lease kube-system/taintkeeper), so EvictionPolicies hold no pod"),
		)},
	},
	{
		// The pod waiting fits no node, and the kubelet of a-2 does not end the pod that is evicted from it.
		Name: "one command on one screen answers each question of an engineer on call",
		Given: []Step{
			Simulated("a-0", "a-1", "a-2", "a-3", "a-4", "b-0", "b-1", "b-2", "b-3", "b-4"),
			deployment("web", 40), deployment("cart", 3, inZone("b")), unbound("waiting"),
			On("a-0", "patient", scene.Tolerating("maintenance", 3600)), On("a-1", "gone"), On("a-2", "stuck"),
		},
		When: []Step{
			silence("a-2"), Then(answers("", asked("taint {}-a-0 {}-a-1 {}-a-2 maintenance:NoExecute --yes"))),
			Gone("gone"), Gone("stuck"),
		},
		Promised: []Check{answersWithin(screen, "",
			asked("why gone -n {}", "is gone: Taintkeeper evicted it from node {}-a-1", "maintenance:NoExecute"),
			asked("why patient -n {}", "leaves node {}-a-0 in ", "maintenance:NoExecute"), // when?
			asked("taints", "maintenance:NoExecute", "kubectl-taintkeeper"),               // who set it?
			asked("plan {}-a-0 maintenance:NoExecute-", "1 pod that would otherwise leave may stay"),
			asked("status", "Taintkeeper is running"),
			asked("simulate --silent -l topology.kubernetes.io/zone={}-b --for=10m", "Deployment {}/cart has no ready replica"),
			asked("plan {}-a-3 maintenance:NoExecute --fail-on=lost-workload,lost-pod,budget", " pods on 1 node leave"), // may I?
			asked("plan {}-a-3 maintenance:NoExecute --where-to", "{}-"),
			asked("why stuck -n {}", "terminating"),
			asked("why waiting -n {}", "there is no node that it can go to", "Its node selector and node affinity allow 0 of "),
			asked("pause the network is down", "pause created"),
			asked("resume --all", "pause deleted"),
		)},
	},
}

// heldEvenIfDown makes commands read all that policies ask for.
var heldEvenIfDown = v1alpha1.EvictionPolicySpec{Action: v1alpha1.ActionHold, IfDown: v1alpha1.IfDownHold}

var everyCommandThatReads = []command{
	asked("plan {}-n m:NoExecute --where-to"), asked("simulate --silent {}-n --for 10m"), asked("why web"),
	asked("leaving -A"), asked("leaving -A --since 30m"), asked("taints"), asked("snapshot"), asked("check --fail-on=never"),
	asked("status"),
}

// command is a command of the plugin, and what it must answer. In both, {} stands for the namespace of the story, whose
// node n is {}-n. A lack of rights may be mentioned only where the answer wants that.
type command struct {
	line string
	want []string
	code int
}

// Exit codes, as docs/commands.md has them.
const (
	exitFailed = 1
	exitDown   = 4
)

// screen is how many lines of 80 columns an answer may have to be on one.
const screen = 50

func asked(line string, want ...string) command { return command{line, want, 0} }

func (c command) exits(code int) command { c.code = code; return c }

// wrong returns what is wrong with an answer, if anything is.
func (c command) wrong(answer string, code, lines int) (all []string) {
	if code != c.code {
		all = append(all, fmt.Sprintf("the exit code is %d, want %d", code, c.code))
	}
	if count := strings.Count(answer, "\n"); count > lines {
		all = append(all, fmt.Sprintf("it has %d lines, want %d at most", count, lines))
	}
	answer = strings.Join(strings.Fields(answer), " ")
	for _, want := range c.want {
		if !strings.Contains(answer, want) {
			all = append(all, fmt.Sprintf("it lacks %q", want))
		}
	}
	for _, unwanted := range []string{"You may", "has not confirmed"} {
		if strings.Contains(answer, unwanted) && !strings.Contains(strings.Join(c.want, " "), unwanted) {
			all = append(all, fmt.Sprintf("it says %q", unwanted))
		}
	}
	return all
}

// answers wants commands that a user runs one after the other to answer so. The user without a name is the administrator.
func answers(user string, all ...command) Check { return answersWithin(1<<20, user, all...) }

func answersWithin(lines int, user string, all ...command) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		config, err := kubeconfigOf(p, user)
		found := Finding{Right: true}
		for _, c := range all {
			filled := command{fill(p, c.line), nil, c.code}
			for _, want := range c.want {
				filled.want = append(filled.want, fill(p, want))
			}
			answer, code := ask(ctx, config, strings.Fields(filled.line)...)
			if wrong := filled.wrong(answer, code, lines); len(wrong) > 0 {
				found = found.And(Finding{Seen: fmt.Sprintf("%s: %s:\n%s", filled.line, strings.Join(wrong, ", "), answer)})
			}
		}
		return found, err
	}
}

func fill(p *Play, text string) string { return strings.ReplaceAll(text, "{}", p.Namespace) }

// ask runs the plugin, and returns all that it prints, and its exit code.
func ask(ctx context.Context, kubeconfig string, args ...string) (answer string, code int) {
	out, err := exec.CommandContext(ctx, plugin, append(args, "--kubeconfig="+kubeconfig)...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		return err.Error(), -1
	}
	return string(out), 0
}

// userOf is the name in the cluster of a user of the story.
func userOf(p *Play, user string) string { return p.Namespace + "-" + user }

// kubeconfigOf makes the kubeconfig of a user who works in the namespace of the story. Calls of the group are in the
// audit log.
func kubeconfigOf(p *Play, user string) (path string, err error) {
	if user == "" {
		return kubeconfig, nil
	}
	config, err := cluster.ConfigFor(userOf(p, user), auditlog.Users)
	if err != nil {
		return "", err
	}
	if path, err = cluster.Kubeconfig(userOf(p, user), config); err != nil {
		return "", err
	}
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", err
	}
	file.Contexts[file.CurrentContext].Namespace = p.Namespace
	return path, clientcmd.WriteToFile(*file, path)
}

// hasRoles lets a user have some ClusterRoles, and waits until that gives a right. kube-controller-manager adds the rights
// of the viewer to the role view some moments later.
func hasRoles(user, right string, roles ...string) Step {
	return func(ctx context.Context, p *Play) error {
		if err := cluster.InstallViewer(ctx); err != nil {
			return err
		}
		bindings := p.Admin.RbacV1().ClusterRoleBindings()
		for _, role := range roles {
			role = fill(p, role)
			binding := &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: userOf(p, user) + "-" + role},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: userOf(p, user)}},
			}
			if _, err := bindings.Create(ctx, binding, metav1.CreateOptions{}); err != nil {
				return err
			}
			p.Finally(func(ctx context.Context) error { return bindings.Delete(ctx, binding.Name, metav1.DeleteOptions{}) })
		}
		verb, resource, _ := strings.Cut(right, " ")
		attributes := &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource}
		if resource == "leases" {
			attributes.Group = "coordination.k8s.io"
		}
		return mayDo(ctx, p, user, attributes)
	}
}

// hasRoleHere lets a user have a ClusterRole in the namespace of the story.
func hasRoleHere(user, role string) Step {
	return func(ctx context.Context, p *Play) error {
		_, err := p.Admin.RbacV1().RoleBindings(p.Namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: userOf(p, user)}},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return mayDo(ctx, p, user, &authorizationv1.ResourceAttributes{Namespace: p.Namespace, Verb: "list", Resource: "pods"})
	}
}

func mayDo(ctx context.Context, p *Play, user string, action *authorizationv1.ResourceAttributes) error {
	asked := authorizationv1.SubjectAccessReviewSpec{User: userOf(p, user), ResourceAttributes: action}
	return localcluster.AwaitRight(ctx, p.Admin, asked, true)
}

// role makes a ClusterRole of the story.
func role(name, group, resource string, verbs ...string) Step {
	return func(ctx context.Context, p *Play) error {
		roles := p.Admin.RbacV1().ClusterRoles()
		_, err := roles.Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: userOf(p, name)},
			Rules:      []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}}},
		}, metav1.CreateOptions{})
		p.Finally(func(ctx context.Context) error { return roles.Delete(ctx, userOf(p, name), metav1.DeleteOptions{}) })
		return err
	}
}

// refusedNothing wants the API server to have refused no call of a user because of a missing right.
func refusedNothing(user string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		calls, err := stageOf(p).CallsBy(userOf(p, user))
		refused := auditlog.Choose(calls, func(c auditlog.Event) bool { return c.Code == http.StatusForbidden })
		return Finding{
			Seen: fmt.Sprintf("%d calls, refused: %v", len(calls), refused), Right: len(calls) > 0 && len(refused) == 0,
		}, err
	}
}

// boardIsCurrent wants the board to become current about all that it shows.
func boardIsCurrent(user string) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		missing := []string{"nodes", "pods", "events", "configmaps", "nodetaintrules", "evictionpolicies"}
		return readBoard(ctx, p, user, nil, func(line string) bool {
			missing = slices.DeleteFunc(missing, func(kind string) bool {
				return strings.Contains(line, fmt.Sprintf(`{"id":%q,"state":"current"`, kind))
			})
			return len(missing) == 0
		})
	}
}

// inZone keeps the pods of a Deployment in a zone of the story's nodes.
func inZone(zone string) func(*Play, *corev1.PodSpec) {
	return func(p *Play, spec *corev1.PodSpec) { spec.NodeSelector[corev1.LabelTopologyZone] = p.NodeName(zone) }
}

// silence lets a simulated kubelet fall silent: a pod on its node that is deleted keeps terminating.
func silence(node string) Step {
	return func(ctx context.Context, p *Play) error { return cluster.SilenceNodes(ctx, p.NodeName(node)) }
}

// TestAtATerminal runs a script of what needs a terminal, and of what kubectl calls for completion.
func TestAtATerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long to start")
	}
	const node = "n0"
	await.Must(t, cluster.AddNodes(t.Context(), localcluster.NodeSpec{Name: node}))
	t.Cleanup(func() {
		await.Must(t, onStage.Client().CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), node, metav1.DeleteOptions{}))
	})
	complete, err := filepath.Abs("../../cmd/kubectl-taintkeeper/kubectl_complete-taintkeeper")
	await.Must(t, err)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(plugin)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("KUBECONFIG", kubeconfig)
			env.Setenv("NODE", node)
			env.Setenv("COMPLETE", complete)
			return nil
		},
	})
}
