// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package apicall

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

const every = 100 * time.Millisecond

// line is a connection that can hold much unread data.
type line struct {
	net.Conn

	news chan struct{} // with room for one element: something came, or the line ended

	mu    sync.Mutex
	text  bytes.Buffer
	ended bool
	reads int
}

func newLine() *line { return &line{news: make(chan struct{}, 1)} }

func (l *line) send(text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(text)
	l.wake()
}

func (l *line) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

func (l *line) wake() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Read implements net.Conn.
func (l *line) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.text.Len() == 0 {
		if l.ended {
			return 0, io.ErrUnexpectedEOF
		}
		l.mu.Unlock()
		<-l.news
		l.mu.Lock()
	}
	l.reads++
	return l.text.Read(p)
}

func gathered(t *testing.T, l *line) net.Conn {
	t.Helper()
	return connect(t, Gathered(dialing(l), every))
}

func dialing(l *line) *rest.Config {
	return &rest.Config{Dial: func(context.Context, string, string) (net.Conn, error) { return l, nil }}
}

func connect(t *testing.T, config *rest.Config) net.Conn {
	t.Helper()
	conn, err := config.Dial(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // virtual time in a synctest bubble
	synctest.Wait()
}

func TestSmallEventsAreReadTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		smallEventsAreReadTogether(t, l, gathered(t, l))
	})
}

func TestSmallEventsAreReadTogetherOnAConnectionThatCanBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		apart, _ := Apart(Gathered(dialing(l), every))
		smallEventsAreReadTogether(t, l, connect(t, apart))
	})
}

func smallEventsAreReadTogether(t *testing.T, l *line, conn net.Conn) {
	t.Helper()
	var got bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(&got, conn)
	}()
	event := []byte("an event")
	for range 100 {
		l.send(event)
		sleep(10 * time.Millisecond)
	}
	sleep(every)
	l.end()
	<-ended
	if want := bytes.Repeat(event, 100); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes arrived, want %d", got.Len(), len(want))
	}
	if l.reads > 11 {
		t.Errorf("the connection was read %d times within a second, want 11 at most", l.reads)
	}
}

func TestAnEventAfterAPauseIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		conn := gathered(t, l)
		began := time.Now()
		l.send([]byte("a"))
		buffer := make([]byte, 10)
		if _, err := conn.Read(buffer); err != nil || time.Since(began) != 0 {
			t.Errorf("the first came after %s (%v), want at once", time.Since(began), err)
		}
		l.send([]byte("b"))
		if _, err := conn.Read(buffer); err != nil || time.Since(began) != every {
			t.Errorf("the second came after %s (%v), want %s", time.Since(began), err, every)
		}
		sleep(time.Second)
		l.send([]byte("c"))
		began = time.Now()
		if _, err := conn.Read(buffer); err != nil || time.Since(began) != 0 {
			t.Errorf("the one after a pause came after %s (%v), want at once", time.Since(began), err)
		}
	})
}

func TestWhatIsMuchIsReadWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		conn := gathered(t, l)
		list := bytes.Repeat([]byte("lease"), 1<<20)
		l.send(list)
		began := time.Now()
		if _, err := io.ReadFull(conn, make([]byte, len(list))); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > every {
			t.Errorf("a list was read in %s", took)
		}
	})
}

func TestTheEndOfTheConnectionIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine()
		conn := gathered(t, l)
		l.send([]byte("last"))
		l.end()
		got, err := io.ReadAll(conn)
		if string(got) != "last" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("read %q and %v", got, err)
		}
	})
}
