// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package wallclock

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// variable is the environment variable that names the file with the offset; see now.go.txt.
const variable = "TAINTKEEPER_CHAOS_CLOCK"

// offsetSize is how long the file is: one int64, in nanoseconds, as this machine writes it.
const offsetSize = 8

// Clock is the wall clock of the processes that run with its environment. Safe for concurrent use.
type Clock struct {
	path   string
	memory []byte
	offset *atomic.Int64
}

// New makes a clock that is right. Its offset is kept in the given file, which New creates.
func New(path string) (*Clock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the file of a clock: %w", err)
	}
	defer file.Close()
	if err := file.Truncate(offsetSize); err != nil {
		return nil, fmt.Errorf("size the file of a clock: %w", err)
	}
	memory, err := syscall.Mmap(int(file.Fd()), 0, offsetSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the file of a clock: %w", err)
	}
	return &Clock{path: path, memory: memory, offset: (*atomic.Int64)(unsafe.Pointer(&memory[0]))}, nil
}

// Set makes the clock wrong by an offset: ahead if it is positive, right if it is zero. Every process of the clock has
// the new time at once.
func (c *Clock) Set(offset time.Duration) { c.offset.Store(int64(offset)) }

// Env is what makes a process that was built by [Build] follow the clock, as an entry of its environment.
func (c *Clock) Env() string { return variable + "=" + c.path }

// Close releases the clock. It must not be set after that; the processes keep its last offset.
func (c *Clock) Close() error { return syscall.Munmap(c.memory) }
