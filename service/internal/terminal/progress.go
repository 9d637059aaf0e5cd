package terminal

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows a status line until stop is called. A terminal shows one line that
// is updated every second; any other output gets a new line every ten seconds.
func Progress(w io.Writer, line func(elapsed time.Duration) string) (stop func()) {
	period, format, clear := 10*time.Second, "%s\n", ""
	if Is(w) {
		period, format, clear = time.Second, "\r\x1b[K%s", "\r\x1b[K"
	}
	began := time.Now()
	end := repeat(period, func() { fmt.Fprintf(w, format, line(time.Since(began))) })
	return func() { end(); fmt.Fprint(w, clear) }
}

// repeat calls f periodically until stop is called.
func repeat(period time.Duration, f func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() { close(quit); <-done }
}

// TimeProgress shows a bar on a terminal, and elsewhere a line every ten seconds.
// Done is a duration, which grows up to total.
func TimeProgress(w io.Writer, what string, total time.Duration, done *atomic.Int64) (stop func()) {
	if Is(w) {
		return Bar(w, what, total, done)
	}
	return Progress(w, func(time.Duration) string {
		return fmt.Sprintf("%s: %v of %v", what, time.Duration(done.Load()).Round(time.Second), total.Round(time.Second))
	})
}

// Bar shows a progress bar after the first second, if w is a terminal.
func Bar(w io.Writer, what string, total time.Duration, done *atomic.Int64) (stop func()) {
	if !Is(w) {
		return func() {}
	}
	bar := progressbar.NewOptions64(int64(total), progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(40),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
	began := time.Now()
	end := repeat(100*time.Millisecond, func() {
		if time.Since(began) >= time.Second {
			_ = bar.Set64(min(done.Load(), int64(total)-1)) // a terminal that has gone away needs no bar
		}
	})
	return func() { end(); _ = bar.Finish() }
}
