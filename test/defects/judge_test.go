// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/taintkeeper/taintkeeper/test/rig/auditlog"
	. "github.com/taintkeeper/taintkeeper/test/rig/scenario"
)

// TestEachJudgeFindsWhatIsWrong shows what each judge takes for right, and each reason for which it finds something
// wrong. docs/defects.md has what they say.
func TestEachJudgeFindsWhatIsWrong(t *testing.T) {
	crowd := func(pending, due float64) Finding {
		return judgeCrowd(weight{80, 0}, weight{pending, 0}, weight{due, 0})
	}
	silence := func(seconds ...int) Finding {
		found := map[string]time.Duration{}
		for i, after := range seconds {
			found[fmt.Sprint(i)] = time.Duration(after) * time.Second
		}
		return (&silence{count: 2}).judge(found, 4*time.Second, time.Minute)
	}
	const gauge, result, flags = "pending 2", `{result="gone"}`, "      --dry-run   observe only\n"
	for _, row := range []struct {
		what  string
		found Finding
		right bool
	}{
		{"a storm", storms(150, 40*time.Millisecond, 150), true},
		{"a storm whose first pod leaves late", storms(150, 10*time.Second, 150), false},
		{"a storm whose pods are read", storms(150, time.Second, 300), false},
		{"a storm in which not all pods leave", storms(149, time.Second, 150), false},
		{"a storm in which no pod leaves", storms(0, 0, 150), false},
		{"durations in seconds", histogram(t, "5", "5", "0.5"), true},
		{"durations above the last bucket", histogram(t, "0", "5", "2.5e+18"), false},
		{"negative durations", histogram(t, "5", "5", "-8e+18"), false},
		{"durations that the buckets do not hold", histogram(t, "5", "5", "9e+9"), false},
		{"no durations", histogram(t, "0", "0", "0"), false},
		{"all that operators need", visible(t, gauge, result, flags), true},
		{"a gauge of nothing", visible(t, "pending 0", result, flags), false},
		{"no result", visible(t, gauge, `{zone="a"}`, flags), false},
		{"no dry run", visible(t, gauge, result, "  --other"), false},
		{"as many goroutines as before", crowd(81, 98), true},
		{"a goroutine per pod that is due", crowd(81, 2080), false},
		{"a goroutine per pod that is pending", crowd(2080, 81), false},
		{"an event with the pod's UID", marks("2"), true},
		{"an event without it", marks(""), false},
		{"no event", marks(), false},
		{"silent nodes that are found on time", silence(21, 28), true},
		{"one that is found early", silence(19, 21), false},
		{"one that is found late", silence(21, 30), false},
		{"one that is never found", silence(21), false},
	} {
		if row.found.Right != row.right || row.found.Seen == "" {
			t.Errorf("%s: %v", row.what, row.found)
		}
	}
}

// storms judges a storm in which some pods leave, the first after a while, and there are other calls.
func storms(leave int, first time.Duration, otherCalls int) Finding {
	began := time.Now()
	var calls []auditlog.Event
	for range otherCalls {
		calls = append(calls, auditlog.Event{Verb: "patch", Resource: "pods/status"})
	}
	calls = append(calls, auditlog.Event{Verb: "delete", Resource: "pods", Code: 409, Answered: began}) // does not count
	for range leave {
		calls = append(calls, auditlog.Event{Verb: "delete", Resource: "pods", Code: 200, Answered: began.Add(first)})
	}
	return judgeStorm(calls, began, func(_, _ time.Time) time.Duration { return 0 })
}

func parsed(t *testing.T, text string) metrics {
	t.Helper()
	found, err := parseMetrics(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func histogram(t *testing.T, within, count, sum string) Finding {
	t.Helper()
	found, err := parsed(t, fmt.Sprintf("# TYPE h histogram\nh_bucket{le=\"240\"} %s\nh_bucket{le=\"+Inf\"} %s\nh_sum %s\nh_count %[2]s\n",
		within, count, sum)).only("h")
	if err != nil {
		t.Fatal(err)
	}
	return judgeDuration(found.GetHistogram())
}

func visible(t *testing.T, gauge, label, flags string) Finding {
	t.Helper()
	return judgeVisibility(parsed(t, "# TYPE x_evictions_pending gauge\nx_evictions_"+gauge+"\n# TYPE x_evictions_total counter\nx_evictions_total"+label+" 0\n"), flags)
}

func marks(uids ...types.UID) Finding {
	var said []corev1.Event
	for _, uid := range uids {
		said = append(said, corev1.Event{InvolvedObject: corev1.ObjectReference{UID: uid}})
	}
	return judgeMarks(said, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "2"}})
}
