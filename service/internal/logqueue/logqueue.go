// Package logqueue writes a log in the background: a reader that is slow, stands still or
// has ended neither delays the callers of the logger nor ends the process.
package logqueue

import (
	"bytes"
	"io"
	"log/slog"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	maxBytes = 1 << 20     // of lines that wait for the reader; more are lost
	maxFlush = time.Second // how long the end of a log waits for its reader
)

// A Queue holds the lines of a log that wait for their reader. It is safe for concurrent use.
type Queue struct {
	added chan struct{} // holds a token if the writer may have something to do
	ended chan struct{} // closed when all lines are written
	lost  atomic.Uint64 // lines that found no room, or that the reader did not take

	mu         sync.Mutex // guards what follows
	lines      []byte
	unreported int // lines that found no room since the log said so
	closed     bool
}

// New returns a logger that writes to out in the background, and its Queue. Beyond 1 MiB of
// lines that out has not taken, further lines are lost; the log then says how many.
//
// From then on, writing to a pipe without a reader does not end the process: SIGPIPE is ignored.
func New(out io.Writer, handler func(io.Writer) slog.Handler) (*slog.Logger, *Queue) {
	signal.Ignore(syscall.SIGPIPE)
	q := &Queue{added: make(chan struct{}, 1), ended: make(chan struct{})}
	log := slog.New(handler(q))
	go q.writeTo(out, log)
	return log, q
}

// Metric returns the counter weir_log_lines_lost_total.
func (q *Queue) Metric() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "weir_log_lines_lost_total", Help: "Lines of the log that were lost because its reader is too slow, or has ended.",
	}, func() float64 { return float64(q.lost.Load()) })
}

// Write adds a line. It does not wait, and never fails.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	if len(q.lines)+len(line) > maxBytes {
		q.lost.Add(1)
		q.unreported++
	} else {
		q.lines = append(q.lines, line...)
	}
	q.mu.Unlock()
	q.wake()
	return len(line), nil
}

func (q *Queue) wake() {
	select {
	case q.added <- struct{}{}:
	default: // the writer will wake anyway
	}
}

// End ends the log. It waits until all lines are written, but at most a second.
func (q *Queue) End() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
	select {
	case <-q.ended:
	case <-time.After(maxFlush):
	}
}

func (q *Queue) writeTo(out io.Writer, log *slog.Logger) {
	defer close(q.ended)
	var lines []byte
	for range q.added {
		for {
			q.mu.Lock()
			lines, q.lines = q.lines, lines[:0]
			unreported, closed := q.unreported, q.closed
			q.unreported = 0
			q.mu.Unlock()
			if len(lines) == 0 {
				if closed {
					return
				}
				break
			}
			if n, err := out.Write(lines); err != nil { // not logged: that would fail, too
				q.lost.Add(uint64(bytes.Count(lines[n:], []byte("\n"))))
			}
			if unreported > 0 {
				log.Warn("lines of the log are lost: its reader is too slow", "lines", unreported)
			}
		}
	}
}
