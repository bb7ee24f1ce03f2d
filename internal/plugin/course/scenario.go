// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package course

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	cliv1alpha1 "github.com/taintkeeper/taintkeeper/api/cli/v1alpha1"
	"github.com/taintkeeper/taintkeeper/internal/sentence"
	"github.com/taintkeeper/taintkeeper/taints"
)

// Longest is the longest simulation: a year.
const Longest = 365 * 24 * time.Hour

// Scenario is a valid simulation.
type Scenario struct {
	until time.Duration
	steps []step
}

// step is one step of a scenario.
type step struct {
	number int // in the list, from 1
	at     time.Duration
	kind   stepKind
	nodes  func(*corev1.Node) bool
	names  []string // these must exist
	edit   taints.Edit
	down   time.Duration
}

type stepKind int

const (
	falls stepKind = iota
	comesBack
	retaints
	serverDown
)

// Parse reads a scenario in YAML or JSON. Its error lists every mistake and the step that contains it.
func Parse(text []byte) (*Scenario, error) {
	simulation, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("read the scenario: %w", err)
	}
	if simulation.Kind == "" {
		return nil, errors.New("the scenario has no kind: set it to Simulation")
	}
	if want := cliv1alpha1.GroupVersion.String(); simulation.APIVersion != "" && simulation.APIVersion != want {
		return nil, fmt.Errorf("the scenario has apiVersion %q, but should have %s", simulation.APIVersion, want)
	}
	s := &Scenario{until: simulation.Until.Duration}
	var errs []error
	switch {
	case s.until <= 0:
		errs = append(errs, errors.New("until: say when the simulation ends, such as 45m"))
	case s.until > Longest:
		errs = append(errs, fmt.Errorf("until: %s is too long: at most %s can be simulated", s.until, Longest))
	}
	if len(simulation.Steps) == 0 {
		errs = append(errs, errors.New("steps: the list is empty, so nothing would happen"))
	}
	var wrong []sentence.About
	for i := range simulation.Steps {
		is, err := parseStep(&simulation.Steps[i], s.until)
		if is.number = i + 1; err != nil {
			wrong = append(wrong, is.says(err.Error()))
		}
		s.steps = append(s.steps, is)
	}
	slices.SortStableFunc(s.steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	return s, errors.Join(append(errs, errorsOf(wrong)...)...)
}

// says says what is wrong with a step.
func (is step) says(what string) sentence.About {
	return sentence.About{What: "step", Name: strconv.Itoa(is.number), Says: what}
}

// errorsOf returns an error for each mistake, with all steps that contain it.
func errorsOf(wrong []sentence.About) (errs []error) {
	for _, what := range sentence.Grouped(wrong) {
		errs = append(errs, errors.New(what))
	}
	return errs
}

// Silence is the scenario of nodes that give no sign of life for some time. It ends after the same time once more.
func Silence(nodes []*corev1.Node, lasts time.Duration) *Scenario {
	silent := map[string]bool{}
	for _, node := range nodes {
		silent[node.Name] = true
	}
	are := func(node *corev1.Node) bool { return silent[node.Name] }
	return &Scenario{until: 2 * lasts, steps: []step{
		{number: 1, kind: falls, nodes: are}, {number: 2, kind: comesBack, nodes: are, at: lasts},
	}}
}

// decode reads the single document of a scenario. Its error is short, and uses the words of a scenario.
func decode(text []byte) (simulation cliv1alpha1.Simulation, err error) {
	var found []byte
	for document := range bytes.SplitSeq(text, []byte("\n---")) {
		var content any
		if yaml.Unmarshal(document, &content) == nil && content == nil { // only comments
			continue
		}
		if found != nil {
			return simulation, errors.New("it has several documents, but should have one")
		}
		found = document
	}
	var is metav1.TypeMeta
	if yaml.Unmarshal(found, &is) == nil && is.Kind != "" && is.Kind != "Simulation" {
		return simulation, fmt.Errorf("it has kind %q, but should have kind Simulation; pass objects of the cluster with -f", is.Kind)
	}
	return simulation, plainly(yaml.UnmarshalStrict(found, &simulation))
}

// plainly describes what is wrong with a document in one line, without the prefixes that the libraries add.
func plainly(err error) error {
	if err == nil {
		return nil
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, prefix := range []string{"json: ", "time: ", "yaml: ", "unmarshal errors: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if strings.Contains(text, "duration") {
		text += ": write it as 90s, 45m or 2h30m"
	}
	return errors.New(text)
}

func parseStep(of *cliv1alpha1.SimulationStep, until time.Duration) (is step, err error) {
	is = step{at: of.At.Duration}
	kinds := []bool{of.Silent != nil, of.Back != nil, of.Taint != nil, of.APIServerDown != nil}
	is.kind = stepKind(slices.Index(kinds, true))
	switch {
	case is.at < 0:
		return is, fmt.Errorf("at: %s is before the start", is.at)
	case until > 0 && is.at > until:
		return is, fmt.Errorf("at: %s is after the end, which is at %s", is.at, until)
	case is.kind < 0 || slices.Contains(kinds[is.kind+1:], true):
		return is, errors.New("set exactly one of silent, back, taint and apiServerDown")
	}
	switch is.kind {
	case falls:
		err = is.selectNodes("silent", of.Silent)
	case comesBack:
		err = is.selectNodes("back", of.Back)
	case retaints:
		err = is.retaint(of.Taint)
	case serverDown:
		if is.down = of.APIServerDown.Duration; is.down <= 0 || is.down > Longest {
			err = fmt.Errorf("apiServerDown: %s must be more than 0s, and at most %s", is.down, Longest)
		}
	}
	return is, err
}

// retaint reads which taints change.
func (is *step) retaint(of *cliv1alpha1.SimulationTaint) (err error) {
	if len(of.Taints) == 0 {
		return errors.New("taint: list at least one taint, such as maintenance=now:NoExecute")
	}
	if err = is.selectNodes("taint", &of.SimulationNodes); err == nil {
		is.edit, err = taints.ParseEdit(of.Taints...)
	}
	return err
}

// selectNodes reads which nodes a step applies to.
func (is *step) selectNodes(field string, of *cliv1alpha1.SimulationNodes) error {
	if count(len(of.Nodes) > 0)+count(of.Selector != "")+count(of.All) != 1 {
		return fmt.Errorf("%s: set exactly one of nodes, selector and all", field)
	}
	selector, err := labels.Parse(of.Selector)
	switch {
	case err != nil:
		return fmt.Errorf("%s: selector %q: %w", field, of.Selector, err)
	case of.Selector != "" && selector.Empty():
		return fmt.Errorf("%s: selector %q selects all nodes: set all instead", field, of.Selector)
	case slices.Contains(of.Nodes, ""):
		return fmt.Errorf("%s: a name in nodes is empty", field)
	}
	is.names = of.Nodes
	is.nodes = func(node *corev1.Node) bool {
		if len(of.Nodes) > 0 {
			return slices.Contains(of.Nodes, node.Name)
		}
		return selector.Matches(labels.Set(node.Labels))
	}
	return nil
}

// check returns an error for each step that names a node that does not exist, or whose selector matches none.
func (s *Scenario) check(nodes []*corev1.Node) error {
	if len(nodes) == 0 {
		return errors.New("the cluster has no nodes, so nothing would happen")
	}
	var wrong []sentence.About
	for _, is := range s.steps {
		if is.nodes == nil {
			continue
		}
		unknown := slices.DeleteFunc(slices.Clone(is.names), func(name string) bool {
			return slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return node.Name == name })
		})
		switch {
		case len(unknown) > 0:
			nodes := sentence.Agree(len(unknown), "node ", "nodes ") + strings.Join(unknown, ", ")
			wrong = append(wrong, is.says("the cluster has no "+nodes))
		case !slices.ContainsFunc(nodes, is.nodes):
			wrong = append(wrong, is.says("no node matches the selector"))
		}
	}
	return errors.Join(errorsOf(wrong)...)
}

// String describes the length of the scenario.
func (s *Scenario) String() string {
	return fmt.Sprintf("%s in %s", sentence.Counted(len(s.steps), "step"), sentence.Duration(s.until))
}
