package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows a line about long work until stop: on a terminal one that is
// drawn over every second, elsewhere a new one every ten.
func progress(w io.Writer, line func(elapsed time.Duration) string) (stop func()) {
	period, format, clear := 10*time.Second, "%s\n", ""
	if isTerminal(w) {
		period, format, clear = time.Second, "\r\x1b[K%s", "\r\x1b[K"
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		began := time.Now()
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, clear)
				return
			case <-tick.C:
				fmt.Fprintf(w, format, line(time.Since(began)))
			}
		}
	}()
	return func() { close(quit); <-done }
}

// timeProgress shows a bar on a terminal, and elsewhere a line every ten seconds.
func timeProgress(w io.Writer, what string, total time.Duration, done *atomic.Int64) (stop func()) {
	if isTerminal(w) {
		return bar(w, what, total, done)
	}
	return progress(w, func(time.Duration) string {
		return fmt.Sprintf("%s: %v of %v", what, time.Duration(done.Load()).Round(time.Second), total.Round(time.Second))
	})
}

// bar shows a bar, once it takes longer than a second.
func bar(w io.Writer, what string, total time.Duration, done *atomic.Int64) (stop func()) {
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-quit:
			return
		case <-time.After(time.Second):
		}
		bar := progressbar.NewOptions64(int64(total), progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
			progressbar.OptionSetWidth(40), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			_ = bar.Set64(min(done.Load(), int64(total)-1)) // a screen that is gone shows nothing
			select {
			case <-quit:
				_ = bar.Finish()
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(quit); <-gone }
}

// isTerminal reports whether w is a screen.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
