package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// isTerminal reports whether w is a screen, on which a line can be drawn over.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// countdown says what is done and how long it still takes: every second on a
// terminal, once elsewhere. Stop clears the line.
func countdown(w io.Writer, what string, d time.Duration) (stop func()) {
	if !isTerminal(w) {
		fmt.Fprintf(w, "%s: %v\n", what, d.Round(time.Second))
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		began := time.Now()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			left := max(d-time.Since(began), 0)
			fmt.Fprintf(w, "\r\x1b[K%s: %v left", what, left.Round(time.Second))
			select {
			case <-quit:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(quit); <-done }
}
