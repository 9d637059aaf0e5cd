package logqueue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func text(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) }

// lost returns the value of the metric.
func lost(t *testing.T, q *Queue) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(q.Metric())
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "weir_log_lines_lost_total" {
		t.Fatalf("%v, %v", families, err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

// A gate lets its reader take writes only while it is open.
type gate struct {
	open chan struct{}
	bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(p)
}

func TestNobodyWaitsForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &gate{open: make(chan struct{})}
		log, queue := New(out, text)
		log.Info("first")
		synctest.Wait() // its write has begun
		start := time.Now()
		const size, lines = 10_000, 300
		for range lines {
			log.Info(strings.Repeat("x", size))
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the log delayed its callers by %v", d)
		}
		queue.End()
		if d := time.Since(start); d != maxFlush {
			t.Errorf("the end took %v without a reader, want %v", d, maxFlush)
		}
		close(out.open)
		synctest.Wait()
		got := out.String()
		written := strings.Count(got, "xxx\n")
		if want := fmt.Sprintf("lines=%d\n", lines-written); !strings.HasSuffix(got, want) {
			t.Errorf("the log ends with %q, want %q", got[max(len(got)-200, 0):], want)
		}
		if got := lost(t, queue); got != float64(lines-written) {
			t.Errorf("the metric counts %v lost lines, want %d", got, lines-written)
		}
		if bytes := written * size; bytes > maxBytes || bytes < maxBytes*9/10 {
			t.Errorf("%d bytes waited, want at most %d", bytes, maxBytes)
		}
	})
}

func TestEndWritesAllLinesInOrder(t *testing.T) {
	var out bytes.Buffer
	log, queue := New(&out, text)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 250 {
				log.Info("a line")
			}
		})
	}
	all.Wait()
	log.Info("the last")
	queue.End()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 1001 || !strings.Contains(lines[1000], "the last") {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

// A writer that fails loses its lines, which count, and nothing else.
func TestBrokenWriter(t *testing.T) {
	out, in := io.Pipe()
	out.CloseWithError(errors.New("no reader"))
	log, queue := New(in, text)
	log.Info("first")
	log.Info("second")
	queue.End()
	if got := lost(t, queue); got != 2 {
		t.Errorf("the metric counts %v lost lines, want 2", got)
	}
}
