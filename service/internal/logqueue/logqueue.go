// Package logqueue writes a log in the background: a reader that is slow, stands still or
// has ended neither delays the callers of the logger nor ends the process.
package logqueue

import (
	"io"
	"log/slog"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	maxBytes = 1 << 20     // of lines that wait for the reader; more are lost
	maxFlush = time.Second // how long the end of a log waits for its reader
)

// A queue holds the lines that wait for the reader. It is safe for concurrent use.
type queue struct {
	added chan struct{} // holds a token if the writer may have something to do
	ended chan struct{} // closed when all lines are written

	mu     sync.Mutex // guards what follows
	lines  []byte
	lost   int // lines that found no room, and are not reported
	closed bool
}

// New returns a logger that writes to out in the background, and a function that ends it.
// Beyond 1 MiB of lines that out has not taken, further lines are lost; the log then says how
// many. The end waits for out, but at most a second.
//
// From then on, writing to a pipe without a reader does not end the process: SIGPIPE is ignored.
func New(out io.Writer, handler func(io.Writer) slog.Handler) (log *slog.Logger, end func()) {
	signal.Ignore(syscall.SIGPIPE)
	q := &queue{added: make(chan struct{}, 1), ended: make(chan struct{})}
	log = slog.New(handler(q))
	go q.writeTo(out, log)
	return log, q.end
}

// Write adds a line. It does not wait, and never fails.
func (q *queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	if len(q.lines)+len(line) > maxBytes {
		q.lost++
	} else {
		q.lines = append(q.lines, line...)
	}
	q.mu.Unlock()
	q.wake()
	return len(line), nil
}

func (q *queue) wake() {
	select {
	case q.added <- struct{}{}:
	default: // the writer will wake anyway
	}
}

func (q *queue) end() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
	select {
	case <-q.ended:
	case <-time.After(maxFlush):
	}
}

func (q *queue) writeTo(out io.Writer, log *slog.Logger) {
	defer close(q.ended)
	var lines []byte
	for range q.added {
		for {
			q.mu.Lock()
			lines, q.lines = q.lines, lines[:0]
			lost, closed := q.lost, q.closed
			q.lost = 0
			q.mu.Unlock()
			if len(lines) == 0 {
				if closed {
					return
				}
				break
			}
			_, _ = out.Write(lines) // there is nowhere to report it
			if lost > 0 {
				log.Warn("lines of the log are lost: its reader is too slow", "lines", lost)
			}
		}
	}
}
