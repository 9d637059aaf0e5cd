package terminal

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Progress writes a line every ten seconds if the output is not a terminal, and
// TerminalProgress nothing.
func TestProgressWithoutTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, bar strings.Builder
		var done atomic.Int64
		stop := TimeProgress(&out, "measured", time.Minute, &done)
		stopBar := TerminalProgress(&bar, "measured", time.Minute, &done)
		done.Store(int64(20 * time.Second))
		time.Sleep(25 * time.Second)
		stop()
		stopBar()
		if want := strings.Repeat("measured: 20s of 1m0s\n", 2); out.String() != want || bar.Len() > 0 {
			t.Errorf("%q and %q: want %q and nothing", out.String(), bar.String(), want)
		}
	})
}
