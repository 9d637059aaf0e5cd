package terminal

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Progress shows a status line until stop is called. A terminal shows one line that
// is updated every second; any other output gets a new line every ten seconds.
func Progress(w io.Writer, line func(elapsed time.Duration) string) (stop func()) {
	period, format, clear := 10*time.Second, "%s\n", ""
	if Is(w) {
		period, format, clear = time.Second, "\r\x1b[K%s", "\r\x1b[K"
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var shown sync.WaitGroup
	shown.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				fmt.Fprint(w, clear)
				return
			case <-tick.C:
				fmt.Fprintf(w, format, line(time.Since(began)))
			}
		}
	})
	return func() { cancel(); shown.Wait() }
}

// TimeProgress shows how much of a total is done, and on a terminal about how long the
// rest takes. Done is a duration, which grows up to total.
func TimeProgress(w io.Writer, what string, total time.Duration, done *atomic.Int64) (stop func()) {
	return Progress(w, func(elapsed time.Duration) string {
		d := time.Duration(done.Load())
		line := fmt.Sprintf("%s: %v of %v", what, d.Round(time.Second), total.Round(time.Second))
		if Is(w) && d > 0 {
			left := time.Duration(float64(elapsed) * (float64(total)/float64(d) - 1))
			line += fmt.Sprintf(" (%.0f %%), about %v left", 100*d.Seconds()/total.Seconds(), left.Round(time.Second))
		}
		return line
	})
}

// TerminalProgress is TimeProgress on a terminal, and shows nothing elsewhere.
func TerminalProgress(w io.Writer, what string, total time.Duration, done *atomic.Int64) (stop func()) {
	if !Is(w) {
		return func() {}
	}
	return TimeProgress(w, what, total, done)
}
