package blackbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fill has writes to the open file with a name fail, as on a full disk.
func fill(t *testing.T, name string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range open {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == name {
			n, err := strconv.Atoi(e.Name())
			if err == nil {
				err = syscall.Dup3(int(full.Fd()), n, syscall.O_CLOEXEC)
			}
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s is not open", name)
}

// When the disk gets full, what was written before is kept. A file without a whole part is not.
func TestAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, t.TempDir())
		time.Sleep(200*time.Second + time.Millisecond)
		g.Note("limit_used")
		time.Sleep(30*time.Second + 500*time.Millisecond) // between two writes
		fill(t, filepath.Join(g.dir, g.files()[0]))
		time.Sleep(time.Hour)
		g.stop()
		if got := g.files(); len(got) != 1 || !strings.HasSuffix(got[0], "-limit_used.rec") {
			t.Fatalf("%v", got)
		}
		if first, last := g.span(g.files()[0]); first != 141*time.Second || last != 230*time.Second {
			t.Errorf("from %v to %v", first, last)
		}
		if !strings.Contains(g.log.String(), `level=ERROR msg="the recording is cut off" file=`) {
			t.Errorf("%s", &g.log)
		}
		if got := g.metrics(); got != "3 failures_total=1 files_total=0 lost_total=1" {
			t.Error(got)
		}
	})
}
