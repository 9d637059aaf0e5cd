//go:build system

package blackbox_test

import (
	"bufio"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/blackbox"
)

var loadFor = flag.Duration("load", 3*time.Second, "how long TestLoad records 100,000 requests/s")

// Of 100,000 requests/s, each is in the file or counted as lost, and memory stays what the configuration says.
func TestLoad(t *testing.T) {
	const records, rate, writers = 500_000, 100_000, 4
	dir := t.TempDir()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := heap()
	box, err := blackbox.New(blackbox.Config{Records: records, Dir: dir, Size: 1 << 30, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	end := box.Start(t.Context())
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(10 * time.Second) {
			box.Note("load") // so that the file goes on
		}
	}()
	rec, begin := box.Recorder(), time.Now()
	var added atomic.Uint64
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			n := 0
			for took := time.Duration(0); took < *loadFor; took = time.Since(begin) {
				for ; n < int(took.Seconds()*rate/writers); n++ {
					now := rec.Now()
					rec.Add(&recording.Record{Intended: now, Start: now, End: now, Inflight: 1, Class: rec.Class("GET /a")})
				}
				time.Sleep(time.Millisecond)
			}
			added.Add(uint64(n))
		})
	}
	all.Wait()
	took, used := time.Since(begin), heap()-before
	end()
	files, err := filepath.Glob(filepath.Join(dir, "*.rec"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := recording.NewReader(bufio.NewReader(f))
	read := uint64(0)
	for err == nil {
		if _, err = in.Read(); err == nil {
			read++
		}
	}
	if err != io.EOF || read+in.Lost() != added.Load() {
		t.Errorf("%d records and %d lost of %d requests: %v", read, in.Lost(), added.Load(), err)
	}
	if most := uint64(records*recording.Size*5/4 + 1<<20); used > most {
		t.Errorf("%d bytes of memory: want %d at most", used, most)
	}
	t.Logf("%.0f requests/s for %v: %d in the file, %d lost, %.1f MiB of memory", float64(added.Load())/took.Seconds(), took.Round(time.Millisecond), read, in.Lost(), float64(used)/(1<<20))
}
