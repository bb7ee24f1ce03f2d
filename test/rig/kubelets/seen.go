// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package kubelets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SeenFolder is the folder of each machine that containers mount at /seen.
const SeenFolder = "/run/seen"

// Sight is something that a container saw or did.
type Sight struct {
	At        time.Time
	Pod       types.UID
	Container string
	What      string // starts, SIGTERM or ends
}

func (s Sight) String() string { return s.Container + " " + s.What }

// Seen returns what all containers of the rig have written so far, in the order in which they wrote it.
func (r *Rig) Seen() ([]Sight, error) {
	text, err := os.ReadFile(filepath.Join(r.seenFolder(), "log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what containers saw: %w", err)
	}
	return parse(string(text))
}

func parse(text string) (all []Sight, err error) {
	for line := range strings.Lines(text) {
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if len(words) != 4 {
			return nil, fmt.Errorf("a container wrote %q", line)
		}
		at, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a container wrote %q: %w", line, err)
		}
		all = append(all, Sight{time.Unix(0, at), types.UID(words[1]), words[2], words[3]})
	}
	return all, nil
}
