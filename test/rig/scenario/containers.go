// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/kubelets"
	"github.com/taintkeeper/taintkeeper/test/rig/oracle"
	"github.com/taintkeeper/taintkeeper/test/rig/stall"
)

// The containers of pods on a [Machine]. They write what they see.
const (
	// mainContainer is the container that every pod has.
	mainContainer = "main"
	hook          = "hook"
	sidecar       = "sidecar"
	initContainer = "init"
)

// Runs lets a pod run the rig's program, whose arguments say what it does at SIGTERM.
func Runs(args ...string) Edit {
	return func(pod *corev1.Pod) {
		pod.Spec.DNSPolicy = corev1.DNSDefault
		pod.Spec.Containers = []corev1.Container{container(mainContainer, append([]string{"run"}, args...)...)}
		pod.Spec.Volumes = []corev1.Volume{{Name: "seen", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: kubelets.SeenFolder},
		}}}
	}
}

// container runs a command of the rig's program under a name.
func container(name string, command ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: kubelets.Image, ImagePullPolicy: corev1.PullNever,
		Args: slices.Concat(command[:1], []string{"-name=" + name}, command[1:]),
		Env: []corev1.EnvVar{{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"},
		}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "seen", MountPath: "/seen"}},
	}
}

// Grace is the grace period of a pod.
func Grace(seconds int64) Edit {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
}

// Once is for a pod whose containers are not restarted when they end.
func Once(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }

// Hook gives the main container a preStop hook that takes a while.
func Hook(length string) Edit {
	return func(pod *corev1.Pod) {
		command := []string{kubelets.Program, "sleep", "-name=" + hook, length}
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}},
		}
	}
}

// Sidecar gives a pod a sidecar.
func Sidecar(pod *corev1.Pod) {
	second := container(sidecar, "run")
	second.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{second}
}

// Init gives a pod an init container that takes a while.
func Init(length string) Edit {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{container(initContainer, "sleep", length)}
	}
}

// Finalizer keeps the object of a pod.
func Finalizer(pod *corev1.Pod) { pod.Finalizers = []string{"taintkeeper.dev/test"} }

// Wrote waits until the containers of some pods have written something, such as "main starts".
func Wrote(what string, pods ...string) Step {
	return func(ctx context.Context, p *Play) error {
		for _, pod := range pods {
			if err := p.awaitSight(ctx, pod, what); err != nil {
				return err
			}
		}
		return nil
	}
}

func (p *Play) awaitSight(ctx context.Context, pod, what string) error {
	return await.Poll(ctx, func(context.Context) error {
		all, err := p.rig().SeenBy(uidInside(p.Named(pod)))
		if err == nil && !slices.ContainsFunc(all, func(s kubelets.Sight) bool { return s.String() == what }) {
			err = fmt.Errorf("the containers of pod %s have written %v, and not %q", pod, all, what)
		}
		return err
	})
}

// event is what a container writes, such as "main SIGTERM", and how long after its pod is due.
type event struct {
	after time.Duration
	what  string
}

func (e event) String() string { return e.after.Round(time.Millisecond).String() + " " + e.what }

// events parses what stories say, such as "4s main SIGTERM".
func events(said []string) (all []event) {
	for _, text := range said {
		after, what, _ := strings.Cut(text, " ")
		length, err := time.ParseDuration(after)
		if err != nil {
			panic(err)
		}
		all = append(all, event{length, what})
	}
	return all
}

// Saw wants the containers of a pod to have written exactly this since its story began, other than that they started,
// each on time: "4s main ends" is due 4 s after the pod is. A machine that was away when the pod was due is on time if
// it is once it is back.
func Saw(pod string, said ...string) Check {
	wanted := events(said)
	return func(ctx context.Context, p *Play) (Finding, error) {
		due := p.containersDue(p.Named(pod))
		last := wanted[len(wanted)-1].after
		sights, err := p.awaitSights(ctx, p.Named(pod), len(wanted), due.To.Add(last+p.Patience()+stall.TooLong))
		if err != nil {
			return Finding{}, err
		}
		seen, right, late := []event{}, len(sights) == len(wanted), false
		for i, s := range sights {
			seen = append(seen, event{s.At.Sub(due.From), s.String()})
			if i >= len(wanted) || s.String() != wanted[i].what || s.At.Before(due.From.Add(wanted[i].after)) {
				right, p.certain = false, true
				continue
			}
			to := due.To.Add(wanted[i].after)
			late = late || s.At.After(to.Add(p.judged(to, s.At)))
		}
		if len(sights) < len(wanted) {
			p.judged(due.To.Add(last), time.Now())
		}
		found := Finding{Seen: fmt.Sprintf("%s: %v", pod, seen), Right: right && !late}
		if !found.Right {
			found.Seen += fmt.Sprintf(", want %v", wanted)
		}
		return found, nil
	}
}

// SawNothing wants the containers of some pods to have got no signal, and not to have been restarted, since their
// stories began.
func SawNothing(pods ...string) Check {
	return func(_ context.Context, p *Play) (Finding, error) {
		found := Finding{Right: true}
		for _, pod := range pods {
			sights, err := p.sightsOf(p.Named(pod))
			if err != nil {
				return Finding{}, err
			}
			if len(sights) > 0 {
				p.certain = true
				found = found.And(Finding{Seen: fmt.Sprintf("%s: %v", pod, sights)})
			}
		}
		return found, nil
	}
}

// containersDue is when the containers of a pod should be told: when the pod is due or, if its machine was away, when
// that was back.
func (p *Play) containersDue(pod *Pod) oracle.Span {
	due := p.promise(pod).Due
	back := p.back[pod.node]
	return oracle.Span{From: oracle.Later(due.From, back.From), To: oracle.Later(due.To, back.To)}
}

// uidInside is the UID of a pod in its containers. The containers of a mirror pod see the UID of the static pod.
func uidInside(pod *Pod) types.UID {
	if hash, ok := pod.Annotations["kubernetes.io/config.hash"]; ok {
		return types.UID(hash)
	}
	return pod.UID
}

// sightsOf are what the containers of a pod wrote since its story began, except that each started for the first time.
func (p *Play) sightsOf(pod *Pod) (of []kubelets.Sight, err error) {
	all, err := p.rig().SeenBy(uidInside(pod))
	began, started := p.Began(pod), map[string]bool{}
	for _, s := range all {
		first := s.What == "starts" && s.Container != hook && !started[s.Container]
		if first {
			started[s.Container] = true
		} else if !s.At.Before(began) {
			of = append(of, s)
		}
	}
	return of, err
}

// awaitSights returns what containers wrote once that is enough, or it is too late.
func (p *Play) awaitSights(ctx context.Context, pod *Pod, count int, limit time.Time) ([]kubelets.Sight, error) {
	for {
		all, err := p.sightsOf(pod)
		if err != nil || len(all) >= count || time.Now().After(limit) {
			return all, err
		}
		if err := await.Pause(ctx, lookAgain); err != nil {
			return nil, err
		}
	}
}

// lookAgain is how often the file of the containers is read.
const lookAgain = 50 * time.Millisecond

// GoneAfter wants the object of a pod to be gone some time after the pod is due, and not before. How long the kubelet
// takes to clean up is not judged.
func GoneAfter(name string, length time.Duration) Check {
	return func(ctx context.Context, p *Play) (Finding, error) {
		pod := p.Named(name)
		err := await.Poll(ctx, func(context.Context) error {
			if p.Seen().Of(pod.UID).Gone.IsZero() {
				return fmt.Errorf("%s is still there", name)
			}
			return nil
		})
		if err != nil {
			return Finding{Seen: err.Error()}, context.Cause(ctx)
		}
		after := p.Seen().Of(pod.UID).Gone.Sub(p.containersDue(pod).From)
		p.certain = p.certain || after < length
		return Finding{name + " is gone after " + Seconds(after), after >= length}, nil
	}
}
