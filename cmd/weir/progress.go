package main

import (
	"fmt"
	"io"
	"os"
	"time"
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

// isTerminal reports whether w is a screen.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
