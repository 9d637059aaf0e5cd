// Package pressuretest stands in for the kernel in tests of pressure on the processor.
package pressuretest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A Kernel writes the file that a pressure.Guard reads.
type Kernel struct {
	Path string

	t       *testing.T
	stalled time.Duration
}

// New returns a Kernel under which no work has waited.
func New(t *testing.T) *Kernel {
	t.Helper()
	k := &Kernel{Path: filepath.Join(t.TempDir(), "cpu.pressure"), t: t}
	k.Stall(0)
	return k
}

// Stall adds time in which work waited for the processor.
func (k *Kernel) Stall(d time.Duration) {
	k.t.Helper()
	k.stalled += d
	text := fmt.Sprintf("some avg10=1.00 avg60=2.00 avg300=3.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n", k.stalled.Microseconds())
	if err := os.WriteFile(k.Path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}
