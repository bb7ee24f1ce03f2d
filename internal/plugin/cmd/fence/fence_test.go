// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fence compares what every command that takes files says about random clusters with what it said before. No
// answer is right because it is stored here. A change that only moves code must change none, and the message of a change
// that corrects answers says which.
package fence

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/taintkeeper/taintkeeper/internal/plugin/cmd"
	"github.com/taintkeeper/taintkeeper/test/rig/await"
	"github.com/taintkeeper/taintkeeper/test/rig/sample"
)

const (
	clusters = 300
	golden   = "testdata/answers.txtar.gz"
	// shown is how many answers about a cluster, and differences in an answer, a failure shows.
	shown = 3
)

// TestAnswersAreWhatTheyWere asks about every cluster. Set UPDATE_FENCE to store the answers; the test then logs what has
// changed. Set FENCE to a folder to keep the files of the clusters there.
func TestAnswersAreWhatTheyWere(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	f := &fence{was: stored(t), places: map[string]int{}}
	f.is = maps.Clone(f.was)
	t.Cleanup(func() {
		for _, place := range slices.Sorted(maps.Keys(f.places)) {
			t.Logf("%4d answers differ: %s", f.places[place], place)
		}
		if updates() {
			store(t, f.is)
		}
	})
	debug.SetGCPercent(400) // the race detector makes collections expensive
	stride := sample.Stride(t, 3)
	klog.SetLogger(logr.Discard()) // the scheduler's code logs what it makes of tolerations
	for number := 0; number < clusters; number += stride {
		t.Run(fmt.Sprintf("%03d", number), func(t *testing.T) {
			t.Parallel()
			f.compare(t, number)
		})
	}
}

func updates() bool { return os.Getenv("UPDATE_FENCE") != "" }

// fence has the answers by the number of the cluster and the command line.
type fence struct {
	was map[string]string

	mu     sync.Mutex
	is     map[string]string
	places map[string]int // questions whose answers differ
}

func stored(t *testing.T) map[string]string {
	t.Helper()
	answers := map[string]string{}
	file, err := os.Open(golden)
	if errors.Is(err, fs.ErrNotExist) {
		return answers
	}
	await.Must(t, err)
	defer file.Close()
	reader, err := gzip.NewReader(file)
	await.Must(t, err)
	text, err := io.ReadAll(reader)
	await.Must(t, err)
	for _, answer := range txtar.Parse(text).Files {
		answers[answer.Name] = string(answer.Data)
	}
	return answers
}

func store(t *testing.T, answers map[string]string) {
	t.Helper()
	archive := &txtar.Archive{}
	byQuestion := func(a, b string) int { return cmp.Or(cmp.Compare(question(a), question(b)), cmp.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(answers), byQuestion) { // similar answers take little room
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(answers[name])})
	}
	var packed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	await.Must(t, err)
	_, err = writer.Write(txtar.Format(archive))
	await.Must(t, errors.Join(err, writer.Close()))
	await.Must(t, os.WriteFile(golden, packed.Bytes(), 0o644))
}

// compare asks about a cluster, and fails if an answer is not what it was.
func (f *fence) compare(t *testing.T, number int) {
	t.Helper()
	name, folder := fmt.Sprintf("%03d", number), t.TempDir()
	if keep := os.Getenv("FENCE"); keep != "" {
		folder = filepath.Join(keep, name)
		await.Must(t, os.MkdirAll(folder, 0o755))
	}
	answers := map[string]string{}
	for _, line := range write(t, drawCluster(t, number), folder, number) {
		answers[name+" "+line] = ask(t, folder, strings.Fields(line))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := maps.Clone(answers)
	maps.DeleteFunc(f.is, func(line, was string) bool {
		mine := strings.HasPrefix(line, name+" ")
		if mine {
			lines[line] = was
		}
		return mine
	})
	maps.Copy(f.is, answers)
	var differ []string
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		if f.was[line] != answers[line] {
			differ = append(differ, "  "+line+"\n"+f.difference(line, f.was[line], answers[line]))
		}
	}
	if len(differ) == 0 {
		return
	}
	tell := t.Errorf
	if updates() {
		tell = t.Logf
	}
	tell("%d of %d answers about cluster %s are not what they were. Its files and command lines, as of --at %s:\n"+
		"  FENCE=/tmp/fence go test ./internal/plugin/cmd/fence -run %s; cd /tmp/fence/%s; cat commands\n%s",
		len(differ), len(lines), name, now.Format("2006-01-02T15:04:05.00Z"), t.Name(), name, strings.Join(cut(differ), "\n"))
}

// cut returns the first few of many strings, and how many there are.
func cut(all []string) []string {
	if len(all) <= shown {
		return all
	}
	return append(slices.Clone(all[:shown]), fmt.Sprintf("  (%d more)", len(all)-shown))
}

// ask runs a command line, and returns all that it prints, with the exit code.
func ask(t *testing.T, folder string, line []string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	root := cmd.New(cmd.Env{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut},
		Clock:     clocktesting.NewFakePassiveClock(now), Version: "v0.0.0",
	})
	args := slices.Clone(line)
	for i, arg := range args {
		if arg == "cluster.json" || arg == "scenario.yaml" {
			args[i] = filepath.Join(folder, arg)
		}
	}
	root.SetArgs(args)
	head := ""
	if code := cmd.Fail(&errOut, root.ExecuteContext(t.Context())); code != cmd.ExitOK {
		head = fmt.Sprintf("exit code %d\n", code)
	}
	for text := range strings.Lines(errOut.String()) {
		head += "stderr: " + text
	}
	return strings.ReplaceAll(head+out.String(), folder+"/", "")
}

// question is what a command line asks, without what it asks about.
func question(line string) string {
	words := strings.Fields(line)[1:]
	kept := words[:1:1]
	for i, word := range words {
		switch word {
		case "--where-to", "--silent":
			kept = append(kept, word)
		case "-o":
			kept = append(kept, word, words[i+1])
		}
	}
	return strings.Join(kept, " ")
}

// difference returns the lines of an answer that differ, with what surrounds them.
func (f *fence) difference(line, was, is string) string {
	const most = 30
	f.places[question(line)]++
	lines := strings.SplitAfter(string(diff.Diff("was", []byte(was), "is", []byte(is))), "\n")
	return "    " + strings.Join(lines[1:min(len(lines), most)], "    ")
}
