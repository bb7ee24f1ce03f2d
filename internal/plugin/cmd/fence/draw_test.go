// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
)

// now is when the commands run.
var now = time.Date(2026, time.November, 22, 9, 0, 0, 250_000_000, time.UTC)

// keys of taints that nodes have, that pods tolerate, and that are planned.
var keys = []string{"power", "maintenance", "spot"}

// cluster is what testdata/cluster.tmpl needs to know about a random cluster before it draws the rest.
type cluster struct {
	*rand.Rand

	template  *template.Template
	nodes     []node
	workloads []*workload
	pods      []*pod
}

// node is a node, and the keys of its taints.
type node struct {
	Name, Zone string

	Keys []string
}

// workload is a controller of pods, or a pod without one. Labels and Spec are YAML that its pods and its template share.
type workload struct {
	Kind, Namespace, Name, Labels, Spec string

	Pods []*pod
}

// pod is a pod. Those that are hung belong to a ReplicaSet that is new, and never become ready.
type pod struct {
	*workload

	Name, Owner, Labels string
	Node                node

	Static, Claims, Scratch, Hung bool
}

// drawCluster draws the cluster with a number: the files that testdata/cluster.tmpl consists of.
func drawCluster(t *testing.T, number int) *txtar.Archive {
	t.Helper()
	c := &cluster{Rand: rand.New(rand.NewPCG(uint64(number), 43))}
	c.template = template.New("cluster.tmpl").Option("missingkey=error").Funcs(template.FuncMap{
		"pick": c.pick, "oneIn": c.oneIn, "ago": c.ago, "micro": micro, "include": c.include,
		"keys": func() []string { return keys }, "nodes": func() []node { return c.nodes },
		"workloads": func() []*workload { return c.workloads }, "pods": func() []*pod { return c.pods }, "tainted": c.tainted,
		"list":  func(all ...any) []any { return all },
		"map":   func(a, b, c, d string) map[string]string { return map[string]string{a: b, c: d} },
		"words": func(text string) string { return strings.ReplaceAll(text, " ", `", "`) },
		"lower": strings.ToLower,
	})
	_, err := c.template.ParseFiles("testdata/cluster.tmpl")
	await.Must(t, err)
	await.Must(t, c.drawShape())
	text, err := c.include("cluster.tmpl", nil)
	await.Must(t, err)
	return txtar.Parse([]byte(text))
}

// Of is the name of the pod's workload.
func (p *pod) Of() string { return p.workload.Name }

// tainted returns the first node with one of the taints that are planned.
func (c *cluster) tainted() []node {
	i := slices.IndexFunc(c.nodes, func(is node) bool { return len(is.Keys) > 0 })
	return c.nodes[max(i, 0):max(i+1, 0)]
}

// pick returns one of its arguments, or one element of its only argument.
func (c *cluster) pick(all ...any) any {
	if len(all) == 1 {
		list := reflect.ValueOf(all[0])
		return list.Index(c.IntN(list.Len())).Interface()
	}
	return all[c.IntN(len(all))]
}

func (c *cluster) oneIn(n int) bool { return c.IntN(n) == 0 }

// ago returns the second in which one of the given durations had yet to pass until the commands ran.
func (c *cluster) ago(all ...string) (string, error) {
	d, err := time.ParseDuration(all[c.IntN(len(all))])
	return now.Add(-d).Format(time.RFC3339), err
}

func micro(ago string) (string, error) {
	d, err := time.ParseDuration(ago)
	return now.Add(-d).Format("2006-01-02T15:04:05.000000Z07:00"), err
}

// include returns what a part of the template draws.
func (c *cluster) include(part string, with any) (string, error) {
	var text strings.Builder
	err := c.template.ExecuteTemplate(&text, part, with)
	return text.String(), err
}

// drawShape draws nodes, workloads, and which pod is on which node.
func (c *cluster) drawShape() error {
	zones := []string{"a", "b", "c"}[:1+c.IntN(3)]
	for i := range 2 + c.IntN(4) {
		is := node{Zone: zones[i%len(zones)]}
		is.Name = fmt.Sprintf("%s-%d", is.Zone, i)
		for _, key := range keys {
			if c.oneIn(5) {
				is.Keys = append(is.Keys, key)
			}
		}
		c.nodes = append(c.nodes, is)
	}
	kinds := []string{"Deployment", "Deployment", "Deployment", "StatefulSet", "StatefulSet", "StatefulSet", "Job", "DaemonSet", "Pod", "Cluster", "Node"}
	for i := range 2 + c.IntN(3) {
		w := &workload{Kind: kinds[c.IntN(len(kinds))], Namespace: []string{"data", "shop", "shop"}[c.IntN(3)]}
		w.Name = fmt.Sprintf("%s-%d", strings.ToLower(w.Kind), i)
		w.Labels = fmt.Sprintf("app: %s, tier: %v", w.Name, c.pick("web", "db"))
		var err error
		if w.Spec, err = c.include("spec", w); err != nil {
			return err
		}
		c.drawPods(w)
		c.workloads = append(c.workloads, w)
		c.pods = append(c.pods, w.Pods...)
	}
	return nil
}

// drawPods draws the pods of a workload. An operator that no command knows has the kind Cluster, and mirror pods of
// static pods belong to their nodes.
func (c *cluster) drawPods(w *workload) {
	api := cmp.Or(map[string]string{"Job": "batch/v1", "Cluster": "postgresql.cnpg.io/v1", "Node": "v1"}[w.Kind], "apps/v1")
	claims := slices.Contains([]string{"StatefulSet", "Cluster"}, w.Kind) && c.oneIn(2)
	scratch, rollout, replicas := c.oneIn(5), c.oneIn(4), 1+c.IntN(4)
	switch {
	case w.Kind == "DaemonSet":
		replicas = len(c.nodes)
	case c.oneIn(80): // too many to print each in a row
		replicas = 35
	}
	for i := range replicas {
		is := &pod{
			workload: w, Name: fmt.Sprintf("%s-%d", w.Name, i), Labels: w.Labels, Node: c.nodes[c.IntN(len(c.nodes))],
			Static: w.Kind == "Node", Claims: claims, Scratch: scratch,
		}
		kind, owner := w.Kind, w.Name
		switch w.Kind {
		case "Deployment":
			hash := "5d8"
			if is.Hung = rollout && i == replicas-1; is.Hung {
				hash = "7c9"
			}
			kind, owner, is.Labels = "ReplicaSet", w.Name+"-"+hash, w.Labels+", pod-template-hash: "+hash
			is.Name = owner + "-" + fmt.Sprint(i)
		case "DaemonSet":
			is.Node = c.nodes[i]
		case "Node":
			owner = is.Node.Name
		}
		if w.Kind != "Pod" {
			is.Owner = fmt.Sprintf("{apiVersion: %s, kind: %s, name: %s, uid: %s/%s, controller: true}", api, kind, owner, kind, owner)
		}
		w.Pods = append(w.Pods, is)
	}
}

// write writes the files of a cluster into a folder, and returns the command lines: all for JSON, and some for a table or
// a wide one. Commands read JSON faster than YAML.
func write(t *testing.T, drawn *txtar.Archive, folder string, number int) (lines []string) {
	t.Helper()
	for _, file := range drawn.Files {
		switch file.Name {
		case "commands":
			for i, line := range strings.Split(strings.TrimSpace(string(file.Data)), "\n") {
				lines = append(lines, formatsOf(line, number+i)...)
			}
			file.Data = []byte(strings.Join(lines, "\n") + "\n")
		case "cluster.yaml":
			file.Name, file.Data = "cluster.json", listOf(t, file.Data)
		}
		await.Must(t, os.WriteFile(filepath.Join(folder, file.Name), file.Data, 0o600))
	}
	return lines
}

// formatsOf returns a command line for JSON and, if its turn has come, for a table. A snapshot is always JSON.
func formatsOf(line string, turn int) []string {
	line += " -f cluster.json"
	switch {
	case strings.HasPrefix(line, "snapshot"):
		return []string{line}
	case turn%2 == 0:
		return []string{line + " -o json"}
	case turn%3 == 0 && !strings.HasPrefix(line, "status"):
		return []string{line + " -o json", line + " -o wide"}
	}
	return []string{line + " -o json", line}
}

// listOf returns objects one per line, as a snapshot has them. A snapshot gets its last line.
func listOf(t *testing.T, objects []byte) []byte {
	t.Helper()
	text, err := yaml.YAMLToJSON(objects)
	await.Must(t, err)
	var all []json.RawMessage
	await.Must(t, json.Unmarshal(text, &all))
	lines := make([]string, 0, len(all)+1)
	for _, one := range all {
		lines = append(lines, string(one))
	}
	if strings.Contains(lines[0], `"kind":"Snapshot"`) {
		lines = append(lines, fmt.Sprintf(`{"apiVersion": "cli.taintkeeper.dev/v1alpha1", "kind": "SnapshotEnd", "objects": %d}`, len(all)-1))
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}
